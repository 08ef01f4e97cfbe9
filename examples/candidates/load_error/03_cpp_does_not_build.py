# expect: load_error
"""The C++ source has an error: the first error, its file and its line are in the evidence."""
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>

torch::Tensor gated_sum(torch::Tensor x) {
  return x + undeclared_name;
}
"""

extension = load_inline(name="pike_example_broken", cpp_sources=SOURCE, functions=["gated_sum"])


class ModelNew(nn.Module):
    def forward(self, x, gate, bias, scale):
        return extension.gated_sum(x)
