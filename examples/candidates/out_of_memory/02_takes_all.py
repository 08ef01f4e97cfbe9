# expect: out_of_memory
# policy: memory_bytes_max=2147483648
"""Takes memory, and writes to it, until there is none."""
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()

    def forward(self, x):
        kept = []
        while True:
            kept.append(torch.ones(64 << 20, dtype=torch.uint8))
