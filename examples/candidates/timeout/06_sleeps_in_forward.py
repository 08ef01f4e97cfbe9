# expect: timeout
# policy: first_call_timeout_ms=3000
"""Never comes back from its first call."""
import time

import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()

    def forward(self, x):
        while True:
            time.sleep(60)
