# expect: runtime_error
# policy: first_call_timeout_ms=10000
"""Prints bytes that are no text, and a terminal's escape sequences, on both streams; raises with some."""
import os

import torch.nn as nn

NOISE = bytes(range(256)) + b"\xff\xfe\xc3\x28\x1b]0;title\x07\x1b[2J\n"


class ModelNew(nn.Module):
    def __init__(self, *init):
        super().__init__()

    def forward(self, x):
        os.write(1, NOISE)
        os.write(2, NOISE)
        raise RuntimeError("noise \udcff \x1b[31m \x00 end")
