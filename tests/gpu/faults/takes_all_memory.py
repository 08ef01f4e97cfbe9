# expect: out_of_memory
# needs: gpu
"""Takes the device's memory until there is none: beside others it is tried again alone."""
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        self.kept = []
        while True:
            self.kept.append(torch.empty(1 << 30, dtype=torch.uint8, device=x.device))
