#!/usr/bin/env python3
"""What the call protocol takes on device cpu, and how much honest programs differ in it.

  PIKE_SOURCE_DIR=. PIKE_NATIVE_DIR=... tests/bench/cpu_protocol.py [--evaluations 10]

PIKE_NATIVE_DIR: where judge and runner are built, as build_native.py prints it. Judge and runners as
processes, without sandbox and service. For each size of input and output, honest candidates of
several kinds are measured again and again beside their reference; prints what is neither claimed nor
the judge's own copying (median of the reference's calls), and the largest difference between a
candidate's mean and its reference's.
"""

import argparse
import os
import statistics
import sys

sys.path.insert(0, os.path.join(os.environ["PIKE_SOURCE_DIR"], "tests", "integration"))

from judge_driver import Bench

TASK = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return x.clamp(-1, 1)

def get_inputs():
    return [torch.randn(2, {elements})]

def get_init_inputs():
    return []
"""
CANDIDATE = """
import torch

class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.out = None

    def forward(self, x):
        {body}
"""
BODIES = {
    "the same": "return x.clamp(-1, 1)",
    "in place": "return x.clamp_(-1, 1)",
    "one buffer": "self.out = torch.empty_like(x) if self.out is None else self.out\n"
    "        return torch.clamp(x, -1, 1, out=self.out)",
    "transposed": "return x.clamp(-1, 1).t().contiguous().t()",
    "slow": "y = x.clamp(-1, 1)\n        for _ in range(4): y = torch.tanh(y) * 0 + x.clamp(-1, 1)\n        return y",
}


def gaps(samples, side):
    copies = samples.get(f"{side}_copy_ns") or [0] * len(samples[f"{side}_claim_ns"])
    return [(wall - claim - copy) / 1e6 for wall, claim, copy in
            zip(samples[f"{side}_wall_ns"], samples[f"{side}_claim_ns"], copies)]


def measure(bench, body):
    candidate, reference = bench.start_runners(CANDIDATE.format(body=body))
    try:
        bench.begin(candidate.judge_end.fileno(), reference.judge_end.fileno())
        bench.judge.request({"type": "verify", "calls": 3})
        bench.judge.request({"type": "prepare", "calls": 22, "bytes_max": 2 << 30, "ms_max": 20000})
        order = {"warmup_calls": 2, "timed_calls_max": 20, "timed_ms_max": 60000}
        result = bench.judge.request({"type": "measure", **order})
        assert result["outcome"] == "done", result
        bench.judge.request({"type": "end"})
        return result["samples"]
    finally:
        candidate.stop()
        reference.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--evaluations", type=int, default=8)
    parser.add_argument("--mib", default="0.001,4,16")
    arguments = parser.parse_args()
    for mib in map(float, arguments.mib.split(",")):
        bench = Bench(TASK.format(elements=int(mib * (1 << 17))))
        try:
            for name, body in BODIES.items():
                protocol, off, claims = [], [], []
                for _ in range(arguments.evaluations):
                    samples = measure(bench, body)
                    reference, candidate = gaps(samples, "reference"), gaps(samples, "candidate")
                    protocol.append(statistics.median(reference))
                    off.append(statistics.mean(candidate) - statistics.mean(reference))
                    claims.append(statistics.mean(samples["candidate_claim_ns"]) / 1e6)
                worst = max(o / p for o, p in zip(off, protocol))
                print(f"{mib:7g} MiB {name:11} claims {statistics.median(claims):8.3f} ms, protocol "
                      f"{statistics.median(protocol):7.3f} ms ({min(protocol):.3f} to {max(protocol):.3f}), candidates off by "
                      f"{min(off):+.3f} to {max(off):+.3f} ms, at most {worst:+.2f} of the protocol", flush=True)
        finally:
            bench.close()


if __name__ == "__main__":
    main()
