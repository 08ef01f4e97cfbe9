# expect: valid
# needs: gpu
"""An extension by load(), from files that the candidate writes beside itself."""
import os

import torch.nn as nn
from torch.utils.cpp_extension import load

HEADER = """
#pragma once
#include <cuda_runtime.h>

void gated_sum(const float* x, const float* gate, const float* bias, float scale, int columns,
               int count, float* out, cudaStream_t stream);
"""

KERNEL = """
#include "gated_sum.h"

__global__ void gated_sum_kernel(const float* x, const float* gate, const float* bias, float scale,
                                 int columns, int count, float* out) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
    const float shifted = x[i] / (1.0f + __expf(-gate[i])) + bias[i % columns];
    const float squashed = tanhf(shifted * scale);
    out[i] = squashed * squashed + shifted;
  }
}

void gated_sum(const float* x, const float* gate, const float* bias, float scale, int columns,
               int count, float* out, cudaStream_t stream) {
  gated_sum_kernel<<<2048, 256, 0, stream>>>(x, gate, bias, scale, columns, count, out);
}
"""

BINDING = """
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include "gated_sum.h"

torch::Tensor run(torch::Tensor x, torch::Tensor gate, torch::Tensor bias, double scale) {
  auto out = torch::empty_like(x);
  gated_sum(x.data_ptr<float>(), gate.data_ptr<float>(), bias.data_ptr<float>(),
            static_cast<float>(scale), static_cast<int>(x.size(1)), static_cast<int>(x.numel()),
            out.data_ptr<float>(), at::cuda::getCurrentCUDAStream());
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("run", &run); }
"""


def build():
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "gated_sum")
    os.makedirs(folder, exist_ok=True)
    for name, text in (("gated_sum.h", HEADER), ("kernel.cu", KERNEL), ("binding.cpp", BINDING)):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(text)
    sources = [os.path.join(folder, name) for name in ("binding.cpp", "kernel.cu")]
    return load(name="pike_example_gated_sum_files", sources=sources, extra_cuda_cflags=["-O3"])


extension = build()


class ModelNew(nn.Module):
    def forward(self, x, gate, bias, scale):
        return extension.run(x.contiguous(), gate.contiguous(), bias.contiguous(), scale)
