"""Several outputs: a normalised tensor in a dict beside a tuple of row statistics."""
import torch
import torch.nn as nn

ROWS, COLUMNS = 2048, 1024


class Model(nn.Module):
    def __init__(self, eps):
        super().__init__()
        self.eps = eps

    def forward(self, x):
        mean = x.mean(dim=1, keepdim=True)
        variance = ((x - mean) ** 2).mean(dim=1, keepdim=True)
        normal = (x - mean) / torch.sqrt(variance + self.eps)
        return {"normal": normal, "rows": (mean.squeeze(1), variance.squeeze(1))}


def get_inputs():
    return [torch.randn(ROWS, COLUMNS) * 2 + 1]


def get_init_inputs():
    return [1e-5]
