"""Two convolutions, each with batch norm in inference mode and a ReLU."""
import torch
import torch.nn as nn

BATCH, CHANNELS, SIZE = 8, 32, 48


class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.first_norm = nn.BatchNorm2d(channels)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)
        self.second_norm = nn.BatchNorm2d(channels)
        for norm in (self.first_norm, self.second_norm):
            # Statistics of a trained network rather than zeros and ones.
            norm.running_mean.uniform_(-0.5, 0.5)
            norm.running_var.uniform_(0.5, 2.0)

    def forward(self, x):
        x = torch.relu(self.first_norm(self.first(x)))
        return torch.relu(self.second_norm(self.second(x)))


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, SIZE, SIZE)]


def get_init_inputs():
    return [CHANNELS]
