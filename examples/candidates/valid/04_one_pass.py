# expect: valid
"""The library computes both statistics in one pass, and normalises in another."""
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, eps):
        super().__init__()
        self.eps = eps

    def forward(self, x):
        normal, mean, inverse = torch.native_layer_norm(x, x.shape[1:], None, None, self.eps)
        variance = inverse.pow(-2).sub_(self.eps)
        return {"normal": normal, "rows": (mean.squeeze(1), variance.squeeze(1))}
