# expect: incorrect
"""Counts from one. Integer outputs have no tolerance that could hide it."""
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, codes, width):
        super().__init__()
        self.codes = nn.Parameter(
            torch.randn(codes, width, generator=torch.Generator().manual_seed(5)))

    def forward(self, x):
        return torch.cdist(x, self.codes).argmin(dim=-1) + 1
