"""Right, and eight times the work: a clock that sees none of it is no clock."""

import torch
from torch import nn

TIMES = 8


class ModelNew(nn.Module):
    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds
        self.scale = nn.Parameter(torch.rand(256) + 0.5)

    def forward(self, x):
        for _ in range(TIMES):
            y = x
            for _ in range(self.rounds):
                y = torch.tanh(y * self.scale)
        return y
