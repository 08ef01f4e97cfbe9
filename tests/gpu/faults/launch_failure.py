# expect: runtime_error
# needs: gpu
"""A kernel that traps: a launch failure, which stays in its context."""
import ctypes

import torch.nn as nn

PTX = b"""
.version 7.0
.target sm_52
.address_size 64
.visible .entry give_up() { trap; ret; }
"""


def launch(cuda):
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    assert cuda.cuModuleLoadData(ctypes.byref(module), PTX) == 0
    assert cuda.cuModuleGetFunction(ctypes.byref(function), module, b"give_up") == 0
    assert cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, None, None) == 0


class ModelNew(nn.Module):
    def forward(self, x):
        y = x * 2
        launch(ctypes.CDLL("libcuda.so.1"))
        return y
