"""A correct candidate that keeps the GPU busy for seconds in one of its calls.

Its process is named by the call that it is in, once the kernels of that call are queued, so that a
test can tell from outside. Calls: 1 first, 2-6 verified, 7 warm-up, 8-10 timed.
"""

import ctypes
import time

import torch
import torch.nn as nn

LONG_CALL = 3
SECONDS = 3.0
PIECES = 50
CYCLES_PER_S = 1.98e9  # of an H200; on another GPU it takes somewhat more or less


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.calls = 0
        self.name_process = ctypes.CDLL(None).prctl
        self.linear = nn.Linear(width, width)

    def forward(self, x):
        self.calls += 1
        y = torch.relu(self.linear(x))
        is_long = self.calls == LONG_CALL
        if is_long and x.is_cuda:
            for _ in range(PIECES):
                torch.cuda._sleep(int(SECONDS / PIECES * CYCLES_PER_S))
        self.name_process(15, f"pike_call_{self.calls}".encode(), 0, 0, 0)  # PR_SET_NAME
        if is_long and not x.is_cuda:
            time.sleep(SECONDS)
        return y
