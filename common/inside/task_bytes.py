"""How much every right program of a task has to read and write: too little rather than too much.

A program that knows how its answers are judged may skip what does not show in them, and return a view
of what exists already. So an input counts only if single elements of it were seen to matter beyond
tolerance, and of an output only different numbers that are not among the inputs and parameters.
"""

import secrets
from typing import Any, List

import torch

from check_budget import OutOfBudget
from value_tree import replace_tensor, tensors_of

PROBES = 8
VALUES = 4  # tried at a place before it does not matter: some are near what was there
# If this many elements matter of as many that were tried, at least so much of the input does: with
# less, all would by chance in one of 256 tasks.
READ_SHARE = 0.5
SAMPLE = 64


class NeededBytes:
    """`check` is a task_check.TaskCheck, `a` and `b` are two of its samples."""

    def __init__(self, check: Any, a: Any, b: Any) -> None:
        self._check = check
        self._a = a
        self._b = b
        self.read = 0
        self.written = 0

    def find(self) -> None:
        others = tensors_of(self._b.arguments, "")
        for index, (_, tensor) in enumerate(tensors_of(self._a.arguments, "")):
            if others[index][1].shape == tensor.shape and tensor.numel() > 1:
                if all(self._matters(index, tensor, others[index][1]) for _ in range(PROBES)):
                    self.read += int(tensor.nbytes * READ_SHARE)
        passing = set(self._check.compare(self._b.outputs, self._a.outputs).passing())
        for path, output in tensors_of(self._a.outputs, "out"):
            if path not in passing:
                self.written += self._made_bytes(output)

    def _matters(self, index: int, tensor: torch.Tensor, other: torch.Tensor) -> bool:
        """Whether one element, replaced by others that the task made, changes the outputs."""
        check = self._check
        place = secrets.randbelow(tensor.numel())
        for _ in range(VALUES):
            check.budget.need(check.call_ms)
            changed = tensor.detach().clone(memory_format=torch.contiguous_format)
            changed.view(-1)[place] = other.detach().reshape(-1)[secrets.randbelow(other.numel())]
            arguments = replace_tensor(self._a.arguments, index, changed)
            outputs = check.reference.call(arguments, self._a.seed)
            if check.compare(self._a.outputs, outputs).share() < 1:
                return True
        return False

    def _made_bytes(self, output: torch.Tensor) -> int:
        """A view can repeat numbers, so only different ones count."""
        if output.is_complex():
            output = torch.view_as_real(output)
        numbers = output[output.isfinite()].unique()
        if numbers.numel() < SAMPLE:
            return 0
        sample = numbers[torch.randperm(numbers.numel(), device=numbers.device)[:SAMPLE]]
        inputs = [tensor for _, tensor in tensors_of(self._a.arguments, "")]
        found = 0
        for number in sample:
            self._check.budget.need(0)
            found += any(bool((known == number).any()) for known in self._known(inputs, output))
        return numbers.nbytes if found <= SAMPLE // 2 else 0

    def _known(self, inputs: List[torch.Tensor], output: torch.Tensor) -> List[torch.Tensor]:
        known = inputs + self._check.reference.parameters()
        return [tensor.detach() for tensor in known if tensor.device == output.device]


def find(check: Any, a: Any, b: Any) -> Any:
    """Bytes read and written; what there is no time for counts as none."""
    needed = NeededBytes(check, a, b)
    try:
        needed.find()
    except OutOfBudget:
        pass
    return needed
