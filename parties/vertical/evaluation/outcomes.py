"""The models of one request: their outputs on each row set, and the cost of their methods."""

from dataclasses import dataclass, field

from torch import Tensor

from configs.agreement import RowRequest
from parties.requests.driver import Cost
from parties.vertical.methods.method import MethodResult
from unlearning.audit.membership import ShadowOutputs
from unlearning.guarantee import Guarantee


@dataclass(frozen=True, slots=True)
class ExtraAudits:
    """The results of the extra audits."""

    # By party and row set, the logits, [rows, classes], of the delivered model after this party
    # restored its original parameters.
    exchanged: dict[str, dict[str, Tensor]] = field(default_factory=dict)
    # By name of the saved model and by party, the distance between the party's parameters in this
    # model and in the paired Retrain model; None if their shapes differ.
    distances: dict[str, dict[str, float | None]] = field(default_factory=dict)
    # By name of the saved model, the number of training steps until the model has relearned D_u,
    # measured once for each order of the rows of D_u.
    relearned: dict[str, list[int]] = field(default_factory=dict)
    shadows: list[ShadowOutputs] = field(default_factory=list)  # outputs of the shadow models
    # By name of the saved model and by party, how well the change of the party's parameters reveals
    # the forgotten row; empty unless exactly one row was forgotten.
    reconstruction: dict[str, dict[str, dict[str, float]]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ModelReadout:
    """The logits and embeddings of one model for each row set."""

    logits: dict[str, Tensor]  # the logits by row set, [rows, classes] each
    # [rows, total_width], for each row set for which a metric uses embeddings.
    embeddings: dict[str, Tensor]


@dataclass(frozen=True, slots=True)
class MethodOutcome:
    """One model: its outputs on each row set, and the cost of the method that made the model."""

    name: str  # name of the method
    logits: dict[str, Tensor]  # the logits by row set, [rows, classes] each
    cost: Cost  # the cost of the method that made the model
    # The method's guarantee in this run; None for the original model.
    guarantee: Guarantee | None = None
    # The values that the method returned for the report and the audits.
    result: MethodResult = field(default_factory=MethodResult)
    # [rows, total_width], for each row set for which a metric uses embeddings.
    embeddings: dict[str, Tensor] = field(default_factory=dict)


@dataclass(slots=True)
class Comparison:
    """The outcomes of all methods and audits of one request."""

    request: RowRequest  # the request
    chosen: str  # name of the method whose model is delivered
    outcomes: list[MethodOutcome] = field(default_factory=list)  # the outcome of each method
    # The results of the extra audits.
    extra_audits: ExtraAudits = field(default_factory=ExtraAudits)

    def outcome(self, name: str) -> MethodOutcome:
        """Return the outcome of the method ``name``."""
        return next(each for each in self.outcomes if each.name == name)

    @property
    def delivered(self) -> MethodOutcome:
        """The outcome of the chosen method."""
        return self.outcome(self.chosen)
