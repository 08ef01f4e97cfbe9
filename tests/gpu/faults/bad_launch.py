# expect: runtime_error
# needs: gpu
"""A launch that no GPU can carry out: too many threads in a block."""
import ctypes

import torch.nn as nn

PTX = b"""
.version 7.0
.target sm_52
.address_size 64
.visible .entry nothing() { ret; }
"""


def launch(cuda, threads):
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    assert cuda.cuModuleLoadData(ctypes.byref(module), PTX) == 0
    assert cuda.cuModuleGetFunction(ctypes.byref(function), module, b"nothing") == 0
    error = cuda.cuLaunchKernel(function, 1, 1, 1, threads, 1, 1, 0, None, None, None)
    if error != 0:
        raise RuntimeError(f"launch of {threads} threads: error {error}")


class ModelNew(nn.Module):
    def forward(self, x):
        y = x * 2
        launch(ctypes.CDLL("libcuda.so.1"), 1 << 20)
        return y
