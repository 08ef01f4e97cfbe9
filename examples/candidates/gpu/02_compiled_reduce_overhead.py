# expect: valid
# needs: gpu
"""torch.compile with CUDA graphs: warm-up, recording and replays fall into verified calls."""
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
        self.compiled = torch.compile(self.run, mode="reduce-overhead")

    def run(self, x):
        x = torch.relu(self.first_norm(self.first(x)))
        return torch.relu(self.second_norm(self.second(x)))

    def forward(self, x):
        torch.compiler.cudagraph_mark_step_begin()
        # The graph's own output is overwritten by the next call.
        return self.compiled(x).clone()
