"""Drives a judge and two runners as a supervisor does, without sandbox and gRPC.

Processes are forked from the test, which has imported torch but never computed with it, since an
import of torch for each of them would take most of the time. One test starts real programs.
"""

import os
import signal
import socket
import subprocess
import sys
import tempfile
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

SOURCE_DIR = os.environ["PIKE_SOURCE_DIR"]
INSIDE_DIR = os.path.join(SOURCE_DIR, "common", "inside")
NATIVE_DIR = os.environ["PIKE_NATIVE_DIR"]
WEIGHT_SEED = 42
SECONDS_MAX = 150
# What the processes get of our environment: they run on the GPU if a test says so.
DEVICE_VARIABLES = ("PIKE_DEVICE", "PIKE_BUFFERS")
sys.path.insert(0, INSIDE_DIR)

import frames
import judge_main
import runner_main

LINEAR_TASK = """
import torch

class Model(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layer = torch.nn.Linear(width, width)

    def forward(self, x, scale):
        return torch.relu(self.layer(x)) * scale

def get_inputs():
    return [torch.randn(16, 32), 2.0]

def get_init_inputs():
    return [32]
"""

LINEAR_CANDIDATE = """
import os, signal, time
import torch

class ModelNew(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layer = torch.nn.Linear(width, width)
        self.calls = 0

    def right(self, x, scale):
        return torch.relu(self.layer(x)) * scale

    def forward(self, x, scale):
        self.calls += 1
        y = self.right(x, scale)
        {body}
"""


def linear(body: str) -> str:
    """A candidate for LINEAR_TASK; `body` has the right answer in y."""
    return LINEAR_CANDIDATE.format(body=body)


Main = Callable[[Dict[str, str]], None]


class Process:
    """A forked process with the frame channel to it."""

    def __init__(self, main: Main) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            self._be_child(main, theirs.fileno())
        theirs.close()
        ours.settimeout(SECONDS_MAX)
        self.channel = frames.FrameChannel(ours.detach())
        self.channel._socket.settimeout(SECONDS_MAX)

    @staticmethod
    def _be_child(main: Main, fd: int) -> None:
        status = 1
        try:
            os.dup2(fd, 3)
            os.closerange(4, 1024)
            environment = {name: os.environ[name] for name in DEVICE_VARIABLES if name in os.environ}
            main({"PIKE_FRAME_FD": "3", "PIKE_NATIVE_DIR": NATIVE_DIR, **environment})
            status = 0
        finally:
            os._exit(status)

    def request(self, frame: Dict[str, Any], fds: Sequence[int] = ()) -> Dict[str, Any]:
        self.channel.send(frame, fds)
        return self.channel.recv()[0]

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    def stop(self) -> int:
        """Kills and reaps; the wait status."""
        self.channel.close()
        try:
            self.kill()
        except ProcessLookupError:
            pass
        return os.waitpid(self.pid, 0)[1]


class Runner(Process):
    """A runner that has loaded `path`, or `answer` says why not."""

    def __init__(self, path: str, task_path: str, entries: Sequence[str]) -> None:
        super().__init__(lambda environment: runner_main.main(environment, []))
        self.judge_end, runner_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        assert self.channel.recv()[0]["type"] == "ready"
        order = {
            "type": "load",
            "mode": "construct",
            "path": path,
            "entries": list(entries),
            "task_path": task_path,
            "weight_seed": WEIGHT_SEED,
        }
        self.answer = self.request(order, [runner_end.fileno()])
        runner_end.close()

    def stop(self) -> int:
        self.judge_end.close()
        return super().stop()


class Bench:
    """Files, a judge for one task, and evaluations of candidates against it."""

    def __init__(self, task_source: str) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self.task_path = self.write("task.py", task_source)
        self.judge = Process(judge_main.main)
        assert self.judge.channel.recv()[0]["type"] == "ready"
        self.opened = self.judge.request(
            {
                "type": "open_task",
                "path": self.task_path,
                "weight_seed": WEIGHT_SEED,
                "entry": "Model",
            }
        )

    def write(self, name: str, source: str) -> str:
        path = os.path.join(self._folder.name, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(source)
        return path

    def start_runners(self, candidate_source: Optional[str]) -> Tuple[Runner, Runner]:
        path = self.task_path
        if candidate_source is not None:
            path = self.write("candidate.py", candidate_source)
        candidate = Runner(path, self.task_path, ["ModelNew", "Model"])
        reference = Runner(self.task_path, self.task_path, ["Model"])
        assert reference.answer["type"] == "loaded", reference.answer
        return candidate, reference

    def begin(self, candidate_fd: int, reference_fd: int, **policy: Any) -> Dict[str, Any]:
        request = {
            "type": "begin",
            "atol": 1e-2,
            "rtol": 1e-2,
            "first_call_timeout_ms": 20000,
            "call_timeout_ms": 20000,
            **policy,
        }
        return self.judge.request(request, [candidate_fd, reference_fd])

    def evaluate(self, candidate_source: Optional[str], **policy: Any) -> List[Dict[str, Any]]:
        """Results of the operations until one is not done, and the frame that ended it."""
        candidate, reference = self.start_runners(candidate_source)
        try:
            assert candidate.answer["type"] == "loaded", candidate.answer
            began = self.begin(candidate.judge_end.fileno(), reference.judge_end.fileno(), **policy)
            assert began["type"] == "begun", began
            return self.run_operations()
        finally:
            candidate.stop()
            reference.stop()

    def run_operations(self) -> List[Dict[str, Any]]:
        results = []
        for request in (
            {"type": "first_call"},
            {"type": "verify", "calls": 5},
            {"type": "measure", "warmup_calls": 2, "timed_calls_max": 10, "timed_ms_max": 2000},
        ):
            results.append(self.judge.request(request))
            if results[-1]["outcome"] != "done":
                break
        results.append(self.judge.request({"type": "end"}))
        return results

    def close(self) -> None:
        self.judge.stop()
        self._folder.cleanup()


def start_program(script: str) -> Tuple[subprocess.Popen, frames.FrameChannel]:
    """Starts a script of common/inside as the supervisor does."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    environment = {
        "PATH": "",
        "PIKE_FRAME_FD": str(theirs.fileno()),
        "PIKE_NATIVE_DIR": NATIVE_DIR,
    }
    command = [sys.executable, "-s", "-P", os.path.join(INSIDE_DIR, script)]
    process = subprocess.Popen(command, env=environment, pass_fds=[theirs.fileno()])
    theirs.close()
    ours.settimeout(SECONDS_MAX)
    channel = frames.FrameChannel(ours.detach())
    channel._socket.settimeout(SECONDS_MAX)
    return process, channel
