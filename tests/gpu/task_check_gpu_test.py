"""What `check_task` says on a GPU, and that honest programs are above the floor that follows from it."""

import os
import statistics
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from gpu_case import HAS_GPU, Bench, task

REQUEST = {
    "type": "check_task",
    "atol": 1e-2,
    "rtol": 1e-2,
    "ms_max": 3000,
    "bytes_max": 8 << 30,
    "needed_bytes": True,
}
SHIFT = task("x):\n        return x + 10", "[torch.randn(32 << 20)]")
MATMUL = task("x):\n        return x @ x.t()", "[torch.randn(512, 512)]")
CONVOLUTION = task(
    "x):\n        return self.layer(x)",
    "[torch.randn(8, 64, 32, 32)]",
    "self.layer = torch.nn.Conv2d(64, 64, 3)",
)
PEAK_SHARE = 0.8  # as gpu_worker/core/floor.cc


@unittest.skipUnless(HAS_GPU, "no GPU here")
class TaskCheckGpuTest(unittest.TestCase):
    def open(self, source):
        bench = Bench(source)
        self.addCleanup(bench.close)
        self.assertEqual(bench.opened["type"], "task_ready", bench.opened)
        checked = bench.judge.request(REQUEST)
        self.assertEqual(checked["type"], "task_checked", checked)
        return bench, checked

    def test_precisions(self):
        for source in (MATMUL, CONVOLUTION):
            _, checked = self.open(source)
            self.assertEqual((checked["degenerate"], checked["not_checked"]), ([], []), checked)
            errors = {row["precision"]: row["error"] for row in checked["precisions"]}
            self.assertEqual(set(errors), {"fp32", "tf32", "fp16", "bf16"}, checked)
            self.assertTrue(errors["fp32"] < 1e-5 < errors["tf32"] < errors["bf16"], errors)
            print("errors", errors, "as it is", checked["native_error"])
            self.assertGreater(checked["device_bytes_peak"], checked["input_bytes"])

    def test_the_settings_of_the_judge_are_as_they_were(self):
        bench, _ = self.open(CONVOLUTION)
        result = bench.evaluate(None)[-2]
        self.assertEqual(result["outcome"], "done", result)
        self.assertEqual(result["correctness"]["precision_class"], "exact")

    def test_an_honest_program_is_above_the_floor(self):
        bench, checked = self.open(SHIFT)
        peak = bench.opened["device"]["bytes_per_s"]
        self.assertTrue(1e11 < peak < 1e14, bench.opened)
        self.assertEqual(checked["needed_read_bytes"], checked["input_bytes"] // 2, checked)
        self.assertGreater(checked["needed_written_bytes"], 0)
        written = max(0, checked["needed_written_bytes"] - (128 << 20))
        floor_ns = PEAK_SHARE * (checked["needed_read_bytes"] + written) / peak * 1e9
        claims = bench.evaluate(None)[-2]["samples"]["candidate_claim_ns"]
        mean_ns = statistics.mean(claims)
        print(f"peak {peak / 1e12:.2f} TB/s, floor {floor_ns / 1e3:.1f} us, claims {mean_ns / 1e3:.1f} us")
        self.assertGreater(mean_ns, floor_ns)
        # A floor that is far below honest programs catches nothing.
        self.assertGreater(floor_ns, 0.05 * mean_ns)


if __name__ == "__main__":
    unittest.main()
