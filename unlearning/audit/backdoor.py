"""Backdoor audit: success rate of a trigger that only the forgotten training rows contained.

The success rate is measured on the test rows of all classes except the target class, once with the
trigger and once without. The metric is the rate with the trigger minus the rate without the
trigger.
"""

from dataclasses import dataclass

from torch import Tensor

MIN_ORIGINAL_SUCCESS = 0.8  # of the trained model; below it the run shows nothing


@dataclass(frozen=True, slots=True)
class BackdoorSuccess:
    """Fractions of rows predicted as the target class, with the trigger and without the trigger."""

    success: float  # ASR, with the trigger
    base: float  # without the trigger
    rows: int

    @property
    def excess(self) -> float:
        """Success rate with the trigger minus the rate without the trigger."""
        return self.success - self.base


def backdoor_success(
    triggered: Tensor, plain: Tensor, labels: Tensor, target: int
) -> BackdoorSuccess:
    """Measure the success rate on the same test rows with and without the trigger.

    ``triggered`` and ``plain`` are logits, ``[rows, classes]``; ``labels`` are ``[rows]``.

    Raises:
        ValueError: every row belongs to the target class.
    """
    others = labels != target
    if not others.any():
        raise ValueError(
            f"every test row belongs to the target class {target}, but the success rate of the "
            "trigger is measured on rows of other classes; choose another target class"
        )
    success, base = (
        (logits[others].argmax(dim=1) == target).double() for logits in (triggered, plain)
    )
    return BackdoorSuccess(float(success.mean()), float(base.mean()), int(others.sum()))


def learned_trigger(original: BackdoorSuccess) -> bool:
    """Return whether the trained model learned the trigger; if not, the audit is invalid."""
    return original.success > MIN_ORIGINAL_SUCCESS
