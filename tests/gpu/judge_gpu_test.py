"""Judge and runners as processes on one GPU: the same protocol, with device memory and events.

Run it by itself: PIKE_SOURCE_DIR=. PIKE_NATIVE_DIR=... python tests/gpu/judge_gpu_test.py -v
"""

import os
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from gpu_case import HAS_GPU, Bench, GpuCase, Runner, linear, task


class LinearTest(GpuCase):
    """Candidates that differ in one line."""

    def test_the_device_is_described(self):
        device = self.bench.opened["device"]
        self.assertEqual(device["kind"], "cuda")
        self.assertGreater(device["memory_total_bytes"], device["memory_free_bytes"])
        self.assertTrue(10 < device["sentinel_us"] < 2000, device)

    def test_an_honest_candidate_passes_and_is_timed(self):
        results = self.evaluate("assert x.is_cuda and y.is_cuda; return y")
        self.assertEqual([r.get("outcome") for r in results[:3]], ["done"] * 3, results)
        self.assertEqual(results[3], {"type": "ended", "violation": ""})
        samples = results[2]["samples"]
        for claim, wall in zip(samples["candidate_claim_ns"], samples["candidate_wall_ns"]):
            self.assertTrue(1000 < claim < wall, samples)
        self.assertFalse(results[2]["correctness"]["input_mutated"])

    def test_wrong_answers(self):
        result = self.check_mismatch("return y + 0.1", "elements out of tolerance")
        self.assertAlmostEqual(result["correctness"]["outputs"][0]["max_abs_error"], 0.1, places=4)
        self.check_mismatch("y[3, 4] = float('nan'); return y", "first at [3, 4]")
        self.check_mismatch("return y.half()", "expected dtype float32, got float16")
        self.check_mismatch("return y[:, :1]", "expected shape [16, 32], got [16, 1]")
        self.check_mismatch("return y.cpu()", "expected a tensor on cuda, got one on cpu")
        self.check_mismatch("return torch.zeros(1 << 22, device='cuda')", "outputs larger than")
        self.check_mismatch(
            "self.kept = getattr(self, 'kept', y); return self.kept", "call 2: out: "
        )

    def test_outputs_of_any_strides(self):
        for body in (
            "return y.t().contiguous().t()",
            "return torch.stack([y, y + 1], 2)[:, :, 0]",
            "return torch.cat([y, y], 1)[:, :32]",
            "return torch.stack([y, y])[0]",
            "return torch.nn.functional.pad(y, (3, 4, 5, 6))[5:21, 3:35]",
        ):
            self.check_done(body)

    def test_an_input_that_is_kept_or_changed(self):
        self.check_done("""
        before = getattr(self, 'input', x)
        assert self.calls == 1 or torch.equal(before, self.copy)
        self.input, self.copy = x, x.clone()
        return y""")
        self.assertTrue(self.check_done("x.zero_(); return y")["correctness"]["input_mutated"])
        self.check_done("x.set_(torch.zeros(3, device='cuda')); return y")

    def test_streams_graphs_modes_and_settings(self):
        self.check_done("""
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        torch.cuda.set_stream(side)
        return self.right(x, scale)""")
        self.check_done("""
        if self.calls == 1:
            self.x = x.clone()
            torch.cuda.synchronize()
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.y = self.right(self.x, scale)
        self.x.copy_(x)
        self.graph.replay()
        return self.y""")
        self.check_done("with torch.inference_mode(): return self.right(x, scale)")
        self.check_done("""
        torch.backends.cudnn.benchmark = True
        torch.backends.cuda.matmul.allow_tf32 = True
        with torch.autocast('cuda'): y = self.right(x, scale)
        return y.float()""")
        self.check_done("return torch.nn.Parameter(y)")

    def test_work_in_a_stream_of_its_own_is_on_the_clock(self):
        result = self.check_done("""
        with torch.cuda.stream(torch.cuda.Stream()):
            torch.cuda._sleep(40_000_000)
        return y""")
        self.assertGreater(min(result["samples"]["candidate_claim_ns"]), 10_000_000)
        self.assertLess(min(result["samples"]["candidate_return_ns"]), 5_000_000)
        self.assertGreater(min(result["samples"]["candidate_return_ns"]), 1_000)

    def test_a_context_that_is_left_behind(self):
        self.check_done("""
        import ctypes
        cuda, context = ctypes.CDLL('libcuda.so.1'), ctypes.c_void_p()
        if self.calls < 3:
            assert cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0) == 0
        return y""")

    def test_want_of_memory(self):
        result = self.evaluate("torch.empty(1 << 45, device='cuda'); return y")[-2]
        self.assertEqual((result["outcome"], result["kind"]), ("call_failed", "memory"), result)
        path = self.bench.write("large.py", """
import torch
class ModelNew(torch.nn.Module):
    def __init__(self, n):
        super().__init__()
        self.kept = [torch.empty(1 << 33, device='cuda') for _ in range(1 << 10)]
""")
        runner = Runner(path, self.bench.task_path, ["ModelNew"])
        runner.stop()
        self.assertEqual(
            (runner.answer["type"], runner.answer["where"], runner.answer["kind"]),
            ("failed", "constructor", "memory"),
            runner.answer,
        )

    def test_an_error_that_only_the_synchronise_shows(self):
        body = "y[torch.full((4,), 1 << 30, device='cuda')] = 0; return y"
        result = self.evaluate(body)[-2]
        self.assertEqual((result["outcome"], result["side"]), ("call_failed", "candidate"), result)
        self.assertIn("ASSERT", (result["error_type"] + result["text"]).upper())
        self.check_done("return y")

    def test_an_endless_kernel(self):
        candidate, reference = self.bench.start_runners(linear("torch.cuda._sleep(1 << 60); return y"))
        try:
            fds = candidate.judge_end.fileno(), reference.judge_end.fileno()
            self.bench.begin(*fds, first_call_timeout_ms=3000)
            result = self.bench.judge.request({"type": "first_call"})
            self.assertEqual((result["outcome"], result["side"]), ("call_timeout", "candidate"))
            self.bench.judge.request({"type": "end"})
        finally:
            candidate.stop()
            reference.stop()
        start = time.monotonic()
        settled = self.settle(20000)
        print(f"\nquiet {time.monotonic() - start:.3f} s after the kill: {settled}")
        self.assertTrue(settled["is_quiet"], settled)
        self.check_done("return y")

    def settle(self, timeout_ms, floor=0):
        order = {"type": "settle", "timeout_ms": timeout_ms, "memory_floor_bytes": floor}
        return self.bench.judge.request(order)

    def test_settling(self):
        quiet = self.settle(5000)
        self.assertTrue(quiet["is_quiet"], quiet)
        self.assertFalse(self.settle(100, 1 << 60)["is_quiet"])
        code = (
            "import torch; x = torch.randn(8192, 8192, device='cuda'); (x @ x).sum().item()\n"
            "for _ in range(150): y = x @ x\n"
            "print('queued', flush=True); torch.cuda.synchronize(); print('done', flush=True)\n"
            "import time; time.sleep(60)"
        )
        neighbour = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        try:
            self.assertEqual(neighbour.stdout.readline(), "queued\n")
            neighbour.send_signal(signal.SIGSTOP)
            busy = self.settle(150)
            later = self.settle(20000)
            print(f"\nneighbour stopped with queued kernels: {busy}; later {later}")
            self.assertFalse(busy["is_quiet"], busy)
            self.assertTrue(later["is_quiet"], later)
            floor = later["memory_free_bytes"] + (100 << 20)
            self.assertFalse(self.settle(100, floor)["is_quiet"])
        finally:
            neighbour.kill()
            neighbour.wait()
            neighbour.stdout.close()
        self.assertTrue(self.settle(10000, floor)["is_quiet"])

    def test_inputs_are_made_ahead(self):
        order = {"type": "prepare", "calls": 20, "bytes_max": 1 << 30, "ms_max": 10000}
        prepared = self.bench.judge.request(order)
        self.assertEqual((prepared["type"], prepared["inputs"]), ("prepared", 20), prepared)
        self.assertEqual(prepared["bytes"], 20 * 2048)
        measured = self.evaluate("return y")[2]  # 1 + 5 calls, 2 warm-up calls, then 10 timed ones
        self.assertEqual(len(measured["samples"]["candidate_claim_ns"]), 10)
        prepared = self.bench.judge.request({**order, "calls": 1})
        self.assertEqual(prepared["inputs"], 1)

    def test_a_call_that_is_not_scored(self):
        for body, outcome in (("return y", "done"), ("return object()", "done"), ("1 / 0", "call_failed")):
            candidate, reference = self.bench.start_runners(linear(body))
            try:
                order = {"type": "jit_call", "timeout_ms": 20000}
                result = self.bench.judge.request(order, [candidate.judge_end.fileno()])
                self.assertEqual((result["op"], result["outcome"]), ("jit_call", outcome), result)
            finally:
                candidate.stop()
                reference.stop()


