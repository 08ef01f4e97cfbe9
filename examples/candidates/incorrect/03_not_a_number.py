# expect: incorrect
"""One element is not a number."""
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x, gate, bias, scale):
        shifted = torch.sigmoid(gate) * x + bias
        out = torch.tanh(shifted * scale) ** 2 + shifted
        out[-1, -1] = float("nan")
        return out
