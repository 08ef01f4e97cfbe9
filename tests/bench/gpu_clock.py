#!/usr/bin/env python3
"""The clock on a GPU: a module against itself, and against Triton's do_bench.

  PIKE_SOURCE_DIR=. PIKE_NATIVE_DIR=... tests/bench/gpu_clock.py

PIKE_NATIVE_DIR: where judge and runner are built, as build_native.py prints it. Judge and runners as
processes, without sandbox and service. Prints a table; needs a machine on which nothing else runs.
"""

import os
import statistics
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "gpu"))

from gpu_case import HAS_GPU, Bench, task

LAYERS = task(
    "x):\n        return self.layers(x)",
    "[torch.randn(4096, 4096)]",
    init="self.layers = torch.nn.Sequential(*(torch.nn.Linear(4096, 4096) for _ in range(2)))",
)
SMALL = task(
    "x):\n        return self.layers(x)",
    "[torch.randn(64, 256)]",
    init="self.layers = torch.nn.Sequential(*(torch.nn.Linear(256, 256) for _ in range(8)))",
)
DO_BENCH = """
import statistics, sys, torch, triton
names = {}
exec(open(sys.argv[1]).read(), names)
model = names["Model"]().cuda().eval()
inputs = [x.cuda() for x in names["get_inputs"]()]
with torch.no_grad():
    times = triton.testing.do_bench(lambda: model(*inputs), warmup=200, rep=600, return_mode="all")
print(statistics.mean(times), statistics.median(times))
"""


def measure(source, buffers):
    os.environ["PIKE_BUFFERS"] = buffers
    try:
        bench = Bench(source)
    finally:
        del os.environ["PIKE_BUFFERS"]
    try:
        candidate, reference = bench.start_runners(None)
        bench.begin(candidate.judge_end.fileno(), reference.judge_end.fileno())
        order = {"type": "prepare", "calls": 124, "bytes_max": 16 << 30, "ms_max": 30000}
        prepared = bench.judge.request(order)
        assert bench.judge.request({"type": "first_call"})["outcome"] == "done"
        assert bench.judge.request({"type": "verify", "calls": 3})["outcome"] == "done"
        settled = bench.judge.request(
            {"type": "settle", "timeout_ms": 5000, "memory_floor_bytes": 0}
        )
        order = {"warmup_calls": 20, "timed_calls_max": 100, "timed_ms_max": 60000}
        result = bench.judge.request({"type": "measure", **order})
        assert result["outcome"] == "done", result
        candidate.stop()
        reference.stop()
        bench_times = subprocess.run(
            [sys.executable, "-c", DO_BENCH, bench.task_path], capture_output=True, text=True
        ).stdout.split()
        return prepared, settled, result, bench_times
    finally:
        bench.close()


def report(name, source, buffers):
    prepared, settled, result, bench_times = measure(source, buffers)
    samples = result["samples"]
    ms = {key: [ns / 1e6 for ns in values] for key, values in samples.items()}
    claim, wall = ms["candidate_claim_ns"], ms["candidate_wall_ns"]
    overhead = [w - c for w, c in zip(wall, claim)]
    ratio = statistics.mean(ms["reference_claim_ns"]) / statistics.mean(claim)
    print(
        f"\n| {name} | {buffers} | A/A {ratio:.4f} | mean {statistics.mean(claim):.4f} ms |"
        f" median {statistics.median(claim):.4f} | min {min(claim):.4f} |"
        f" wall - claim {statistics.median(overhead):.4f} ms |"
        f" do_bench mean, median {' '.join(bench_times)} |"
        f" quiet {settled['is_quiet']} in {settled['elapsed_ms']:.1f} ms |"
        f" {len(claim)} calls in {result['elapsed_ms']:.0f} ms |"
        f" {prepared['inputs']} inputs in {prepared['elapsed_ms']:.0f} ms |"
    )


def main():
    if not HAS_GPU:
        sys.exit("no GPU here")
    for buffers in ("device", "memfd"):
        report("2 x 4096^3", LAYERS, buffers)
    report("8 x (64, 256)", SMALL, "device")


if __name__ == "__main__":
    main()
