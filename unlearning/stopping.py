"""FedORA's stopping rule: decide after each iteration whether to continue, stop or roll back.

Notation of FedORA (paper 004): K = maximum number of iterations, γ − S_u = ``shortfall`` of the
mean forgetting score, ΔΘ = ``change`` of all parameters in the iteration.
"""

from dataclasses import dataclass
from enum import Enum


class Decision(Enum):
    """Decision of the active party after an iteration."""

    CONTINUE = "continue"
    CONVERGED = "converged"
    OUT_OF_ITERATIONS = "out of iterations"
    UTILITY_LOST = "utility lost"
    NOT_FINITE = "not finite"

    @property
    def rolls_back(self) -> bool:
        """Whether every party must go back to the parameters from before the iteration."""
        return self in (Decision.UTILITY_LOST, Decision.NOT_FINITE)

    @property
    def stops(self) -> bool:
        """Whether the run stops after this iteration."""
        return self is not Decision.CONTINUE


@dataclass(frozen=True, slots=True, kw_only=True)
class StoppingLimits:
    """Limits of one FedORA run."""

    iterations: int  # K
    utility_floor: float = 0.0  # lowest accuracy on validation rows; 0 never stops
    shortfall: float = 0.0  # γ − S_u up to this counts as forgotten
    change: float = 0.0  # ΔΘ up to this counts as no change; 0 never converges


@dataclass(frozen=True, slots=True, kw_only=True)
class IterationProgress:
    """Result of one iteration, as measured by the active party."""

    iteration: int  # k, from 0
    finite: bool  # parameters of all parties and S_u
    shortfall: float  # γ − S_u
    change: float  # ΔΘ
    utility: float | None = None  # accuracy on validation rows; None if not measured
    recovering: bool = False  # later iterations may bring the utility above the floor


def stopping_decision(progress: IterationProgress, limits: StoppingLimits) -> Decision:
    """Return the decision after an iteration; the most serious reason to stop takes precedence."""
    if not progress.finite:
        return Decision.NOT_FINITE
    last = progress.iteration + 1 >= limits.iterations
    if progress.utility is not None and progress.utility < limits.utility_floor:
        return Decision.CONTINUE if progress.recovering and not last else Decision.UTILITY_LOST
    if progress.shortfall <= limits.shortfall and 0.0 < progress.change <= limits.change:
        return Decision.CONVERGED
    if last:
        return Decision.OUT_OF_ITERATIONS
    return Decision.CONTINUE
