# expect: load_error
"""Wants a package that is not there."""
import a_package_that_nobody_has

import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.inner = a_package_that_nobody_has.Attention(width, heads)

    def forward(self, x):
        return self.inner(x)
