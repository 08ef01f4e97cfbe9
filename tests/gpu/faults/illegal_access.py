# expect: runtime_error
# needs: gpu
"""A kernel that writes far outside of all memory. It also does so in the throw-away JIT pass."""
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def double(x_ptr, y_ptr, distance, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + offsets + distance, tl.load(x_ptr + offsets) * 2)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        double[(x.numel() // 256,)](x, y, 1 << 40, BLOCK=256)
        return y
