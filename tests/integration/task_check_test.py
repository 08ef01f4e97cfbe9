"""What `check_task` says about tasks of known worth, and how candidates are named by precision."""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from judge_driver import LINEAR_TASK, Bench, linear

REQUEST = {"type": "check_task", "atol": 1e-2, "rtol": 1e-2, "ms_max": 20000, "bytes_max": 1 << 30}
COMPUTED_ONCE = "an output that was computed once passes"


def task(forward, inputs, init="pass"):
    return (
        "import torch\n"
        "class Model(torch.nn.Module):\n"
        f"    def __init__(self):\n        super().__init__()\n        {init}\n"
        f"    def forward(self, {forward}\n"
        f"def get_inputs():\n    return {inputs}\n"
        "def get_init_inputs():\n    return []\n"
    )


class TaskCheckTest(unittest.TestCase):
    def check(self, forward, inputs, init="pass", **request):
        bench = Bench(task(forward, inputs, init))
        try:
            self.assertEqual(bench.opened["type"], "task_ready", bench.opened)
            checked = bench.judge.request({**REQUEST, **request})
            self.assertEqual(checked["type"], "task_checked", checked)
            return checked
        finally:
            bench.close()

    def test_a_task_that_can_judge(self):
        bench = Bench(LINEAR_TASK)
        try:
            checked = bench.judge.request(REQUEST)
            self.assertEqual(checked["degenerate"], [], checked)
            self.assertEqual(checked["not_checked"], [], checked)
            self.assertTrue(checked["is_deterministic"])
            self.assertEqual([i["path"] for i in checked["inputs"]], ["input[0]"])
            self.assertGreater(checked["inputs"][0]["changed"], 0.5)
            self.assertLess(checked["frozen_passes"], 0.5)
            self.assertEqual((checked["input_bytes"], checked["output_bytes"]), (2048, 2048))
            errors = {row["precision"]: row["error"] for row in checked["precisions"]}
            self.assertEqual(set(errors), {"fp32", "fp16", "bf16"})
            self.assertTrue(0 < errors["fp32"] < 1e-6 < 1e-5 < errors["fp16"] < errors["bf16"] < 0.1)
            self.assertEqual(checked["native_error"], errors["fp32"])
            # Another set of tolerances on the same bench; what is known of precisions is kept.
            narrow = {"tolerances": [{"dtype": "float32", "atol": 100.0, "rtol": 0.0}]}
            again = bench.judge.request({**REQUEST, **narrow})
            self.assertIn("zeros pass", again["degenerate"])
            self.assertEqual(again["precisions"], checked["precisions"])
            # The reference that judges is untouched.
            result = bench.evaluate(None)
            self.assertEqual([r.get("outcome") for r in result[:3]], ["done"] * 3, result)
        finally:
            bench.close()

    def test_outputs_that_need_not_be_computed(self):
        checked = self.check("x):\n        return 5 + x.sum() * 1e-6", "[torch.randn(64, 64)]")
        self.assertEqual(checked["frozen_passes"], 1)
        self.assertEqual(checked["degenerate"], [COMPUTED_ONCE, "one number for all elements passes"])
        checked = self.check("x):\n        return torch.softmax(x, 1)", "[torch.randn(4, 50000)]")
        self.assertIn("zeros pass", checked["degenerate"])
        self.assertEqual((checked["zeros_passes"], checked["constant_passes"]), (1, 1))
        checked = self.check("x, y):\n        return torch.relu(y)", "[torch.randn(40), torch.rand(40)]")
        self.assertEqual(
            checked["degenerate"],
            ["a returned input passes", "the outputs do not depend on input[0]"],
        )
        self.assertEqual(checked["copy_passes"], 1)
        checked = self.check("x):\n        return x + 1", "[torch.arange(9.0)]")
        self.assertIn("get_inputs makes the same inputs under every seed", checked["degenerate"])
        checked = self.check("x):\n        return x[:0]", "[torch.randn(4)]")
        self.assertEqual(
            checked["degenerate"], ["the outputs hold no elements: every program passes"]
        )

    def test_one_of_several_outputs(self):
        forward = "x):\n        return {'y': x * 2, 'loss': x.mean() * 1e-4, 'none': torch.zeros(3)}"
        checked = self.check(forward, "[torch.randn(500)]")
        # An output that is always the same may be stored; one that varies may not.
        self.assertEqual(checked["degenerate"], [f"{COMPUTED_ONCE} for out['loss']"])

    def test_small_outputs_do_not_look_frozen_by_chance(self):
        for _ in range(4):
            checked = self.check("x):\n        return x.sum() > 0, x * 2", "[torch.randn(50)]")
            if len(checked["degenerate"]) > 0:  # one time in 32
                self.assertIn("out[0]", checked["degenerate"][0])
                continue
            return
        self.fail(f"frozen four times: {checked}")

    def test_state_chance_and_nested_values(self):
        init = "self.state = torch.zeros(8)"
        forward = "x):\n        self.state = self.state * 0.5 + x\n        return self.state.clone()"
        checked = self.check(forward, "[torch.randn(8)]", init)
        self.assertTrue(checked["is_deterministic"])
        self.assertEqual(checked["degenerate"], ["a returned input passes"])
        self.assertEqual({r["precision"] for r in checked["precisions"]}, {"fp32", "fp16", "bf16"})
        checked = self.check("x):\n        return torch.dropout(x, 0.5, True)", "[torch.randn(64)]")
        self.assertEqual((checked["is_deterministic"], checked["degenerate"]), (True, []), checked)
        self.assertEqual(
            checked["not_checked"], ["precisions: the reference draws random numbers"]
        )
        forward = "x):\n        import os\n        return x + int.from_bytes(os.urandom(2), 'big')"
        checked = self.check(forward, "[torch.randn(8)]")
        self.assertFalse(checked["is_deterministic"])
        self.assertIn("it judges nobody", checked["degenerate"][0])
        forward = """x, flag, names):
        values, places = x.max(dim=1)
        x.zero_()
        return {"values": values, 3: [places, places.bool(), names["a"] + 1],
                "more": (values.half(), values.bfloat16(), torch.complex(values, values).conj(), x[:0]),
                "plain": (flag, None, "text", float(values.mean()), int(places.sum()))}"""
        inputs = '[torch.randn(40, 60).t(), True, {"a": torch.randint(9, (30,)), "b": (None, "s", 7)}]'
        checked = self.check(forward, inputs)
        self.assertEqual([i["path"] for i in checked["inputs"]], ["input[0]", "input[2]['a']"])
        # The places of the maxima are hardly ever all zero.
        self.assertEqual(checked["degenerate"], [], checked)

    def test_other_dtypes(self):
        checked = self.check("x):\n        return x.cumsum(0)", "[torch.randint(9, (30,))]")
        self.assertEqual((checked["degenerate"], checked.get("precisions")), ([], None), checked)
        checked = self.check("x):\n        return torch.fft.fft(x)", "[torch.randn(32)]")
        self.assertEqual(checked["degenerate"], [])
        self.assertIn("fp32", {r["precision"] for r in checked["precisions"]})
        checked = self.check("x):\n        return x.exp().sum(1)", "[torch.randn(32, 9).double()]")
        self.assertEqual(checked["native_error"], 0)
        checked = self.check("x):\n        return x @ x.t()", "[torch.randn(32, 32).bfloat16()]")
        self.assertGreater(checked["native_error"], 1e-4)

    def test_bytes_that_must_be_moved(self):
        def moved(forward, inputs="[torch.randn(100, 100)]"):
            checked = self.check(forward, inputs, needed_bytes=True)
            self.assertNotIn("bytes", str(checked["not_checked"]), checked)
            return checked["needed_read_bytes"], checked["needed_written_bytes"]

        read, written = moved("x):\n        return x * 2")
        self.assertTrue(read == 20000 and 39000 < written <= 40000, written)
        # Views of the input, or of little else.
        self.assertEqual(moved("x):\n        return x.t().contiguous()"), (20000, 0))
        self.assertEqual(moved("x):\n        return x.sum(1).expand(100, 100).contiguous()"), (20000, 400))
        # Programs need not read what does not show in the outputs.
        self.assertEqual(moved("x):\n        return x[:, :1].repeat(1, 100) * 2 + 1")[0], 0)
        self.assertEqual(moved("x):\n        return (x * 1e-5).sum(1)")[0], 0)
        self.assertGreater(moved("x):\n        return torch.fft.fft(x)")[1], 40000)

    def test_what_is_left_out(self):
        checked = self.check("x):\n        return x * 2", "[torch.randn(1 << 20)]", bytes_max=1 << 20)
        self.assertEqual(checked["degenerate"], [])
        self.assertRegex(checked["not_checked"][0], r"everything: it takes some \d+ MiB of memory")
        checked = self.check("x):\n        return x * 2", "[torch.randn(8)]", ms_max=0)
        self.assertIn("precisions: no time left", checked["not_checked"])
        init = "self.calls = 0"
        forward = "x):\n        self.calls += 1\n        assert self.calls < 3\n        return x + self.calls"
        checked = self.check(forward, "[torch.randn(8)]", init)
        self.assertEqual(checked["degenerate"], [])


