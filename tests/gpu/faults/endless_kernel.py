# expect: timeout
# policy: first_call_timeout_ms=4000
# needs: gpu
"""A kernel that never ends, in a call."""
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        torch.cuda._sleep(1 << 60)
        return x * 2
