# expect: valid
# needs: gpu
"""Settings of cuDNN and cuBLAS, which hold in the candidate's own process only."""
import torch
import torch.nn as nn

torch.backends.cudnn.benchmark = True
torch.backends.cuda.preferred_blas_library("cublaslt")
torch.set_float32_matmul_precision("high")


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.first_norm = nn.BatchNorm2d(channels)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)
        self.second_norm = nn.BatchNorm2d(channels)
        for norm in (self.first_norm, self.second_norm):
            norm.running_mean.uniform_(-0.5, 0.5)
            norm.running_var.uniform_(0.5, 2.0)

    def forward(self, x):
        x = x.contiguous(memory_format=torch.channels_last)
        x = torch.relu(self.first_norm(self.first(x)))
        return torch.relu(self.second_norm(self.second(x)))