class PrecisionTest(unittest.TestCase):
    """Classes as the supervisor would derive them."""

    CLASSES = [{"name": "fp32", "error_max": 1e-6}, {"name": "fp16", "error_max": 2e-3}]

    def evaluate(self, body, **policy):
        bench = Bench(LINEAR_TASK)
        try:
            return bench.evaluate(linear(body), precisions=self.CLASSES, **policy)[-2]
        finally:
            bench.close()

    def named(self, body, **policy):
        result = self.evaluate(body, **policy)
        self.assertEqual(result["outcome"], "done", result)
        return result["correctness"]["precision_class"]

    def test_names(self):
        self.assertEqual(self.named("return y"), "exact")
        self.assertEqual(self.named("return (y.double() * (1 + 2e-7)).float()"), "fp32")
        self.assertEqual(self.named("return y.half().float()"), "fp16")
        self.assertEqual(self.named("return y * 1.005"), "tolerance")

    def test_the_least_precision(self):
        least = {"precision": "fp32", "precision_error_max": 1e-6}
        self.assertEqual(self.named("return (y.double() * (1 + 2e-7)).float()", **least), "fp32")
        result = self.evaluate("return y.half().float()", **least)
        self.assertEqual((result["outcome"], result["side"]), ("mismatch", "candidate"))
        self.assertRegex(
            result["correctness"]["first_failure"],
            r"^call 1: out: as coarse as fp16 \(off by .*\); the policy asks for fp32 \(at most 1e-06\)$",
        )
        self.assertEqual(result["reference"]["calls_passed"], 1)

    def test_tolerances_by_dtype(self):
        rows = [{"dtype": "float16", "atol": 1.0, "rtol": 0.0}]
        self.assertEqual(self.evaluate("return y + 0.1", tolerances=rows)["outcome"], "mismatch")
        rows[0]["dtype"] = "float32"
        self.assertEqual(self.named("return y + 0.1", tolerances=rows), "tolerance")


if __name__ == "__main__":
    unittest.main()
