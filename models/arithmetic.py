"""Operations on lists of parameters: copies, norms, distances and digests."""

from collections.abc import Iterable, Sequence
from hashlib import sha256

import torch
from torch import Tensor


def snapshot(parameters: Iterable[Tensor]) -> tuple[Tensor, ...]:
    """Return detached copies of ``parameters``, tensors of any shape."""
    return tuple(parameter.detach().clone() for parameter in parameters)


@torch.no_grad()
def restore(parameters: Iterable[Tensor], saved: Sequence[Tensor]) -> None:
    """Copy the values of ``saved`` into ``parameters`` in place.

    ``parameters`` and ``saved`` hold tensors of any shape; paired tensors have the same shape.

    Raises:
        ValueError: a tensor of ``saved`` has another shape than its parameter.
    """
    for parameter, value in zip(parameters, saved, strict=True):
        if parameter.shape != value.shape:
            raise ValueError(
                f"cannot restore a tensor of shape {tuple(value.shape)} into a parameter of shape "
                f"{tuple(parameter.shape)}: the saved tensors are from another model"
            )
        parameter.copy_(value)


@torch.no_grad()
def interpolate(
    parameters: Iterable[Tensor], others: Iterable[Tensor], shares: Iterable[float]
) -> None:
    """Move each parameter in place: θ ← (1 − s) θ + s θ', with one weight s per parameter.

    ``parameters`` and ``others`` hold tensors of any shape; paired tensors have the same shape.
    """
    for parameter, other, share in zip(parameters, others, shares, strict=True):
        parameter.mul_(1 - share).add_(other, alpha=share)


def take_gradients(parameters: Iterable[Tensor]) -> tuple[Tensor, ...]:
    """Return the gradient of each parameter, and set ``.grad`` of the parameter to None.

    ``parameters`` and the result hold tensors of any shape. The gradient is zero for a parameter on
    which the loss does not depend.
    """
    return tuple(_take_gradient(parameter) for parameter in parameters)


def squared_norm(tensors: Iterable[Tensor]) -> float:
    """Return the sum of the squared elements of tensors of any shape, computed in float64."""
    return sum(float(tensor.detach().double().square().sum()) for tensor in tensors)


def squared_distance(left: Iterable[Tensor], right: Iterable[Tensor]) -> float:
    """Return the squared Euclidean distance between two lists of tensors, in float64.

    ``left`` and ``right`` hold tensors of any shape; paired tensors have the same shape.
    """
    pairs = zip(left, right, strict=True)
    return squared_norm(a.detach().double() - b.detach().double() for a, b in pairs)


def all_within(tensors: Iterable[Tensor], limit: float) -> bool:
    """Return whether every element of tensors of any shape is at most ``limit`` in magnitude.

    The result is False if an element is NaN.
    """
    return all(bool(tensor.detach().abs().max() <= limit) for tensor in tensors if tensor.numel())


def parameter_digest(tensors: Iterable[Tensor]) -> bytes:
    """Return the SHA-256 of types, shapes and bytes of an ordered list of tensors of any shape."""
    found = sha256()
    for tensor in tensors:
        found.update(f"{tensor.dtype} {tuple(tensor.shape)}\n".encode())
        found.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return found.digest()


def all_finite(tensors: Iterable[Tensor]) -> bool:
    """Return whether all elements of tensors of any shape are finite."""
    return all(bool(torch.isfinite(tensor).all()) for tensor in tensors)


def _take_gradient(parameter: Tensor) -> Tensor:
    taken, parameter.grad = parameter.grad, None
    return torch.zeros_like(parameter) if taken is None else taken.detach()
