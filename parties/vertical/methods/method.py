"""The result of a vertical unlearning method, and a method as a set of steps."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeVar

from configs.agreement import VerticalAgreement
from parties.report.method_names import Label
from parties.requests.driver import Method
from parties.vertical.engine.training_loop import SentGradients
from parties.vertical.methods.orders import Orders
from parties.vertical.methods.run import VerticalRun
from unlearning.guarantee import Guarantee

PAIRED: Final = "retrain-paired"  # Retrain with the weights and the batch order of the original
NEWTON_CG: Final = "newton-cg"
Run_contra = TypeVar("Run_contra", bound=VerticalRun, contravariant=True)
State = TypeVar("State")


@dataclass(frozen=True, slots=True)
class Threshold:
    """FedORA's threshold γ on the forgetting score."""

    # The threshold γ; with the policy ``present``, the largest threshold that is allowed.
    gamma: float
    # The policy that set γ. If the policy ``proxy`` is agreed but its reference model diverged, the
    # value is ``heldout``.
    policy: str


@dataclass(frozen=True, slots=True)
class MethodResult:
    """What a method returns: values for the report, and gradients for the audits."""

    # JSON values for the method's row in the report.
    figures: dict[str, Any] = field(default_factory=dict)
    # One entry per iteration, for the report's plot.
    iterations: list[dict[str, Any]] = field(default_factory=list)
    stopped: str | None = None  # why the method ended early; None if the method ended normally
    # Why the model from before the method was restored, so that it forgot nothing; else None.
    restored: str | None = None
    threshold: Threshold | None = None  # the threshold γ of FedORA; None for other methods
    # The gradients of one batch of D_u, as the active party sent them; None if the method sends no
    # gradient.
    sent_gradients: SentGradients | None = None
    # What the report shows of this run, if different from the label of the method.
    label: Label | None = None
    # The guarantee of this run, if different from the guarantee of the method.
    guarantee: Guarantee | None = None
    # Function that computes further values for the report; its cost does not count as cost of the
    # method.
    audit: Callable[[], dict[str, Any]] | None = None


class VerticalMethod(Method[Run_contra, State, MethodResult], Protocol[Run_contra, State]):
    """A vertical method, which also declares what it orders the passive parties to do."""

    def orders(self, agreement: VerticalAgreement) -> Orders:
        """The method's orders in the task UNLEARN; a passive party refuses every other order."""
