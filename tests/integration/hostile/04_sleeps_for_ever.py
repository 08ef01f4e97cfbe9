# expect: timeout
# policy: first_call_timeout_ms=3000
"""Sleeps for ever in its call and ignores every signal that can be ignored."""
import signal
import time

import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, *init):
        super().__init__()

    def forward(self, x):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGALRM):
            signal.signal(number, signal.SIG_IGN)
        while True:
            time.sleep(60)
