# expect: incorrect
"""The right numbers in the wrong dtype."""
import torch
import torch.nn as nn


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
        x = torch.relu(self.first_norm(self.first(x)))
        return torch.relu(self.second_norm(self.second(x))).half()
