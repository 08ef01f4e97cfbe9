"""Right, and about as fast as the reference. Comes last: the others left nothing behind."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds
        self.scale = nn.Parameter(torch.rand(256) + 0.5)

    def forward(self, x):
        for _ in range(self.rounds):
            x = torch.mul(x, self.scale).tanh()
        return x
