#!/usr/bin/env python3
"""Ways to time one call on a GPU, beside each other in one process, and what idle time before it costs.

  tests/bench/clock_forms.py [--calls 100]

Needs a GPU with nothing else on it, PyTorch and Triton. Prints a table in milliseconds (means):

  do_bench         Triton's, which queues ahead: the launch is hidden
  do_bench, sync   the same of a function that waits for the GPU at its end, as the paper's script does
  ours             wait, flush the L2 cache, start event, call, wait, end event
  flush waited for ours, but the host waits for the flush: nothing hides the launch
  idle             ours after 3 ms in which neither host nor GPU had anything to do
"""

import argparse
import statistics
import sys
import time

import torch
import triton

FLUSH_BYTES = 256 << 20
WARMUP_CALLS = 10
IDLE_S = 0.003
MODULES = {"2 x Linear 4096, 4096 rows": (2, 4096, 4096), "8 x Linear 256, 64 rows": (8, 256, 64),
           "1 x Linear 1024, 1024 rows": (1, 1024, 1024), "16 x Linear 2048, 512 rows": (16, 2048, 512)}


def time_calls(function, flush, calls, is_flush_awaited=False, idle_s=0.0):
    times = []
    for call in range(WARMUP_CALLS + calls):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        if idle_s:
            time.sleep(idle_s)
        flush.zero_()
        if is_flush_awaited:
            torch.cuda.synchronize()
        start.record()
        function()
        torch.cuda.synchronize()
        end.record()
        end.synchronize()
        if call >= WARMUP_CALLS:
            times.append(start.elapsed_time(end))
    return statistics.mean(times)


def time_all(module, inputs, flush, calls):
    def call():
        return module(inputs)

    def call_and_wait():
        module(inputs)
        torch.cuda.synchronize()

    return [
        triton.testing.do_bench(call, warmup=200, rep=500),
        triton.testing.do_bench(call_and_wait, warmup=200, rep=500),
        time_calls(call, flush, calls),
        time_calls(call, flush, calls, is_flush_awaited=True),
        time_calls(call, flush, calls, idle_s=IDLE_S),
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--calls", type=int, default=100)
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("no GPU here")
    flush = torch.empty(FLUSH_BYTES, dtype=torch.int8, device="cuda")
    print("| module | do_bench | do_bench, sync | ours | flush waited for | idle |\n|---|---|---|---|---|---|")
    with torch.no_grad():
        for name, (count, width, rows) in MODULES.items():
            module = torch.nn.Sequential(*(torch.nn.Linear(width, width) for _ in range(count))).cuda().eval()
            times = time_all(module, torch.randn(rows, width, device="cuda"), flush, arguments.calls)
            print(f"| {name} | " + " | ".join(f"{ms:.4f}" for ms in times) + " |", flush=True)


if __name__ == "__main__":
    main()
