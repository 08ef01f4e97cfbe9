#!/usr/bin/env python3
"""A module against itself, on a GPU, where the host sets the pace: how much do the cores matter?

  tests/bench/caller_core.py TASKS [--calls 30] [--pairs 3]

For each KernelBench file of the folder TASKS two processes load the same `Model` and take turns
with calls (L2 flushed, CUDA events, device synchronised), which should give a ratio of 1. Placements:
both may use the same four cores (`free`), their calling threads are kept on two different ones of
them (`apart`), or on the same one (`same`); with the other cores idle, or busy copying memory.
Prints one line for each, then the spread of the ratios of means. Needs a GPU, PyTorch and at least
eight cores; takes about 20 s a task.
"""

import argparse
import importlib.util
import os
import statistics
import subprocess
import sys
import time

LOAD = "a, b = bytearray(1 << 26), bytearray(1 << 26)\nwhile True: a[:] = b"


def serve(path):
    """A process of the pair: `pin SET [CORE]` and `call` on standard input."""
    import torch

    torch.manual_seed(0)
    spec = importlib.util.spec_from_file_location("task", path)
    task = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(task)
    model = task.Model(*task.get_init_inputs()).cuda().eval()
    inputs = [x.cuda() if isinstance(x, torch.Tensor) else x for x in task.get_inputs()]
    flush = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    print("ready", flush=True)
    with torch.no_grad():
        for line in sys.stdin:
            order, *words = line.split()
            if order == "pin":
                for thread in os.listdir("/proc/self/task"):
                    os.sched_setaffinity(int(thread), set(map(int, words[0].split(","))))
                if len(words) > 1:
                    os.sched_setaffinity(0, {int(words[1])})
                print("pinned", flush=True)
                continue
            torch.cuda.synchronize()
            flush.zero_()
            start.record()
            began = time.perf_counter()
            model(*inputs)
            returned = time.perf_counter() - began
            torch.cuda.synchronize()
            end.record()
            end.synchronize()
            print(start.elapsed_time(end), returned * 1e3, flush=True)


def ask(child, text):
    child.stdin.write(text + "\n")
    child.stdin.flush()
    answer = child.stdout.readline().split()
    if not answer:
        sys.exit("a process of the pair ended: its error is above")
    return answer


def compare(pair, calls):
    """(mean of each in ms, part of the time until the call returned), calls interleaved ABBA."""
    for child in pair * 3:
        ask(child, "call")
    times, returned = ([], []), []
    for i in range(calls):
        for side in ((0, 1), (1, 0))[i % 2]:
            event_ms, host_ms = map(float, ask(pair[side], "call"))
            times[side].append(event_ms)
            returned.append(host_ms / event_ms)
    return *map(statistics.mean, times), statistics.median(returned)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("tasks")
    parser.add_argument("--calls", type=int, default=30)
    parser.add_argument("--pairs", type=int, default=3)
    arguments = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 8:
        sys.exit("at least eight cores are needed")
    timed, others = cores[-4:], cores[:-4]
    free = ",".join(map(str, timed))
    placements = {"free": (free, free), "apart": (f"{free} {timed[0]}", f"{free} {timed[2]}"),
                  "same": (f"{free} {timed[2]}", f"{free} {timed[2]}")}
    ratios = {}
    for name in sorted(os.listdir(arguments.tasks)):
        path = os.path.join(arguments.tasks, name)
        for number in range(arguments.pairs):
            pair = [subprocess.Popen([sys.executable, __file__, "--serve", path], text=True,
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(2)]
            load = []
            try:
                for child in pair:
                    child.stdout.readline()
                for state in ("idle", "busy"):
                    if state == "busy":
                        load = [subprocess.Popen(["taskset", "-c", str(core), sys.executable, "-c", LOAD])
                                for core in others]
                    for placement, orders in placements.items():
                        for child, order in zip(pair, orders):
                            ask(child, "pin " + order)
                        first, second, returned = compare(pair, arguments.calls)
                        ratios.setdefault((state, placement), []).append(first / second)
                        print(f"{name:28} pair {number} {state} {placement:5} {first:8.3f} and {second:8.3f} ms, "
                              f"ratio {first / second:.3f}, returned after {returned:.2f} of it", flush=True)
            finally:
                for child in pair + load:
                    child.kill()
                    child.wait()
    print("\n| other cores | placement | ratios | median of the deviation |\n|---|---|---|---|")
    for (state, placement), values in ratios.items():
        off = statistics.median(abs(value - 1) for value in values)
        print(f"| {state} | {placement} | {min(values):.2f} to {max(values):.2f} | {off * 100:.1f} % |")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(sys.argv[2])
    else:
        main()
