# expect: valid
# needs: gpu
"""One CUDA kernel, built by nvcc through load_inline."""
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

DECLARATION = """
torch::Tensor gated_sum(torch::Tensor x, torch::Tensor gate, torch::Tensor bias, double scale);
"""

SOURCE = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>

__global__ void gated_sum_kernel(const float* x, const float* gate, const float* bias, float scale,
                                 int columns, int count, float* out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count)
    return;
  const float shifted = x[i] / (1.0f + __expf(-gate[i])) + bias[i % columns];
  const float squashed = tanhf(shifted * scale);
  out[i] = squashed * squashed + shifted;
}

torch::Tensor gated_sum(torch::Tensor x, torch::Tensor gate, torch::Tensor bias, double scale) {
  auto out = torch::empty_like(x);
  const int count = static_cast<int>(x.numel());
  const int threads = 256;
  gated_sum_kernel<<<(count + threads - 1) / threads, threads, 0, at::cuda::getCurrentCUDAStream()>>>(
      x.data_ptr<float>(), gate.data_ptr<float>(), bias.data_ptr<float>(), static_cast<float>(scale),
      static_cast<int>(x.size(1)), count, out.data_ptr<float>());
  return out;
}
"""

extension = load_inline(name="pike_example_gated_sum_cuda",
                        cpp_sources=DECLARATION,
                        cuda_sources=SOURCE,
                        functions=["gated_sum"],
                        extra_cuda_cflags=["-O3"])


class ModelNew(nn.Module):
    def forward(self, x, gate, bias, scale):
        return extension.gated_sum(x.contiguous(), gate.contiguous(), bias.contiguous(), scale)
