"""Tasks of several kinds, loading, and the scripts as programs."""

import os
import statistics
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from judge_driver import LINEAR_TASK, Bench, Runner, linear, start_program

import loader


NULL_BYTE_ERROR = "ValueError" if sys.version_info < (3, 12) else "SyntaxError"


class TaskTest(unittest.TestCase):
    """Tasks of other kinds, with their own reference as candidate."""

    def evaluate(self, forward, inputs, init="", candidate=None):
        source = "import torch\nclass Model(torch.nn.Module):\n"
        source += f"    def __init__(self):\n        super().__init__()\n        {init or 'pass'}\n"
        source += f"    def forward(self, {forward}\n"
        source += f"def get_inputs():\n    return {inputs}\ndef get_init_inputs():\n    return []\n"
        bench = Bench(source)
        try:
            if bench.opened["type"] != "task_ready":
                return bench.opened
            return bench.evaluate(source.replace(*candidate) if candidate else None)[-2]
        finally:
            bench.close()

    def check_done(self, *arguments, **others):
        result = self.evaluate(*arguments, **others)
        self.assertEqual(result.get("outcome"), "done", result)
        return result

    def test_stateful(self):
        init = "self.state = torch.zeros(8)"
        forward = "x):\n        self.state = self.state * 0.5 + x\n        return self.state.clone()"
        self.check_done(forward, "[torch.randn(8)]", init)
        result = self.evaluate(forward, "[torch.randn(8)]", init, candidate=("0.5", "0.2"))
        self.assertEqual(result["outcome"], "mismatch")

    def test_random(self):
        self.check_done(
            "x):\n        return torch.nn.functional.dropout(x, 0.5, training=True)",
            "[torch.randn(64)]",
        )

    def test_outputs_of_all_kinds(self):
        forward = """x, flag, names):
        values, places = x.max(dim=1)
        return {"values": values, 3: [places, places.bool(), names["a"] + 1],
                "more": (x.half(), x.bfloat16(), torch.complex(x, x).conj(), x[:0], x.sum()),
                "plain": (flag, None, "text", float(x.mean()), int(places.sum()))}"""
        inputs = '[torch.randn(4, 6).t(), True, {"a": torch.arange(3), "b": (None, "s", 7)}]'
        result = self.check_done(forward, inputs)
        self.assertEqual(len(result["correctness"]["outputs"]), 9)
        self.assertEqual(result["correctness"]["outputs"][0]["path"], "out['more'][0]")
        wrong = self.evaluate(forward, inputs, candidate=("+ 1]", "+ 2]"))
        self.assertIn("out[3][2]: 3 of 3 elements", wrong["correctness"]["first_failure"])
        wrong = self.evaluate(forward, inputs, candidate=("int(places.sum())", "int(places.sum()) + 1"))
        self.assertIn("out['plain'][4]: expected", wrong["correctness"]["first_failure"])
        wrong = self.evaluate(forward, inputs, candidate=(", x[:0], x.sum())", ",)"))
        self.assertIn("expected a tuple of 5, got a tuple of 3", wrong["correctness"]["first_failure"])

    def test_inputs_of_all_kinds(self):
        forward = """a, b, c, d):
        assert a.stride() == (1, 5) and b.dtype == torch.bool and c.requires_grad and d.dim() == 0
        return a.sum(1) + b.sum() + c.sum() + d"""
        inputs = (
            "[torch.randn(5, 4).as_strided((5, 4), (1, 5)), torch.rand(9) > 0.5,"
            " torch.randn(3, requires_grad=True), torch.tensor(2)]"
        )
        self.check_done(forward, inputs)
        self.check_done("x):\n        return x * 2", "[torch.randn(1, 4).expand(3, 4)]")
        self.check_done("x, y):\n        x.mul_(2)\n        return x + y", "[torch.ones(3)] * 2",
                        candidate=("x.mul_(2)\n        return x + y", "return 2 * x + y"))

    def test_changing_shapes(self):
        inputs = "[torch.randn(int(torch.randint(1, 3000, (1,))), 8)]"
        self.check_done("x):\n        return x + 1", inputs)

    def test_a_fault_of_the_task(self):
        failed = self.evaluate("x):\n        return x", "[object()]")
        self.assertEqual((failed["type"], failed["where"]), ("task_failed", "inputs"))
        self.assertIn("type object cannot cross", failed["text"])
        failed = self.evaluate("x):\n        return x", "[undefined]")
        self.assertEqual((failed["where"], failed["error_type"]), ("inputs", "NameError"))
        failed = self.evaluate("x):\n        raise ValueError('bad')", "[1]")
        self.assertEqual((failed["where"], failed["error_type"]), ("reference", "ValueError"))


