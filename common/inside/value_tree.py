"""Arguments and outputs as lists of leaves with their places, for task_check.py."""

from typing import Any, Callable, Dict, List, Optional, Tuple

import torch

Leaf = Tuple[str, Any]  # place and value, as in ("out['mask'][0]", tensor)


def leaves_of(value: Any, path: str) -> List[Leaf]:
    """The leaves of nested tuples, lists and dicts."""
    if isinstance(value, (tuple, list)):
        pairs = enumerate(value)
    elif isinstance(value, dict):
        pairs = value.items()
    else:
        return [(path, value)]
    return [leaf for key, item in pairs for leaf in leaves_of(item, f"{path}[{key!r}]")]


def map_tensors(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """A copy of the containers of `value` with every tensor changed, in the order of leaves_of."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, dict):
        return {key: map_tensors(item, change) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        items = [map_tensors(item, change) for item in value]
        return tuple(items) if isinstance(value, tuple) else items
    return value


def tensors_of(value: Any, path: str) -> List[Tuple[str, torch.Tensor]]:
    return [leaf for leaf in leaves_of(value, path) if isinstance(leaf[1], torch.Tensor)]


def replace_tensor(value: Any, index: int, other: torch.Tensor) -> Any:
    """A copy of the containers of `value` with tensor number `index` replaced."""
    count = -1

    def change(tensor: torch.Tensor) -> torch.Tensor:
        nonlocal count
        count += 1
        return other if count == index else tensor

    return map_tensors(value, change)


def bytes_of(leaves: List[Leaf]) -> int:
    tensors = [leaf for _, leaf in leaves if isinstance(leaf, torch.Tensor)]
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def copy_tensor(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().clone().requires_grad_(tensor.requires_grad)


def snapshot(tensor: torch.Tensor) -> torch.Tensor:
    """A packed copy."""
    plain = tensor.detach().resolve_conj().resolve_neg()
    return plain.clone(memory_format=torch.contiguous_format)


def as_tensor(leaf: Any) -> Optional[torch.Tensor]:
    """A leaf as a tensor; None for one that is no number."""
    if isinstance(leaf, torch.Tensor):
        return leaf
    if isinstance(leaf, (bool, int)):
        return torch.tensor(leaf, dtype=torch.int64) if abs(leaf) < 1 << 62 else None
    return torch.tensor(leaf, dtype=torch.float64) if isinstance(leaf, float) else None


def are_alike(a: Any, b: Any) -> bool:
    """Whether both are tensors of one dtype, shape and device."""
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
        return False
    return (a.dtype, a.shape, a.device) == (b.dtype, b.shape, b.device)


def are_same(a: List[Leaf], b: List[Leaf]) -> bool:
    """Whether all leaves are equal bit for bit."""
    if [path for path, _ in a] != [path for path, _ in b]:
        return False
    for (_, x), (_, y) in zip(a, b):
        is_tensor = isinstance(x, torch.Tensor)
        if not (is_same_tensor(x, y) if is_tensor else repr(x) == repr(y)):  # NaN is itself
            return False
    return True


def is_same_tensor(a: torch.Tensor, b: Any) -> bool:
    if not are_alike(a, b):
        return False
    # As bytes: NaN equals NaN, and every dtype has the operation.
    x, y = (t.detach().contiguous().reshape(-1).view(torch.uint8) for t in (a, b))
    return torch.equal(x, y)


def is_inexact(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor) and (leaf.is_floating_point() or leaf.is_complex())


def relative_error(wanted: List[Leaf], got: List[Leaf], dtypes: Dict[str, torch.dtype]) -> float:
    """Largest ||got - wanted|| / ||wanted|| over the floating outputs, after a cast to `dtypes`.

    ValueError if the structures differ; infinite if others than in `wanted` are not finite.
    """
    found = dict(got)
    largest = 0.0
    for path, want in wanted:
        if not is_inexact(want):
            continue
        if not is_inexact(found.get(path)) or found[path].shape != want.shape:
            raise ValueError(f"{path} has another form")
        wide = torch.complex128 if want.is_complex() else torch.float64
        exact, actual = want.to(wide), found[path].to(dtypes[path]).to(wide)
        is_finite = exact.isfinite()
        if not torch.equal(is_finite, actual.isfinite()):
            return float("inf")
        off = float(torch.where(is_finite, actual - exact, 0).norm())
        norm = float(torch.where(is_finite, exact, 0).norm())
        if off > 0:
            largest = max(largest, off / norm if norm > 0 else float("inf"))
    return largest
