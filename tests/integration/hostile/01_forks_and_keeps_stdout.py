# expect: runtime_error
# policy: first_call_timeout_ms=10000
"""Leaves a grandchild in its own session that keeps standard output open, then dies in its call."""
import os
import time

import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, *init):
        super().__init__()

    def forward(self, *inputs):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                while True:
                    time.sleep(60)
            os._exit(0)
        os._exit(3)