class FrameTest(unittest.TestCase):
    """What a judge answers beside evaluations."""

    @classmethod
    def setUpClass(cls):
        cls.bench = Bench(LINEAR_TASK)

    @classmethod
    def tearDownClass(cls):
        cls.bench.close()

    def test_the_device(self):
        device = self.bench.opened["device"]
        self.assertEqual((device["kind"], device["sentinel_us"]), ("cpu", 0))
        self.assertGreater(device["memory_total_bytes"], device["memory_free_bytes"])

    def test_settle(self):
        order = {"type": "settle", "timeout_ms": 1000, "memory_floor_bytes": 0}
        settled = self.bench.judge.request(order)
        self.assertEqual((settled["type"], settled["is_quiet"]), ("settled", True))
        order["memory_floor_bytes"] = 1 << 60
        self.assertFalse(self.bench.judge.request({**order, "timeout_ms": 5})["is_quiet"])

    def test_a_stock_of_inputs_sets_the_end(self):
        order = {"type": "prepare", "calls": 21, "bytes_max": 1 << 20, "ms_max": 60000}
        prepared = self.bench.judge.request(order)
        self.assertEqual((prepared["type"], prepared["inputs"]), ("prepared", 21))
        each = 16 * 32 * 4 + 4096  # and its file, a whole page
        self.assertEqual(prepared["bytes"], 21 * each)
        self.assertEqual(self.bench.judge.request({**order, "bytes_max": 15000})["inputs"], 2)
        self.assertEqual(self.bench.judge.request({**order, "calls": 21})["inputs"], 21)
        candidate, reference = self.bench.start_runners(None)
        try:
            self.bench.begin(candidate.judge_end.fileno(), reference.judge_end.fileno())
            order = {"warmup_calls": 2, "timed_calls_max": 100, "timed_ms_max": 60000}
            result = self.bench.judge.request({"type": "measure", **order})
            self.assertEqual(result["outcome"], "done", result)
            self.assertEqual(len(result["samples"]["candidate_claim_ns"]), 19)
            self.bench.judge.request({"type": "end"})
        finally:
            candidate.stop()
            reference.stop()

    def test_a_call_that_is_not_scored(self):
        for body, outcome in (("return object()", "done"), ("1 / 0", "call_failed")):
            candidate, reference = self.bench.start_runners(linear(body))
            try:
                order = {"type": "jit_call", "timeout_ms": 20000}
                result = self.bench.judge.request(order, [candidate.judge_end.fileno()])
                self.assertEqual((result["op"], result["outcome"]), ("jit_call", outcome), result)
                self.assertNotIn("correctness", result)
            finally:
                candidate.stop()
                reference.stop()


