# expect: timeout
# needs: gpu
"""A kernel that never ends in a context of its own, so that no synchronise waits for it."""
import ctypes

import torch.nn as nn

PTX = b"""
.version 7.0
.target sm_52
.address_size 64
.visible .entry spin() { again: bra again; }
"""


def spin(cuda):
    context, module, function = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    assert cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0) == 0
    assert cuda.cuModuleLoadData(ctypes.byref(module), PTX) == 0
    assert cuda.cuModuleGetFunction(ctypes.byref(function), module, b"spin") == 0
    assert cuda.cuLaunchKernel(function, 132, 1, 1, 1024, 1, 1, 0, None, None, None) == 0
    assert cuda.cuCtxPopCurrent_v2(ctypes.byref(context)) == 0


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.is_spinning = False

    def forward(self, x):
        y = x * 2
        if not self.is_spinning:
            spin(ctypes.CDLL("libcuda.so.1"))
            self.is_spinning = True
        return y
