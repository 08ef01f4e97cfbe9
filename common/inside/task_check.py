"""What a task can tell apart: by its own reference and inputs, before any candidate is judged by it.

Answers the request `check_task` of gpu_worker/judge/PROTOCOL.md. Everything runs on instances of the
reference and on inputs of its own; the reference that judges is not touched.
"""

import gc
import secrets
import time
from typing import Any, Callable, Dict, List, Tuple

import torch

import loader
import task_bytes
import task_precision
from check_budget import Budget, OutOfBudget
from value_tree import (
    Leaf,
    are_alike,
    are_same,
    as_tensor,
    bytes_of,
    copy_tensor,
    is_inexact,
    is_same_tensor,
    leaves_of,
    map_tensors,
    replace_tensor,
    snapshot,
    tensors_of,
)

# How many other inputs must agree before a way to pass without computing is believed.
OTHERS_MAX = 4
LINES_MAX = 32
LINE_CHARS_MAX = 300

# (expected, actual, atol, rtol) -> elements out of tolerance, of tensors that are alike.
CountWrong = Callable[[torch.Tensor, torch.Tensor, float, float], int]


class Tally:
    """How many elements of each output pass, over several comparisons."""

    def __init__(self) -> None:
        self.outputs: Dict[str, List[int]] = {}  # out of tolerance, compared

    def add(self, path: str, wrong: int, elements: int) -> None:
        counts = self.outputs.setdefault(path, [0, 0])
        counts[0] += wrong
        counts[1] += elements

    def share(self) -> float:
        """Of elements that pass; 0 if there are none."""
        wrong = sum(counts[0] for counts in self.outputs.values())
        elements = sum(counts[1] for counts in self.outputs.values())
        return (elements - wrong) / elements if elements else 0.0

    def passing(self) -> List[str]:
        return [path for path, (wrong, elements) in self.outputs.items() if elements and not wrong]

    def is_all(self) -> bool:
        """Whether a verdict would be `valid`: every element passes, and there is one."""
        return self.share() == 1.0


class Sample:
    """An input with the seed of its call and what the reference made of it."""

    def __init__(self, arguments: Tuple[Any, ...]) -> None:
        self.arguments = arguments
        self.seed = secrets.randbits(63)
        self.outputs: List[Leaf] = []


class Reference:
    """Calls of the task's reference, each as if it were the first of a fresh instance."""

    def __init__(self, get_inputs: Callable[[], Any], make: Callable[[], Any], device: str) -> None:
        self._get_inputs = get_inputs
        self.make = make
        self.device = device
        self.is_stateful = False
        self.device_bytes_peak = 0  # of one call with model and input; on a GPU only
        self._model: Any = None

    def make_sample(self) -> Sample:
        loader.seed_all(secrets.randbits(63))
        arguments = tuple(self._get_inputs())
        if self.device == "cuda":
            arguments = map_tensors(arguments, lambda tensor: tensor.to(self.device))
        return Sample(arguments)

    def call(self, arguments: Tuple[Any, ...], seed: int) -> List[Leaf]:
        if self._model is None or self.is_stateful:
            self._model = None  # before another is made
            self._model = self.make()
        return self.call_model(self._model, arguments, seed)

    def call_model(self, model: Any, arguments: Tuple[Any, ...], seed: int) -> List[Leaf]:
        arguments = map_tensors(arguments, copy_tensor)  # it may change them
        with torch.no_grad():
            loader.seed_all(seed)
            outputs = leaves_of(map_tensors(model(*arguments), snapshot), "out")
        self.finish()
        return outputs

    def forget(self) -> None:
        """Frees the instance; the next call makes another."""
        self._model = None

    def finish(self) -> None:
        if self.device == "cuda":
            torch.cuda.synchronize()

    def parameters(self) -> List[torch.Tensor]:
        return list(self._model.parameters()) if isinstance(self._model, torch.nn.Module) else []


