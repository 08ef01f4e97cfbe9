# expect: valid
# needs: gpu
"""On Hopper a kernel that only code for exactly sm_90a may have: it gives registers back."""
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

DECLARATION = """
torch::Tensor gated_sum(torch::Tensor x, torch::Tensor gate, torch::Tensor bias, double scale);
"""

SOURCE = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>

constexpr int kThreads = 128;  // one warpgroup, which sets its number of registers together

__global__ void __launch_bounds__(kThreads, 4)
    gated_sum_kernel(const float* x, const float* gate, const float* bias, float scale, int columns,
                     int count, float* out) {
#if __CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1000
  asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
#endif
  for (int i = blockIdx.x * kThreads + threadIdx.x; i < count; i += gridDim.x * kThreads) {
    const float shifted = x[i] / (1.0f + __expf(-gate[i])) + bias[i % columns];
    const float squashed = tanhf(shifted * scale);
    out[i] = squashed * squashed + shifted;
  }
}

torch::Tensor gated_sum(torch::Tensor x, torch::Tensor gate, torch::Tensor bias, double scale) {
  auto out = torch::empty_like(x);
  gated_sum_kernel<<<1024, kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
      x.data_ptr<float>(), gate.data_ptr<float>(), bias.data_ptr<float>(), static_cast<float>(scale),
      static_cast<int>(x.size(1)), static_cast<int>(x.numel()), out.data_ptr<float>());
  return out;
}
"""

extension = load_inline(name="pike_example_gated_sum_sm90a",
                        cpp_sources=DECLARATION,
                        cuda_sources=SOURCE,
                        functions=["gated_sum"],
                        extra_cuda_cflags=["-O3"])


class ModelNew(nn.Module):
    def forward(self, x, gate, bias, scale):
        return extension.gated_sum(x.contiguous(), gate.contiguous(), bias.contiguous(), scale)
