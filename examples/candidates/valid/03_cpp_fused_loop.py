# expect: valid
"""One C++ loop instead of seven passes over memory."""
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <ATen/Parallel.h>
#include <cmath>

// exp by range reduction and a polynomial: plain arithmetic that the compiler can vectorise.
static inline float fast_exp(float x) {
  x = x < -87.0f ? -87.0f : (x > 87.0f ? 87.0f : x);
  const int whole = static_cast<int>(x * 1.44269504f + (x < 0 ? -0.5f : 0.5f));
  const float r = x - whole * 0.6931471806f;
  const float p = 1.0f + r * (1.0f + r * (0.5f + r * (0.16666667f + r * (0.041666668f + r * 0.008333334f))));
  union { int i; float f; } power;
  power.i = (whole + 127) << 23;
  return p * power.f;
}

torch::Tensor gated_sum(torch::Tensor x, torch::Tensor gate, torch::Tensor bias, double scale) {
  auto out = torch::empty_like(x);
  const int64_t columns = x.size(1);
  const float* xs = x.data_ptr<float>();
  const float* gates = gate.data_ptr<float>();
  const float* biases = bias.data_ptr<float>();
  float* outs = out.data_ptr<float>();
  const float factor = static_cast<float>(scale);
  at::parallel_for(0, x.size(0), 16, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; row++) {
      const int64_t at = row * columns;
      for (int64_t i = 0; i < columns; i++) {
        const float shifted = xs[at + i] / (1.0f + fast_exp(-gates[at + i])) + biases[i];
        const float squashed = 1.0f - 2.0f / (1.0f + fast_exp(2.0f * factor * shifted));
        outs[at + i] = squashed * squashed + shifted;
      }
    }
  });
  return out;
}
"""

extension = load_inline(name="pike_example_gated_sum",
                        cpp_sources=SOURCE,
                        functions=["gated_sum"],
                        extra_cflags=["-O3", "-ffast-math"])


class ModelNew(nn.Module):
    def forward(self, x, gate, bias, scale):
        # The loop runs on the CPU, wherever the inputs are.
        inputs = (tensor.cpu().contiguous() for tensor in (x, gate, bias))
        return extension.gated_sum(*inputs, scale).to(x.device)
