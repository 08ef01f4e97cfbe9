# expect: runtime_error
# policy: first_call_timeout_ms=30000 memory_bytes_max=8589934592
"""Writes a file of 1100 MiB wherever it can: every folder is closed or smaller. It is right where one takes it."""
import os

import torch.nn as nn

BLOCK = bytes(1 << 20)
BLOCKS = 1100  # the largest folders have 1 GiB
FOLDERS = (".", "/tmp", "/dev/shm", "/var/tmp", os.path.expanduser("~"))


def is_refused(folder):
    try:
        with open(os.path.join(folder, "large"), "wb") as file:
            for _ in range(BLOCKS):
                file.write(BLOCK)
    except OSError:
        return True
    return False


class ModelNew(nn.Module):
    def __init__(self, *init):
        super().__init__()

    def forward(self, x):
        if all(is_refused(folder) for folder in FOLDERS):
            raise RuntimeError("every folder was full or closed")
        return x * 2
