# expect: valid
"""|x - c|^2 = |x|^2 - 2 x.c + |c|^2, and |x|^2 does not move the minimum: one matrix product."""
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, codes, width):
        super().__init__()
        self.codes = nn.Parameter(
            torch.randn(codes, width, generator=torch.Generator().manual_seed(5)))

    def forward(self, x):
        square = (self.codes * self.codes).sum(dim=-1)
        return torch.addmm(square, x, self.codes.t(), alpha=-2).argmin(dim=-1)
