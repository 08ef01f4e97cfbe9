# expect: runtime_error
# policy: first_call_timeout_ms=10000
"""Aborts in its call."""
import os

import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, *init):
        super().__init__()

    def forward(self, x):
        os.abort()
