"""Ends its process in the second call."""

import os

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds
        self.scale = nn.Parameter(torch.rand(256) + 0.5)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        if self.calls == 2:
            os.abort()
        for _ in range(self.rounds):
            x = torch.tanh(x * self.scale)
        return x
