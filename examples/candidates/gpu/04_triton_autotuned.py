# expect: valid
# needs: gpu
"""A Triton kernel that finds its number of warps in its first call."""
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.autotune(configs=[triton.Config({}, num_warps=warps) for warps in (1, 2, 4, 8)],
                 key=["columns"])
@triton.jit
def row_statistics(x_ptr, normal_ptr, mean_ptr, variance_ptr, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    inside = offsets < columns
    x = tl.load(x_ptr + row * columns + offsets, mask=inside, other=0.0)
    mean = tl.sum(x, axis=0) / columns
    centred = tl.where(inside, x - mean, 0.0)
    variance = tl.sum(centred * centred, axis=0) / columns
    tl.store(normal_ptr + row * columns + offsets, centred / tl.sqrt(variance + eps), mask=inside)
    tl.store(mean_ptr + row, mean)
    tl.store(variance_ptr + row, variance)


class ModelNew(nn.Module):
    def __init__(self, eps):
        super().__init__()
        self.eps = eps

    def forward(self, x):
        rows, columns = x.shape
        normal = torch.empty_like(x)
        mean = torch.empty(rows, dtype=x.dtype, device=x.device)
        variance = torch.empty_like(mean)
        row_statistics[(rows,)](x, normal, mean, variance, columns, self.eps,
                                BLOCK=triton.next_power_of_2(columns))
        return {"normal": normal, "rows": (mean, variance)}
