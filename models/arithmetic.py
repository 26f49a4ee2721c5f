"""Arithmetic on lists of parameters: copies, norms and distances of one party's block."""

from collections.abc import Iterable, Sequence
from hashlib import sha256

import torch
from torch import Tensor


def snapshot(parameters: Iterable[Tensor]) -> tuple[Tensor, ...]:
    """Copy the values, detached, so that later steps leave the copy alone."""
    return tuple(parameter.detach().clone() for parameter in parameters)


@torch.no_grad()
def restore(parameters: Iterable[Tensor], saved: Sequence[Tensor]) -> None:
    """Write ``saved`` back into ``parameters`` in place; shapes must agree pairwise."""
    for parameter, value in zip(parameters, saved, strict=True):
        if parameter.shape != value.shape:
            shapes = f"{tuple(value.shape)} into {tuple(parameter.shape)}"
            raise ValueError(f"cannot restore {shapes}: the snapshot is of another model")
        parameter.copy_(value)


@torch.no_grad()
def mix(parameters: Iterable[Tensor], others: Iterable[Tensor], shares: Iterable[float]) -> None:
    """Move every parameter in place: θ ← (1 − s) θ + s θ', one share s for each."""
    for parameter, other, share in zip(parameters, others, shares, strict=True):
        parameter.mul_(1 - share).add_(other, alpha=share)


def take_gradients(parameters: Iterable[Tensor]) -> tuple[Tensor, ...]:
    """Take every ``.grad`` away; a parameter that took no part in the loss has gradient zero."""
    return tuple(_take_gradient(parameter) for parameter in parameters)


def squared_norm(tensors: Iterable[Tensor]) -> float:
    """Return the sum of squares of all entries, accumulated in float64."""
    return sum(float(tensor.detach().double().square().sum()) for tensor in tensors)


def squared_distance(left: Iterable[Tensor], right: Iterable[Tensor]) -> float:
    """Return the squared Euclidean distance of two lists of tensors, in float64."""
    pairs = zip(left, right, strict=True)
    return squared_norm(a.detach().double() - b.detach().double() for a, b in pairs)


def bounded(tensors: Iterable[Tensor], limit: float) -> bool:
    """Return whether every entry is a number of magnitude ``limit`` at most; NaN is none."""
    return all(bool(tensor.detach().abs().max() <= limit) for tensor in tensors if tensor.numel())


def digest(tensors: Iterable[Tensor]) -> bytes:
    """Return the SHA-256 of types, shapes and bits of all entries, in their order."""
    found = sha256()
    for tensor in tensors:
        found.update(f"{tensor.dtype} {tuple(tensor.shape)}\n".encode())
        found.update(tensor.detach().contiguous().numpy().tobytes())
    return found.digest()


def all_finite(tensors: Iterable[Tensor]) -> bool:
    """Return whether no entry is NaN or infinite."""
    return all(bool(torch.isfinite(tensor).all()) for tensor in tensors)


def _take_gradient(parameter: Tensor) -> Tensor:
    taken, parameter.grad = parameter.grad, None
    return torch.zeros_like(parameter) if taken is None else taken.detach()
