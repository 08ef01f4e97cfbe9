# expect: valid
# policy: first_call_timeout_ms=30000
"""Prints 1 GB in its first call, then is right: nobody keeps the text, nobody waits for it for ever."""
import os

import torch.nn as nn

LINE = b"x" * (1 << 20)


class ModelNew(nn.Module):
    def __init__(self, *init):
        super().__init__()
        self.has_printed = False

    def forward(self, x):
        if not self.has_printed:
            self.has_printed = True
            for _ in range(1024):
                left = memoryview(LINE)
                while left:
                    left = left[os.write(1, left):]
        return x * 2
