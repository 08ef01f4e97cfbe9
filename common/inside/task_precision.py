"""By how much the reference's outputs are off when it is computed in other precisions."""

import contextlib
from typing import Any, Callable, Dict, Iterator, List, Optional

import torch

from check_budget import Budget, OutOfBudget
from value_tree import Leaf, bytes_of, is_inexact, leaves_of, map_tensors, relative_error

# What a call may cost at most, in calls of the reference as it is. 16-bit types have no fast path on
# many CPUs, doubles none on many GPUs.
COSTS = {
    "cpu": {"fp64": 3, "fp32": 1, "fp16": 10, "bf16": 10},
    "cuda": {"fp64": 16, "fp32": 8, "tf32": 1, "fp16": 1, "bf16": 1},
}
DTYPES = {
    "fp64": torch.float64,
    "fp32": torch.float32,
    "tf32": torch.float32,
    "fp16": torch.float16,
    "bf16": torch.bfloat16,
}


def cast(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """In the precision of `dtype`; complex numbers have no 16-bit form that is of use."""
    if tensor.is_floating_point():
        return tensor.to(dtype)
    if tensor.is_complex() and dtype in (torch.float32, torch.float64):
        return tensor.to(torch.complex128 if dtype == torch.float64 else torch.complex64)
    return tensor


def cast_model(model: Any, dtype: torch.dtype) -> Any:
    """Casts parameters, buffers and plain attributes of a model in place."""
    if not isinstance(model, torch.nn.Module):
        return model
    model._apply(lambda tensor: cast(tensor, dtype))
    for module in model.modules():
        for name, value in list(vars(module).items()):
            if isinstance(value, torch.Tensor):
                setattr(module, name, cast(value, dtype))
    return model


@contextlib.contextmanager
def settings(dtype: torch.dtype, has_tf32: Optional[bool]) -> Iterator[None]:
    """New tensors are of `dtype`; TF32 as told, or as it is."""
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    kept = (torch.get_default_dtype(), matmul.allow_tf32, cudnn.allow_tf32)
    try:
        torch.set_default_dtype(dtype)
        if has_tf32 is not None:
            matmul.allow_tf32 = cudnn.allow_tf32 = has_tf32
        yield
    finally:
        torch.set_default_dtype(kept[0])
        if has_tf32 is not None:
            matmul.allow_tf32, cudnn.allow_tf32 = kept[1:]


class Precisions:
    """Measures a reference (task_check.Reference) on `samples`, whose outputs are those that candidates
    are compared with."""

    def __init__(self, reference: Any, budget: Budget, call_ms: float, samples: List[Any]) -> None:
        self._reference = reference
        self._budget = budget
        self._call_ms = call_ms
        self._samples = samples
        self._errors: Dict[str, float] = {}
        self._exact: List[List[Leaf]] = []
        self._native_error: Optional[float] = None
        self._dtypes = {
            path: leaf.dtype for path, leaf in samples[0].outputs if is_inexact(leaf)
        }

    def run(self, step: Callable[[str, Callable[[], None]], None]) -> None:
        """`step` does one part and notes what keeps it from being done."""
        step("fp64", self._measure_exact)
        if self._native_error is None:
            return
        for name in COSTS[self._reference.device]:
            if name != "fp64":
                step(name, lambda name=name: self._measure(name))

    def facts(self) -> Dict[str, Any]:
        """Errors that are not finite are left out: the reference cannot be computed so."""
        rows = [{"precision": name, "error": error} for name, error in self._errors.items()]
        facts: Dict[str, Any] = {"precisions": [row for row in rows if row["error"] < float("inf")]}
        if self._native_error is not None and self._native_error < float("inf"):
            facts["native_error"] = self._native_error
        return facts

    def _measure_exact(self) -> None:
        self._exact = self._outputs_in("fp64")
        pairs = list(zip(self._exact, self._samples))
        self._native_error = max(
            relative_error(exact, sample.outputs, self._dtypes) for exact, sample in pairs
        )

    def _measure(self, name: str) -> None:
        if name == "fp32" and self._is_plain_fp32():
            self._errors[name] = self._native_error
            return
        outputs = self._outputs_in(name)
        pairs = list(zip(self._exact, outputs))
        self._errors[name] = max(relative_error(exact, got, self._dtypes) for exact, got in pairs)

    def _is_plain_fp32(self) -> bool:
        """Whether the reference as it is computes in fp32 already."""
        if self._reference.device != "cpu" or set(self._dtypes.values()) != {torch.float32}:
            return False
        inputs = [leaf for _, leaf in leaves_of(self._samples[0].arguments, "")]
        tensors = [leaf for leaf in inputs + self._reference.parameters() if is_inexact(leaf)]
        return all(tensor.dtype == torch.float32 for tensor in tensors)

    def _outputs_in(self, name: str) -> List[List[Leaf]]:
        """The outputs for as many samples as there is time for, at least one."""
        dtype = DTYPES[name]
        has_tf32 = None if self._reference.device == "cpu" else name == "tf32"
        cost_ms = COSTS[self._reference.device][name] * self._call_ms
        self._check_memory()
        model = None
        outputs: List[List[Leaf]] = []
        for sample in self._samples[: len(self._exact) or None]:
            try:
                self._budget.need(cost_ms)
            except OutOfBudget:
                if not outputs:
                    raise
                break
            if model is None or self._reference.is_stateful:
                model = None  # before another is made
                model = cast_model(self._reference.make(), dtype)
            arguments = map_tensors(sample.arguments, lambda tensor: cast(tensor, dtype))
            with settings(dtype, has_tf32):
                outputs.append(self._reference.call_model(model, arguments, sample.seed))
        return outputs

    def _check_memory(self) -> None:
        """A copy in doubles must fit without taking what neighbours may need."""
        sample = self._samples[0]
        tensors = bytes_of(leaves_of(sample.arguments, "")) + 4 * bytes_of(sample.outputs)
        tensors += sum(tensor.nbytes for tensor in self._reference.parameters())
        self._budget.need_bytes(2 * max(tensors, self._reference.device_bytes_peak))
