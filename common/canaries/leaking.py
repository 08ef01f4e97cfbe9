"""Right, but keeps 16 MiB of its device in each call and leaves a child process behind."""

import subprocess
import sys

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds
        self.scale = nn.Parameter(torch.rand(256) + 0.5)
        self.kept = []
        try:
            # Its own session: it would outlive a parent that is merely killed.
            subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
        except OSError:
            pass  # the sandbox may forbid it

    def forward(self, x):
        self.kept.append(torch.ones(1 << 22, device=x.device))
        for _ in range(self.rounds):
            x = torch.tanh(x * self.scale)
        return x
