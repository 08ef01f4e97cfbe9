# expect: valid
# needs: gpu
"""Evaluated right after each of the others."""
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.add(x, x)
