"""Loads a file of a task or a candidate and constructs its model: the same rules for judge and runners.

A file is loaded as a module under a name that is not `__main__`, registered in `sys.modules`, with a
valid `__file__`. Call rules: seed, `get_init_inputs()`, seed again, `Model(*init)`, on a GPU
`.to("cuda")`, `.eval()`; calls without gradients. Nothing here is secret: a candidate lives in the
same process.
"""

import importlib.util
import os
import random
import sys
import traceback
from types import ModuleType
from typing import Any, Callable, Dict, Iterable, Mapping, Tuple

import torch

TEXT_BYTES_MAX = 3500
MEMORY_TEXTS = (  # in lower case
    "defaultcpuallocator: can't allocate",
    "out of memory",  # cudaGetErrorString, torch, Triton
    "cuda_error_out_of_memory",
    "cublas_status_alloc_failed",
    "cublas_status_not_initialized",  # its handle's workspace did not fit
    "cudnn_status_alloc_failed",
)
INSIDE_DIR = os.path.dirname(os.path.abspath(__file__))

_manual_seed = torch.manual_seed
_default_generator = torch.default_generator


class LoadFailure(Exception):
    """`where`, `kind`, `error_type` and `text` as in gpu_worker/judge/PROTOCOL.md."""

    def __init__(self, where: str, kind: str, error_type: str, text: str) -> None:
        super().__init__(text)
        self.where = where
        self.kind = kind
        self.error_type = error_type
        self.text = text

    def frame(self, frame_type: str) -> Dict[str, Any]:
        return {
            "type": frame_type,
            "where": self.where,
            "kind": self.kind,
            "error_type": self.error_type,
            "text": self.text,
        }


def seed_all(seed: int) -> None:
    """Seeds the generators that a module may draw from."""
    if torch.cuda.is_initialized():
        # What torch.manual_seed does, without its look for other devices, which takes 0.1 ms.
        for generator in (_default_generator, *torch.cuda.default_generators):
            generator.manual_seed(seed)
    else:
        _manual_seed(seed)
    random.seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed & 0xFFFFFFFF)


def cap_text(text: str, bytes_max: int = TEXT_BYTES_MAX) -> str:
    """`text` as valid UTF-8 of at most `bytes_max` bytes, its middle cut out."""
    data = text.encode("utf-8", "replace")
    if len(data) <= bytes_max:
        return data.decode("utf-8", "replace")
    head = data[: bytes_max // 4].decode("utf-8", "ignore")
    tail = data[-(bytes_max // 2) :].decode("utf-8", "ignore")
    return f"{head}\n[...]\n{tail}"


def is_memory_error(error: BaseException) -> bool:
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    # Neither torch's CPU allocator nor errors of CUDA and its libraries have types of their own.
    if not isinstance(error, RuntimeError):
        return False
    said = str(error).lower()
    return any(text in said for text in MEMORY_TEXTS)


def describe_error(error: BaseException) -> Tuple[str, str, str]:
    """(type name, capped traceback without our own frames, "exception" or "memory"). Never raises."""
    try:
        frames = error.__traceback__
        while frames is not None and _is_ours(frames.tb_frame.f_code.co_filename):
            frames = frames.tb_next
        text = "".join(traceback.format_exception(type(error), error, frames))
        kind = "memory" if is_memory_error(error) else "exception"
    except Exception as second:  # a hostile __str__, for instance
        text, kind = f"(the error cannot be shown: {type(second).__name__})", "exception"
    return cap_text(type(error).__name__, 200), cap_text(text), kind


def _is_ours(filename: str) -> bool:
    return filename.startswith((INSIDE_DIR, "<frozen importlib"))


def fail(where: str, error: BaseException) -> LoadFailure:
    error_type, text, kind = describe_error(error)
    return LoadFailure(where, kind, error_type, text)


def guarded(where: str, action: Callable[[], Any]) -> Any:
    """The result of `action`; LoadFailure at `where` if it raises. SystemExit ends the process."""
    try:
        return action()
    except (SystemExit, LoadFailure):
        raise
    except BaseException as error:
        raise fail(where, error) from None


def load_file(path: str, name: str) -> ModuleType:
    """Executes `path` as module `name`. LoadFailure at `parse` or `import`."""
    try:
        with open(path, "rb") as file:
            source = file.read()
    except OSError as error:
        raise fail("harness", error) from None
    try:
        code = compile(source, path, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise LoadFailure("parse", "syntax", *describe_error(error)[:2]) from None
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    guarded("import", lambda: exec(code, module.__dict__))
    return module


def find_entry(module: ModuleType, entries: Iterable[str]) -> str:
    """The first of `entries` that the module defines. LoadFailure at `entry`."""
    names = list(entries)
    for name in names:
        if callable(getattr(module, name, None)):
            return name
    text = f"the file defines no {' and no '.join(names)}"
    raise LoadFailure("entry", "no_entry", "AttributeError", text)


def load_task(path: str) -> ModuleType:
    """Loads a task file; every failure is at `task` except a syntax error."""
    try:
        return load_file(path, "pike_task")
    except LoadFailure as failure:
        failure.where = "task" if failure.where == "import" else failure.where
        raise


def make_init_inputs(task: ModuleType, weight_seed: int) -> Tuple[Any, ...]:
    """The constructor's arguments. LoadFailure at `task`."""

    def make() -> Tuple[Any, ...]:
        seed_all(weight_seed)
        return tuple(task.get_init_inputs()) if hasattr(task, "get_init_inputs") else ()

    return guarded("task", make)


def make_model(
    model_type: Callable[..., Any],
    init_inputs: Tuple[Any, ...],
    weight_seed: int,
    device: str,
) -> Any:
    """The model, on `device` and in eval mode if it is an nn.Module."""
    seed_all(weight_seed)
    model = model_type(*init_inputs)
    if not isinstance(model, torch.nn.Module):
        return model
    return (model if device == "cpu" else model.to(device)).eval()


def construct(*arguments: Any) -> Any:
    """As make_model. LoadFailure at `constructor`."""
    return guarded("constructor", lambda: make_model(*arguments))


def device_of(environment: Mapping[str, str]) -> str:
    """`cpu` or `cuda`, from PIKE_DEVICE. ValueError for another."""
    device = environment.get("PIKE_DEVICE", "cpu")
    if device not in ("cpu", "cuda"):
        raise ValueError(f"PIKE_DEVICE is {device!r}: cpu or cuda is known")
    return device
