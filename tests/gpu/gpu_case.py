"""What the GPU tests share: a judge and runners as processes on the GPU, without sandbox and gRPC."""

import os
import subprocess
import sys
import unittest

os.environ.setdefault("PIKE_DEVICE", "cuda")
SOURCE_DIR = os.environ["PIKE_SOURCE_DIR"]
sys.path.insert(0, os.path.join(SOURCE_DIR, "tests", "integration"))

from judge_driver import LINEAR_TASK, Bench, Runner, linear

START_CUDA = "import ctypes; exit(ctypes.CDLL('libcuda.so.1').cuInit(0))"
HAS_GPU = subprocess.run([sys.executable, "-c", START_CUDA], stderr=subprocess.DEVNULL).returncode == 0

TASK = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        {init}

    def forward(self, {forward}

def get_inputs():
    return {inputs}

def get_init_inputs():
    return []
"""


def task(forward, inputs, init="pass"):
    return TASK.format(forward=forward, inputs=inputs, init=init)


class GpuCase(unittest.TestCase):
    """A bench for the task of the class, on the GPU."""

    task_source = LINEAR_TASK

    @classmethod
    def setUpClass(cls):
        if not HAS_GPU:
            raise unittest.SkipTest("no GPU here")
        cls.bench = Bench(cls.task_source)
        assert cls.bench.opened["type"] == "task_ready", cls.bench.opened

    @classmethod
    def tearDownClass(cls):
        cls.bench.close()

    def evaluate(self, body, **policy):
        return self.bench.evaluate(linear(body), **policy)

    def check_done(self, body):
        result = self.evaluate(body)[-2]
        self.assertEqual(result["outcome"], "done", result)
        return result

    def check_mismatch(self, body, text):
        result = self.evaluate(body)[-2]
        self.assertEqual((result["outcome"], result["side"]), ("mismatch", "candidate"), result)
        self.assertIn(text, result["correctness"]["first_failure"])
        return result
