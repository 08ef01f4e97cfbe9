"""Wrong on purpose: every step starts from the first hidden state."""
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, input_size, hidden_size, output_size):
        super().__init__()
        self.i2h = nn.Linear(input_size + hidden_size, hidden_size)
        self.h2o = nn.Linear(hidden_size, output_size)

    def forward(self, x, h0):
        combined = torch.cat((x, h0.expand(x.size(0), -1, -1)), dim=2)
        return self.h2o(torch.tanh(self.i2h(combined)))
