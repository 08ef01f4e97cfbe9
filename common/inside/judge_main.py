"""The judge of one task: loads the task's file and hands its functions to the native part.

Frames: gpu_worker/judge/PROTOCOL.md. Inputs, calls, clocks, copies and comparison are native
(_pike_judge). No candidate is ever in this process.
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import gc
import importlib
import json
import sys
from typing import Any, Callable, Dict, List, Optional

INSIDE_DIR = os.path.dirname(os.path.abspath(__file__))
if INSIDE_DIR not in sys.path:
    sys.path.insert(0, INSIDE_DIR)

import torch

import frames
import loader
import task_check

# ControlOrder of gpu_worker/judge/call_channel.h.
ORDERS = {"hold": 1, "resume": 2, "abort": 3}


class Judge:
    """Answers the supervisor's requests, one at a time."""

    def __init__(self, channel: frames.FrameChannel, native: Any, device: str, buffers: str) -> None:
        self._channel = channel
        self._native = native
        self._device = device
        self._buffers = buffers
        self._reference: Optional[task_check.Reference] = None
        self._precisions: Any = None  # of the task, once they are known
        self._answers: Dict[str, Callable[[Dict[str, Any], List[int]], Any]] = {
            "open_task": self._open_task,
            "check_task": self._check_task,
            "prepare": lambda request, fds: json.loads(
                native.prepare(request["calls"], request["bytes_max"], request["ms_max"])
            ),
            "settle": self._settle,
            "jit_call": lambda request, fds: json.loads(
                native.jit_call(request["timeout_ms"], *fds)
            ),
            "begin": self._begin,
            "first_call": lambda request, fds: json.loads(native.first_call()),
            "verify": lambda request, fds: json.loads(native.verify(request["calls"])),
            "measure": lambda request, fds: json.loads(
                native.measure(
                    request["warmup_calls"],
                    request["timed_calls_max"],
                    request["timed_ms_max"],
                    request.get("turns", False),
                )
            ),
            "end": self._end,
        }

    def serve(self) -> None:
        """Returns when the supervisor closes its end."""
        self._channel.send({"type": "ready", "torch": torch.__version__})
        while True:
            try:
                request, fds = self._channel.recv()
            except EOFError:
                return
            if request["type"] in ORDERS:
                continue  # came after the operation it was meant for
            self._channel.send(self._answers[request["type"]](request, fds))
            gc.collect()
            if request["type"] in ("open_task", "check_task", "end"):
                self._release_memory()

    def _release_memory(self) -> None:
        """Gives what torch keeps for later allocations back, so that runners have it."""
        if self._device == "cuda" and torch.cuda.is_initialized():
            try:
                torch.cuda.empty_cache()
            except RuntimeError:
                pass  # an error that stays: the next operation reports it

    def read_control(self) -> int:
        """Reads one order while an operation runs. Whatever is no order aborts the operation."""
        try:
            request, fds = self._channel.recv()
        except (EOFError, ValueError, OSError):
            return ORDERS["abort"]
        for fd in fds:
            os.close(fd)
        return ORDERS.get(request.get("type"), ORDERS["abort"])

    def ask_turn(self, side: str) -> None:
        """Asks the supervisor to let this side run and to make the other stand still."""
        self._channel.send({"type": "turn", "side": side})

    def _open_task(self, request: Dict[str, Any], fds: List[int]) -> Any:
        weight_seed = request["weight_seed"]
        failed = self._native.use_device(self._device, self._buffers)
        if failed:
            return json.loads(failed)
        try:
            if self._device == "cuda":
                # Before any seed, which torch only notes down until then.
                loader.guarded("device", torch.cuda.init)
        except loader.LoadFailure as failure:
            failure.kind = "device"
            return failure.frame("task_failed")
        try:
            task = loader.load_task(request["path"])
            model_type = getattr(task, loader.find_entry(task, [request["entry"]]))
            loader.find_entry(task, ["get_inputs"])
            loader.make_init_inputs(task, weight_seed)
        except loader.LoadFailure as failure:
            return failure.frame("task_failed")

        def make_reference() -> Any:
            init_inputs = loader.make_init_inputs(task, weight_seed)
            return loader.make_model(model_type, init_inputs, weight_seed, self._device)

        self._reference = task_check.Reference(task.get_inputs, make_reference, self._device)
        return json.loads(
            self._native.open_task(
                task.get_inputs,
                make_reference,
                loader.seed_all,
                loader.describe_error,
                self.read_control,
                self.ask_turn,
                self._channel.fileno(),
            )
        )

    def _check_task(self, request: Dict[str, Any], fds: List[int]) -> Any:
        check = task_check.TaskCheck(
            self._reference, self._native.count_wrong, request, self._precisions
        )
        answer = check.run()
        self._precisions = check.precisions
        self._reference.forget()
        return answer

    def _begin(self, request: Dict[str, Any], fds: List[int]) -> Any:
        candidate_fd, reference_fd = fds
        return json.loads(
            self._native.begin(
                request["atol"],
                request["rtol"],
                [(row["dtype"], row["atol"], row["rtol"]) for row in request.get("tolerances", [])],
                [(row["name"], row["error_max"]) for row in request.get("precisions", [])],
                request.get("precision", ""),
                request.get("precision_error_max", 0.0),
                request["first_call_timeout_ms"],
                request["call_timeout_ms"],
                candidate_fd,
                reference_fd,
            )
        )

    def _settle(self, request: Dict[str, Any], fds: List[int]) -> Any:
        self._release_memory()
        return json.loads(self._native.settle(request["timeout_ms"], request["memory_floor_bytes"]))

    def _end(self, request: Dict[str, Any], fds: List[int]) -> Any:
        return {"type": "ended", "violation": self._native.end()}


def main(environment: Dict[str, str]) -> None:
    channel = frames.FrameChannel(int(environment.pop("PIKE_FRAME_FD")))
    folder = environment.pop("PIKE_NATIVE_DIR")
    sys.path.insert(0, folder)
    native = importlib.import_module("_pike_judge")
    sys.path.remove(folder)
    # A collection in the middle of a timed call would count against somebody: between requests only.
    gc.disable()
    gc.freeze()
    try:
        buffers = environment.get("PIKE_BUFFERS", "")
        Judge(channel, native, loader.device_of(environment), buffers).serve()
    except (BrokenPipeError, ConnectionResetError):
        pass  # the supervisor is gone: nobody is left to tell


if __name__ == "__main__":
    main(os.environ)
