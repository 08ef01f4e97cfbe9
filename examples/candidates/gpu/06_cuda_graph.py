# expect: valid
# needs: gpu
"""One CUDA graph for all steps: the input is copied in, the state lives in a buffer of the graph."""
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.read = nn.Linear(width, width)
        self.keep = nn.Linear(width, width)
        self.register_buffer("state", torch.zeros(1, width))
        self.graph = None

    def step_through(self, x):
        state = self.state.expand(x.shape[0], -1)
        read = self.read(x)
        outputs = []
        for step in range(x.shape[1]):
            state = torch.tanh(read[:, step] + self.keep(state))
            outputs.append(state)
        self.state.copy_(state.mean(dim=0, keepdim=True))
        return torch.stack(outputs, dim=1)

    def record(self, x):
        before = self.state.clone()
        self.input = x.clone()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self.step_through(self.input)
        torch.cuda.current_stream().wait_stream(side)
        self.state.copy_(before)  # trying it out was no call
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.output = self.step_through(self.input)

    def forward(self, x):
        with torch.no_grad():
            if self.graph is None:
                self.record(x)
            self.input.copy_(x)
            self.graph.replay()
            return self.output.clone()