class LoadTest(unittest.TestCase):
    """What a runner says about a file that does not load."""

    @classmethod
    def setUpClass(cls):
        cls.bench = Bench(LINEAR_TASK)

    @classmethod
    def tearDownClass(cls):
        cls.bench.close()

    def load(self, source, task=None):
        path = self.bench.write("candidate.py", source)
        runner = Runner(path, task or self.bench.task_path, ["ModelNew", "Model"])
        runner.stop()
        return runner.answer

    def test_failures(self):
        for source, where, kind, error_type in (
            ("def f(:\n", "parse", "syntax", "SyntaxError"),
            ("x = 1\0", "parse", "syntax", NULL_BYTE_ERROR),
            ("x = 1", "entry", "no_entry", "AttributeError"),
            ("import no_such_module", "import", "exception", "ModuleNotFoundError"),
            ("raise MemoryError", "import", "memory", "MemoryError"),
            ("raise KeyboardInterrupt", "import", "exception", "KeyboardInterrupt"),
            ("class ModelNew:\n    def __init__(self, n): 1 / 0", "constructor", "exception", "ZeroDivisionError"),
        ):
            answer = self.load(source)
            self.assertEqual(
                (answer["type"], answer["where"], answer["kind"], answer["error_type"]),
                ("failed", where, kind, error_type),
                answer,
            )

    def test_what_says_that_memory_ran_out(self):
        for text in (
            "Triton Error [CUDA]: out of memory",
            "CUDA error: out of memory\nCUDA kernel errors might be reported later",
            "CUDA Out Of Memory.",
            "CUDA_ERROR_OUT_OF_MEMORY",
            "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
            "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`",
        ):
            self.assertEqual(loader.describe_error(RuntimeError(text))[2], "memory", text)
        for error in (RuntimeError("index out of range"), ValueError("out of memory")):
            self.assertEqual(loader.describe_error(error)[2], "exception", error)

    def test_a_failure_of_the_task_file_is_the_task_s(self):
        task = self.bench.write("broken.py", "def get_init_inputs():\n    return undefined\n")
        answer = self.load("class ModelNew:\n    pass", task)
        self.assertEqual((answer["where"], answer["error_type"]), ("task", "NameError"))

    def test_what_a_file_may_rely_on(self):
        answer = self.load(
            "import dataclasses, inspect, os, pickle, sys\n"
            "assert os.path.isfile(__file__) and __name__ != '__main__'\n"
            "open(__file__ + '.side', 'w').close()\n"
            "@dataclasses.dataclass\nclass D:\n    x: int = 1\n"
            "assert pickle.loads(pickle.dumps(D())) == D()\n"
            "assert 'x: int' in inspect.getsource(D)\n"
            "class Model:\n    def __init__(self, n): assert n == 32\n"
            "class ModelNew(Model): pass\n"
            "if __name__ == '__main__': raise SystemExit(3)\n"
        )
        self.assertEqual((answer["type"], answer.get("entry")), ("loaded", "ModelNew"), answer)


class ProgramTest(unittest.TestCase):
    """The scripts as programs, with the environment that a sandbox gives."""

    def test_import_only(self):
        bench = Bench(LINEAR_TASK)
        try:
            path = bench.write("candidate.py", linear("return y"))
            process, channel = start_program("runner_main.py")
            self.assertEqual(channel.recv()[0]["type"], "ready")
            channel.send({"type": "load", "mode": "import", "path": path, "entries": ["ModelNew"]})
            self.assertEqual(channel.recv()[0]["type"], "loaded")
            with self.assertRaises(EOFError):
                channel.recv()
            self.assertEqual(process.wait(30), 0)
        finally:
            bench.close()

    def test_exit_in_import_is_seen_as_such(self):
        bench = Bench(LINEAR_TASK)
        try:
            for source, status in (("raise SystemExit(7)", 7), ("import sys; sys.exit()", 0)):
                path = bench.write("candidate.py", source)
                process, channel = start_program("runner_main.py")
                channel.recv()
                channel.send({"type": "load", "mode": "import", "path": path, "entries": []})
                with self.assertRaises(EOFError):
                    channel.recv()
                self.assertEqual(process.wait(30), status)
        finally:
            bench.close()

    def test_the_judge_ends_with_its_supervisor(self):
        process, channel = start_program("judge_main.py")
        self.assertEqual(channel.recv()[0]["type"], "ready")
        channel.close()
        self.assertEqual(process.wait(30), 0)


class NoiseTest(unittest.TestCase):
    """A/A: reported, not asserted, since other tests share the machine."""

    def test_reference_against_itself(self):
        bench = Bench(LINEAR_TASK.replace("16, 32", "512, 512").replace("[32]", "[512]"))
        try:
            samples = bench.evaluate(None)[-2]["samples"]
            candidate = statistics.median(samples["candidate_claim_ns"])
            reference = statistics.median(samples["reference_claim_ns"])
            wall = statistics.median(samples["candidate_wall_ns"])
            print(f"A/A: {reference / candidate:.3f}, call {candidate / 1e6:.3f} ms, wall {wall / 1e6:.3f} ms")
        finally:
            bench.close()


if __name__ == "__main__":
    unittest.main()