class TaskCheck:
    """One check under one set of tolerances. `known_precisions` of another check of the task may be
    given: they do not depend on tolerances."""

    def __init__(
        self,
        reference: Reference,
        count_wrong: CountWrong,
        request: Dict[str, Any],
        known_precisions: Any = None,
    ) -> None:
        self.reference = reference
        self._count_wrong = count_wrong
        self._default = (request["atol"], request["rtol"])
        self._tolerances = {
            row["dtype"]: (row["atol"], row["rtol"]) for row in request.get("tolerances", [])
        }
        self._wants_bytes = request.get("needed_bytes", False)
        self.budget = Budget(request["ms_max"], request["bytes_max"])
        self._skipped: List[str] = []
        self._degenerate: List[str] = []
        self.call_ms = 0.0
        self._facts: Dict[str, Any] = {"is_deterministic": True, "inputs": []}
        self.precisions = known_precisions

    def run(self) -> Dict[str, Any]:
        """The frame `task_checked`."""
        start = time.monotonic()
        self._step("everything", self._check)
        gc.collect()
        self._facts.update(
            degenerate=[line[:LINE_CHARS_MAX] for line in self._degenerate[:LINES_MAX]],
            not_checked=[line[:LINE_CHARS_MAX] for line in self._skipped[:LINES_MAX]],
            elapsed_ms=(time.monotonic() - start) * 1e3,
            **(self.precisions or {}),
        )
        return {"type": "task_checked", **self._facts}

    def _step(self, what: str, action: Callable[..., None], *arguments: Any) -> None:
        """Does one part; whatever keeps it from being done is noted."""
        try:
            action(*arguments)
        except OutOfBudget as why:
            self._skipped.append(f"{what}: {why}")
        except Exception as error:
            error_type, text, _ = loader.describe_error(error)
            last_line = text.strip().rsplit("\n", 1)[-1]
            self._skipped.append(f"{what}: {last_line or error_type}")

    def _check(self) -> None:
        a = self._first_calls()
        b = self._next_sample()
        others = [b]
        self._step("frozen output", self._check_frozen, a, others)
        self._step("outputs that were not computed", self._check_uncomputed, a, others)
        self._step("dependence on the inputs", self._check_inputs, a, b)
        if self.precisions is None and any(is_inexact(leaf) for _, leaf in a.outputs):
            self._step("precisions", self._check_precisions, [a, b])
        if self._wants_bytes:
            self._step("bytes that must be moved", self._find_bytes, a, b)

    def _find_bytes(self, a: Sample, b: Sample) -> None:
        needed = task_bytes.find(self, a, b)
        self._facts.update(needed_read_bytes=needed.read, needed_written_bytes=needed.written)

    def _next_sample(self) -> Sample:
        sample = self.reference.make_sample()
        sample.outputs = self.reference.call(sample.arguments, sample.seed)
        return sample

    def _bytes_of_samples(self, count: int) -> int:
        """With the copy of an input for a call, and temporaries of a comparison."""
        input_bytes, output_bytes = self._facts["input_bytes"], self._facts["output_bytes"]
        return (count + 1) * input_bytes + (count + 4) * output_bytes

    def _first_calls(self) -> Sample:
        """Two calls on one input: sizes, time, and whether they agree."""
        reference = self.reference
        if reference.device == "cuda":
            torch.cuda.reset_peak_memory_stats()
            allocated = torch.cuda.memory_allocated()
        a = self._next_sample()
        input_bytes = bytes_of(leaves_of(a.arguments, "input"))
        output_bytes = bytes_of(a.outputs)
        self._facts.update(input_bytes=input_bytes, output_bytes=output_bytes)
        if reference.device == "cuda":
            reference.device_bytes_peak = torch.cuda.max_memory_allocated() - allocated
            self._facts["device_bytes_peak"] = reference.device_bytes_peak
        self.budget.need_bytes(self._bytes_of_samples(2))
        start = time.monotonic()
        again = reference.call(a.arguments, a.seed)
        self.call_ms = (time.monotonic() - start) * 1e3
        self._facts["reference_ms"] = self.call_ms
        self.budget.restart()
        if not are_same(a.outputs, again):
            reference.is_stateful = True
            fresh = reference.call(a.arguments, a.seed)
            self._facts["is_deterministic"] = self.compare(a.outputs, fresh).share() == 1.0
        if not self._facts["is_deterministic"]:
            self._degenerate.append(
                "the reference gives other outputs for the same input and seed: it judges nobody"
            )
        return a

    def compare(self, expected: List[Leaf], actual: List[Leaf], tally: Any = None) -> Tally:
        """Counts by the verdict's rule; other structures, dtypes and shapes are wrong as a whole."""
        tally = tally or Tally()
        found = dict(actual)
        for path, want in expected:
            wanted, got = as_tensor(want), as_tensor(found.get(path))
            if wanted is None:
                continue
            wrong = wanted.numel()
            if are_alike(wanted, got):
                name = str(wanted.dtype).partition(".")[2]
                atol, rtol = self._tolerances.get(name, self._default)
                wrong = self._count_wrong(wanted, got, atol, rtol) if wrong else 0
            tally.add(path, wrong, wanted.numel())
        return tally

    def _more(self, others: List[Sample], count: int) -> List[Sample]:
        """At least so many others; OutOfBudget if there is no time."""
        while len(others) < count:
            self.budget.need(self.call_ms)
            self.budget.need_bytes(self._bytes_of_samples(len(others) + 2))
            others.append(self._next_sample())
        return others

    def _try(
        self,
        name: str,
        line: str,
        a: Sample,
        others: List[Sample],
        compare: Callable[[Sample, Tally], Any],
    ) -> None:
        """Notes the share of elements that pass if outputs are made in some way without computing.

        As long as an output passes another input is tried: small ones agree by chance.
        """
        tally = Tally()
        try:
            for i in range(OTHERS_MAX):
                compare(self._more(others, i + 1)[i], tally)
                if not tally.passing():
                    break
        except OutOfBudget:
            pass
        self._facts[name] = tally.share()
        if tally.is_all():
            self._degenerate.append(line)
            return
        same = {
            path
            for path, leaf in a.outputs
            if all(are_same([(path, leaf)], _only(path, other)) for other in others)
        }
        for path in tally.passing():
            # An output that never changes is right if it is stored.
            if path not in same and not any(said.endswith(f" for {path}") for said in self._degenerate):
                self._degenerate.append(f"{line} for {path}")

    def _check_frozen(self, a: Sample, others: List[Sample]) -> None:
        def compare(other: Sample, tally: Tally) -> None:
            self.compare(other.outputs, a.outputs, tally)

        line = "an output that was computed once passes"
        self._try("frozen_passes", line, a, others, compare)
        if sum(counts[1] for counts in self.compare(a.outputs, a.outputs).outputs.values()) == 0:
            self._degenerate.append("the outputs hold no elements: every program passes")

    def _check_uncomputed(self, a: Sample, others: List[Sample]) -> None:
        for name, line, change in (
            ("zeros_passes", "zeros pass", torch.zeros_like),
            ("constant_passes", "one number for all elements passes", _mean_like),
        ):
            made = _change_numbers(a.outputs, change)

            def compare(other: Sample, tally: Tally, made: List[Leaf] = made) -> None:
                self.compare(other.outputs, made, tally)

            self._try(name, line, a, others, compare)
        self._try("copy_passes", "a returned input passes", a, others, self._compare_copy)

    def _compare_copy(self, sample: Sample, tally: Tally) -> None:
        inputs = [tensor for _, tensor in tensors_of(sample.arguments, "input")]
        for path, want in sample.outputs:
            if not isinstance(want, torch.Tensor):
                if as_tensor(want) is not None:
                    tally.add(path, 1, 1)
                continue
            counts = [want.numel()]
            for tensor in inputs:
                if tensor.shape == want.shape and (want.is_complex() or not tensor.is_complex()):
                    copy = snapshot(tensor.detach().to(want.device, want.dtype))
                    counts.append(self.compare([(path, want)], [(path, copy)]).outputs[path][0])
            tally.add(path, min(counts), want.numel())

    def _check_inputs(self, a: Sample, b: Sample) -> None:
        names = tensors_of(a.arguments, "input")
        others = tensors_of(b.arguments, "")
        if names and all(is_same_tensor(x, y) for (_, x), (_, y) in zip(names, others)):
            self._degenerate.append("get_inputs makes the same inputs under every seed")
            return
        is_frozen = self._facts.get("frozen_passes") == 1.0
        for index, (path, tensor) in enumerate(names):
            arguments = (index, path, tensor, [a, b], is_frozen)
            self._step(f"dependence on {path}", self._check_input, *arguments)

    def _check_input(
        self, index: int, path: str, tensor: torch.Tensor, samples: List[Sample], is_frozen: bool
    ) -> None:
        """The outputs with one tensor of another input, until one of them differs."""
        a, b = samples
        tally = Tally()
        for i in range(1 if is_frozen else OTHERS_MAX):
            try:
                self.budget.need(self.call_ms)
            except OutOfBudget:
                if i == 0:
                    raise
                break
            other = b if i == 0 else self.reference.make_sample()
            replacement = tensors_of(other.arguments, "")[index][1]
            if is_same_tensor(tensor, replacement):
                raise OutOfBudget("it is the same under every seed")
            arguments = replace_tensor(a.arguments, index, replacement)
            self.compare(a.outputs, self.reference.call(arguments, a.seed), tally)
            if not tally.is_all():
                break
        self._facts["inputs"].append({"path": path, "changed": 1.0 - tally.share()})
        # Where a frozen output passes nothing depends on anything, which is said already.
        if tally.is_all() and not is_frozen:
            self._degenerate.append(f"the outputs do not depend on {path}")

    def _check_precisions(self, samples: List[Sample]) -> None:
        self.budget.need(self.call_ms)
        a = samples[0]
        if not are_same(a.outputs, self.reference.call(a.arguments, secrets.randbits(63))):
            raise OutOfBudget("the reference draws random numbers")
        measured = task_precision.Precisions(self.reference, self.budget, self.call_ms, samples)
        measured.run(lambda name, action: self._step(f"precision {name}", action))
        self.precisions = measured.facts()


def _only(path: str, sample: Sample) -> List[Leaf]:
    return [leaf for leaf in sample.outputs if leaf[0] == path]


def _change_numbers(outputs: List[Leaf], change: Callable[[torch.Tensor], torch.Tensor]) -> List[Leaf]:
    changed = []
    for path, leaf in outputs:
        tensor = as_tensor(leaf)
        changed.append((path, leaf if tensor is None or not tensor.numel() else change(tensor)))
    return changed


def _mean_like(tensor: torch.Tensor) -> torch.Tensor:
    wide = torch.complex128 if tensor.is_complex() else torch.float64
    mean = tensor.to(wide).mean()
    if tensor.dtype == torch.bool:
        mean = mean >= 0.5
    elif not is_inexact(tensor):
        mean = mean.round()
    return mean.to(tensor.dtype).expand(tensor.shape).contiguous()
