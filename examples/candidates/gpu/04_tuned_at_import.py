# expect: valid
# needs: gpu
"""It cannot be imported without a GPU: it asks for its size, and times kernels, at import."""
import torch
import torch.nn as nn
import triton
import triton.language as tl

PROGRAMS = 8 * torch.cuda.get_device_properties(0).multi_processor_count
COLUMNS = 1024


@triton.autotune(configs=[triton.Config({}, num_warps=warps) for warps in (2, 4, 8)], key=["columns"])
@triton.jit
def row_statistics(x_ptr, normal_ptr, mean_ptr, variance_ptr, rows, columns, eps, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    inside = offsets < columns
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        x = tl.load(x_ptr + row * columns + offsets, mask=inside, other=0.0)
        mean = tl.sum(x, axis=0) / columns
        centred = tl.where(inside, x - mean, 0.0)
        variance = tl.sum(centred * centred, axis=0) / columns
        tl.store(normal_ptr + row * columns + offsets, centred / tl.sqrt(variance + eps), mask=inside)
        tl.store(mean_ptr + row, mean)
        tl.store(variance_ptr + row, variance)


def run(x, eps):
    rows, columns = x.shape
    normal = torch.empty_like(x)
    mean = torch.empty(rows, dtype=x.dtype, device=x.device)
    variance = torch.empty_like(mean)
    row_statistics[(min(rows, PROGRAMS),)](x, normal, mean, variance, rows, columns, eps,
                                           BLOCK=triton.next_power_of_2(columns))
    return {"normal": normal, "rows": (mean, variance)}


run(torch.randn(PROGRAMS, COLUMNS, device="cuda"), 1e-5)


class ModelNew(nn.Module):
    def __init__(self, eps):
        super().__init__()
        self.eps = eps

    def forward(self, x):
        return run(x, self.eps)
