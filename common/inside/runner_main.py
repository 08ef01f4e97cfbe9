"""A runner: imports torch, waits for one file to load, then serves calls from the judge.

Frames: gpu_worker/judge/PROTOCOL.md. The call loop is native (_pike_runner). The candidate shares
this process and can do anything here, so nothing in it is secret.
"""

import os

# Idle OpenMP threads that spin would slow the other runner down; read when torch is loaded.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import functools
import gc
import importlib
import shutil
import sys
import time
from typing import Any, Dict, List, Tuple

INSIDE_DIR = os.path.dirname(os.path.abspath(__file__))
if INSIDE_DIR not in sys.path:
    sys.path.insert(0, INSIDE_DIR)

import torch

import frames
import loader


DTYPES = {
    (6, 8): torch.bool,
    (0, 8): torch.int8,
    (0, 16): torch.int16,
    (0, 32): torch.int32,
    (0, 64): torch.int64,
    (1, 8): torch.uint8,
    (1, 16): torch.uint16,
    (1, 32): torch.uint32,
    (1, 64): torch.uint64,
    (2, 16): torch.float16,
    (4, 16): torch.bfloat16,
    (2, 32): torch.float32,
    (2, 64): torch.float64,
    (5, 64): torch.complex64,
    (5, 128): torch.complex128,
}


def take_hooks(device: str) -> Dict[str, Any]:
    """What the call loop needs of Python, taken before a candidate can replace it."""
    resolve_conj, resolve_neg = torch.resolve_conj, torch.resolve_neg
    empty_strided, equal = torch.empty_strided, torch.equal
    set_grad_enabled = torch._C._set_grad_enabled
    set_device, set_stream = torch.cuda.set_device, torch.cuda.set_stream
    default_stream = torch.cuda.default_stream
    dtypes = dict(DTYPES)

    def reset() -> None:
        set_grad_enabled(False)
        if device == "cuda":
            set_device(0)
            set_stream(default_stream(0))

    def allocate(code: int, bits: int, dims: Tuple[int, ...], strides: Tuple[int, ...]) -> Any:
        tensor = empty_strided(dims, strides, dtype=dtypes[code, bits], device=device)
        # Dense, so its elements lie one after the other from the first one on.
        flat = tensor.as_strided((tensor.numel(),), (1,)).view(torch.uint8)
        return tensor, flat, tensor.data_ptr()

    def is_equal(flat: Any, other: Any) -> bool:
        # In words, whose comparison needs an eighth of the memory.
        if flat.numel() % 8 == 0:
            flat, other = flat.view(torch.int64), other.view(torch.int64)
        return equal(flat, other.to(flat.device))

    return {
        "tensor_type": torch.Tensor,
        "to_dlpack": torch._C._to_dlpack,
        "from_dlpack": torch._C._from_dlpack,
        "require_grad": torch.Tensor.requires_grad_,
        "resolve": lambda tensor: resolve_neg(resolve_conj(tensor)),
        "seed_all": loader.seed_all,
        "reset": reset,
        "describe_error": loader.describe_error,
        "allocate": allocate,
        "is_equal": is_equal,
    }


def load_native(folder: str) -> Any:
    sys.path.insert(0, folder)
    try:
        return importlib.import_module("_pike_runner")
    finally:
        sys.path.remove(folder)


def leave() -> None:
    """Ends the process with 0, whatever threads and exit functions a candidate left behind."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            continue
    os._exit(0)


def load(order: Dict[str, Any], device: str) -> Tuple[str, Any]:
    """(entry name, model), the model None where only an import is wanted."""
    is_construct = order["mode"] == "construct"
    init_inputs: Tuple[Any, ...] = ()
    if is_construct:
        # Before the candidate is here, so that a failure is surely the task's.
        try:
            task = loader.load_task(order["task_path"])
            init_inputs = loader.make_init_inputs(task, order["weight_seed"])
        except loader.LoadFailure as failure:
            failure.where = "task"
            raise
    path = order["path"]
    if "source_path" in order:
        # Handed in read-only; the candidate gets a copy in a folder that it may write to.
        shutil.copyfile(order["source_path"], path)
    sys.argv = [path]
    os.chdir(os.path.dirname(path) or ".")
    module = loader.load_file(path, "pike_candidate")
    entry = loader.find_entry(module, order["entries"])
    if not is_construct:
        return entry, None
    return entry, loader.construct(
        getattr(module, entry), init_inputs, order["weight_seed"], device
    )


def run(channel: frames.FrameChannel, native: Any, device: str) -> None:
    hooks = take_hooks(device)
    # What is imported now is never garbage: collections inside timed calls stay short.
    gc.collect()
    gc.freeze()
    channel.send({"type": "ready", "torch": torch.__version__})
    order, fds = channel.recv()
    install_build_hook(channel)
    start = time.monotonic()
    try:
        if order["mode"] == "construct" and device == "cuda":
            loader.guarded("harness", native.use_gpu)
        entry, model = load(order, device)
    except loader.LoadFailure as failure:
        channel.send(failure.frame("failed"))
        return
    channel.send({"type": "loaded", "entry": entry, "seconds": time.monotonic() - start})
    if order["mode"] == "construct":
        native.serve(fds[0], model, hooks)


def install_build_hook(channel: frames.FrameChannel) -> None:
    """Extension builds go to the broker by frames of their own."""
    import build_hook

    build_hook.install(channel)


def main(environment: Dict[str, str], arguments: List[str]) -> None:
    channel = frames.FrameChannel(int(environment.pop("PIKE_FRAME_FD")))
    folder = environment.pop("PIKE_NATIVE_DIR", "")
    native = load_native(folder) if folder else None
    sys.path.remove(INSIDE_DIR)
    sys.path.append(INSIDE_DIR)  # behind the candidates' packages, not before them
    try:
        run(channel, native, loader.device_of(environment))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass  # the supervisor is gone: nobody is left to tell
    leave()


if __name__ == "__main__":
    main(os.environ, sys.argv)
