# expect: unparsable
"""Not Python."""
import torch.nn as nn


class ModelNew(nn.Module)
    def forward(self, x, gate, bias, scale):
        return x
