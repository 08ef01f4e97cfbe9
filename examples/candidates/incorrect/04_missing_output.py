# expect: incorrect
"""Leaves one of the outputs out."""
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, eps):
        super().__init__()
        self.eps = eps

    def forward(self, x):
        normal, mean, _ = torch.native_layer_norm(x, x.shape[1:], None, None, self.eps)
        return {"normal": normal, "rows": (mean.squeeze(1),)}
