"""The backdoor audit: whether a trigger that only forgotten rows bore still works.

Measured on test rows that bear the trigger and are not of the target class anyway; what counts is
the excess over the same rows without it.
"""

from dataclasses import dataclass

from torch import Tensor

WORKED = 0.8  # success at the original, below which the run shows nothing


@dataclass(frozen=True, slots=True)
class Backdoor:
    """How often rows are taken for the target, with the trigger and without."""

    success: float  # ASR
    base: float
    rows: int

    @property
    def excess(self) -> float:
        """What the trigger adds."""
        return self.success - self.base


def backdoor(triggered: Tensor, plain: Tensor, labels: Tensor, target: int) -> Backdoor:
    """Measure on the same test rows with the trigger and without: logits ``[rows, classes]``.

    Raises:
        ValueError: every row is of the target class.
    """
    others = labels != target
    if not others.any():
        raise ValueError("every row is of the target class: no success can be told from a hit")
    success, base = ((side[others].argmax(dim=1) == target).double() for side in (triggered, plain))
    return Backdoor(float(success.mean()), float(base.mean()), int(others.sum()))


def is_valid(original: Backdoor) -> bool:
    """Whether the original learned the trigger at all; otherwise nothing can be forgotten."""
    return original.success > WORKED
