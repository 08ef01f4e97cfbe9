"""The task of the canaries: small enough that a round of them takes seconds."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds
        self.scale = nn.Parameter(torch.rand(256) + 0.5)

    def forward(self, x):
        for _ in range(self.rounds):
            x = torch.tanh(x * self.scale)
        return x


def get_inputs():
    return [torch.randn(256, 256)]


def get_init_inputs():
    return [4]
