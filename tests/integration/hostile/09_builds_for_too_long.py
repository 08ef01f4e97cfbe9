# expect: timeout
# policy: build_timeout_ms=500 first_call_timeout_ms=10000
"""Its build takes longer than its deadline: the compile worker decides, and no GPU is asked."""
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = "#include <torch/extension.h>\ntorch::Tensor twice(torch::Tensor x) { return x * 2; }\n"

extension = load_inline(name="twice", cpp_sources=SOURCE, functions=["twice"])


class ModelNew(nn.Module):
    def __init__(self, *init):
        super().__init__()

    def forward(self, x):
        return extension.twice(x)
