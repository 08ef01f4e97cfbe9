"""A correct candidate that names its process, so that a test can find it among the sandboxes.

It runs the task's own computation; only its calls are slow, so that a test can act in the middle.
"""

import ctypes
import time

import torch
import torch.nn as nn

time.sleep(2)  # long enough for the compile stage to be seen


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        ctypes.CDLL(None).prctl(15, b"pike_slow", 0, 0, 0)  # PR_SET_NAME
        self.linear = nn.Linear(width, width)

    def forward(self, x):
        time.sleep(0.2)
        return torch.relu(self.linear(x))
