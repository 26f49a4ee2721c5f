"""When FedORA stops and whether it steps back: pure decisions on the progress of one iteration.

Letters of FedORA (paper 004): K = most iterations, γ − S_u = ``shortfall`` of the mean
forgetting score, ΔΘ = ``change`` of all parameters in the iteration.
"""

from dataclasses import dataclass
from enum import Enum


class Decision(Enum):
    """What the active party does after an iteration."""

    GO_ON = "go on"
    CONVERGED = "converged"
    OUT_OF_ITERATIONS = "out of iterations"
    UTILITY_LOST = "utility lost"
    NOT_FINITE = "not finite"

    @property
    def rolls_back(self) -> bool:
        """Return whether every party restores its parameters of before the iteration."""
        return self in (Decision.UTILITY_LOST, Decision.NOT_FINITE)

    @property
    def stops(self) -> bool:
        """Return whether this iteration is the last."""
        return self is not Decision.GO_ON


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What FedORA may do at most, and what counts as done."""

    iterations: int  # K
    utility_floor: float = 0.0  # least accuracy on validation rows; 0 never stops
    slack: float = 0.0  # γ − S_u up to this counts as forgotten
    still: float = 0.0  # ΔΘ up to this counts as no change; 0 never converges


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What one iteration did, as far as the active party can know."""

    iteration: int  # k, from 0
    finite: bool  # every party's parameters, and S_u
    shortfall: float  # γ − S_u
    change: float  # ΔΘ
    utility: float | None = None  # accuracy on validation rows; None when not measured
    recovering: bool = False  # began below the floor and has not reached it yet


def decide(progress: Progress, limits: Limits) -> Decision:
    """Return the first reason to stop, the gravest first."""
    if not progress.finite:
        return Decision.NOT_FINITE
    last = progress.iteration + 1 >= limits.iterations
    if progress.utility is not None and progress.utility < limits.utility_floor:
        return Decision.GO_ON if progress.recovering and not last else Decision.UTILITY_LOST
    if progress.shortfall <= limits.slack and 0.0 < progress.change <= limits.still:
        return Decision.CONVERGED
    if last:
        return Decision.OUT_OF_ITERATIONS
    return Decision.GO_ON
