# expect: incorrect
"""Remembers its first answer and gives it for every later input."""
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.answer = None

    def forward(self, x, gate, bias, scale):
        if self.answer is None:
            shifted = torch.sigmoid(gate) * x + bias
            self.answer = torch.tanh(shifted * scale) ** 2 + shifted
        return self.answer