TRITON = """
import torch
import triton
import triton.language as tl

@triton.jit
def add(x, y, distance, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y + i + distance, tl.load(x + i) + 1)

class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        add[(1,)](x, y, {distance}, BLOCK=128)
        return y
"""


class TaskTest(unittest.TestCase):
    """Tasks of several kinds, with their own reference as candidate if none is given."""

    def setUp(self):
        if not HAS_GPU:
            self.skipTest("no GPU here")

    def evaluate(self, source, candidate=None):
        bench = Bench(source)
        try:
            if bench.opened["type"] != "task_ready":
                return bench.opened
            return bench.evaluate(candidate)[-2]
        finally:
            bench.close()

    def check_done(self, source, candidate=None):
        result = self.evaluate(source, candidate)
        self.assertEqual(result.get("outcome"), "done", result)
        return result

    def test_outputs_of_all_kinds(self):
        result = self.check_done(
            task(
                """x, flag, names):
        values, places = x.max(dim=1)
        return {"values": values, 3: [places, places.bool(), names["a"] + 1],
                "more": (x.half(), x.bfloat16(), torch.complex(x, x).conj(), x[:0], x.sum()),
                "less": (x.to(torch.uint8), x.double(), x.to(torch.int16).to(torch.uint16), x.cpu()),
                "plain": (flag, None, "text", float(x.mean()), int(places.sum()))}""",
                '[torch.rand(4, 6).t(), True, {"a": torch.arange(3), "b": (None, "s", 7)}]',
            )
        )
        self.assertEqual(len(result["correctness"]["outputs"]), 13)

    def test_inputs_on_the_gpu_and_of_all_layouts(self):
        self.check_done(
            task(
                """a, b, c):
        assert a.is_cuda and b.is_cuda and b.is_contiguous(memory_format=torch.channels_last)
        assert c.requires_grad
        return self.conv(b) + a + c.sum()""",
                "[torch.randn(1, device='cuda'), torch.randn(2, 3, 8, 8).to(memory_format="
                "torch.channels_last), torch.randn(3, requires_grad=True)]",
                init="self.conv = torch.nn.Conv2d(3, 4, 3)",
            )
        )

    def test_a_constructor_that_uses_the_gpu_and_random_calls(self):
        self.check_done(
            task(
                "x):\n        return torch.nn.functional.dropout(x * self.w, 0.5, training=True)",
                "[torch.randn(64)]",
                init="self.w = torch.randn(64, device='cuda')",
            )
        )

    def test_a_large_output(self):
        self.check_done(task("x):\n        return x + 1", "[torch.rand(1 << 27)]"))

    def test_a_task_that_fails(self):
        failed = self.evaluate(task("x):\n        return x[torch.full((1,), 99)]", "[torch.rand(4)]"))
        self.assertEqual((failed["type"], failed["where"]), ("task_failed", "reference"), failed)
        self.assertEqual(failed["kind"], "exception", failed)  # an assertion is the task's own word
        failed = self.evaluate(task("x):\n        return x", "[torch.empty(1 << 45, device='cuda')]"))
        self.assertEqual((failed["where"], failed["kind"]), ("inputs", "memory"), failed)

    def test_triton_and_an_illegal_address(self):
        source = task("x):\n        return x + 1", "[torch.rand(128)]")
        self.check_done(source, TRITON.format(distance=0))
        bench = Bench(source)
        try:
            result = bench.evaluate(TRITON.format(distance=1 << 40))[-2]
            self.assertEqual((result["outcome"], result["side"]), ("call_failed", "candidate"), result)
            self.assertIn("illegal memory access", result["text"])
            result = bench.evaluate(None)[-2]
            self.assertEqual(result["outcome"], "done", result)
        finally:
            bench.close()


class MemfdTest(GpuCase):
    """Buffers in host memory, for hosts without descriptors of device memory."""

    @classmethod
    def setUpClass(cls):
        os.environ["PIKE_BUFFERS"] = "memfd"
        try:
            super().setUpClass()
        finally:
            del os.environ["PIKE_BUFFERS"]

    def test_calls(self):
        self.check_done("return y")
        self.check_done("return y.t().contiguous().t()")
        self.check_done("return torch.cat([y, y], 1)[:, :32]")
        self.assertTrue(self.check_done("x.zero_(); return y")["correctness"]["input_mutated"])
        self.check_mismatch("return y + 0.1", "elements out of tolerance")
        self.check_mismatch("return y.cpu()", "expected a tensor on cuda, got one on cpu")


if __name__ == "__main__":
    unittest.main()
