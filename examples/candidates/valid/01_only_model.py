# expect: valid
"""A candidate may call its class Model. This one builds the mask once."""
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.project = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.mask = None

    def forward(self, x):
        batch, length, width = x.shape
        if self.mask is None:
            self.mask = torch.full((length, length), float("-inf"), device=x.device).triu(1)
        head_width = width // self.heads
        parts = self.project(x).view(batch, length, 3, self.heads, head_width).permute(2, 0, 3, 1, 4)
        query, key, value = (t.reshape(-1, length, head_width) for t in parts)
        scores = torch.baddbmm(self.mask, query, key.transpose(1, 2), alpha=head_width**-0.5)
        mixed = torch.softmax(scores, dim=-1) @ value
        mixed = mixed.view(batch, self.heads, length, head_width)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))
