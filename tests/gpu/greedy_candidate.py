# expect: valid
"""A correct candidate that keeps more than half of the GPU's memory: of two at once one finds none left."""

import torch
import torch.nn as nn

PART = 0.55


class ModelNew(nn.Module):
    def __init__(self, eps):
        super().__init__()
        self.eps = eps
        self.room = None

    def forward(self, x):
        if self.room is None:
            free_and_total = torch.cuda.mem_get_info() if x.is_cuda else (0, 64 << 20)
            self.room = torch.empty(int(free_and_total[1] * PART), dtype=torch.uint8, device=x.device)
        variance, mean = torch.var_mean(x, dim=1, keepdim=True, unbiased=False)
        normal = (x - mean) / torch.sqrt(variance + self.eps)
        return {"normal": normal, "rows": (mean.squeeze(1), variance.squeeze(1))}
