# expect: runtime_error
# policy: first_call_timeout_ms=30000 memory_bytes_max=8589934592
"""Writes files of 1 GB wherever it can, then gives up: its temporary folder is small."""
import os

import torch.nn as nn

BLOCK = bytes(1 << 20)


class ModelNew(nn.Module):
    def __init__(self, *init):
        super().__init__()

    def forward(self, x):
        failures = 0
        for folder in (".", "/tmp", "/dev/shm", "/var/tmp", os.path.expanduser("~")):
            try:
                with open(os.path.join(folder, "large"), "wb") as file:
                    for _ in range(1024):
                        file.write(BLOCK)
            except OSError:
                failures += 1
        raise RuntimeError(f"{failures} folders were full or closed")
