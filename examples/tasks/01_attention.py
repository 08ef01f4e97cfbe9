"""Causal self-attention written step by step, as one would on a whiteboard."""
import math

import torch
import torch.nn as nn

BATCH, LENGTH, WIDTH, HEADS = 4, 256, 128, 4


class Model(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.project = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        query, key, value = self.project(x).chunk(3, dim=-1)

        def split(t):
            return t.reshape(batch, length, self.heads, width // self.heads).transpose(1, 2)

        query, key, value = split(query), split(key), split(value)
        scores = query @ key.transpose(-2, -1) / math.sqrt(width // self.heads)
        allowed = torch.ones(length, length, dtype=torch.bool, device=x.device).tril()
        scores = scores.masked_fill(~allowed, float("-inf"))
        mixed = torch.softmax(scores, dim=-1) @ value
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


def get_inputs():
    return [torch.randn(BATCH, LENGTH, WIDTH)]


def get_init_inputs():
    return [WIDTH, HEADS]
