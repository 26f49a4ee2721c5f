"""The settings of unlearning by language models: one table a method, and what is compared."""

from typing import Annotated, Literal, Self, TypeAlias

from pydantic import Field, model_validator

from configs.federated import Rule
from configs.table import Count, Fraction, Positive, Table
from configs.variants import Unlearning, Variant

TextMethod: TypeAlias = Literal[
    "fine-tune", "grad-ascent", "grad-diff", "npo", "simnpo", "rmu", "primal-dual"
]


def _absent(value: object) -> bool:
    return value is None


class TextStage(Table):
    """Rounds of one stage; what is absent is the training's."""

    rounds: Annotated[int, Field(ge=0, lt=2**31)] = 5
    # Of those who take part; in a round that unlearns one at least has forgotten texts.
    share: Fraction | None = Field(default=None, exclude_if=_absent)
    proximal: Annotated[float, Field(ge=0)] | None = Field(default=None, exclude_if=_absent)
    learning_rate: Positive | None = None
    epochs: Count = 1
    batch: Count | None = None


class Forgetting(Table):
    """What all methods have: the rounds that unlearn, and those that recover."""

    unlearn: TextStage = TextStage()
    recover: TextStage = TextStage(rounds=0)
    # In a round that unlearns: everybody, those without forgotten texts learning theirs; or the
    # leaving alone, as the released program of Oblivionis does it.
    who: Literal["all", "leaving"] = "all"

    @model_validator(mode="after")
    def _something_is_unlearned(self) -> Self:
        if not self.unlearn.rounds:
            raise ValueError("unlearn.rounds = 0 unlearns nothing; 0 is for recover.rounds alone")
        return self


class ByRulePlan(Forgetting):
    """What those have that descend an objective without a price."""

    # The server's, with its memory, in the rounds that unlearn and recover; None: the plain mean.
    rule: Rule | None = None


class GradAscentPlan(ByRulePlan):
    """Gradient ascent on forgotten texts."""

    # A client's ascent ends at the loss of a uniform guess; the paper's goes on.
    stops: bool = Field(default=True, exclude_if=bool)


class GradDiffPlan(ByRulePlan):
    """Gradient ascent on forgotten texts beside descent on those that stay."""

    gamma: Positive = 1.0
    alpha: Annotated[float, Field(ge=0)] = 1.0
    retain: Literal["nll", "kl"] = "nll"


class NpoPlan(GradDiffPlan):
    """Negative preference optimisation (Zhang et al. 2024)."""

    beta: Positive = 0.1


class SimNpoPlan(GradDiffPlan):
    """Negative preference without a reference model (Fan et al. 2024)."""

    beta: Positive = 4.5
    delta: Annotated[float, Field(ge=0)] = 0.0
    gamma: Positive = 0.125


class RmuPlan(ByRulePlan):
    """Representation misdirection (Li et al. 2024)."""

    layer: Count | None = None  # whose outputs are steered, from 1; None: the one in the middle
    steering: Positive = 2.0  # c
    gamma: Positive = 1.0
    alpha: Annotated[float, Field(ge=0)] = 1.0


class PrimalDualPlan(Forgetting):
    """FedORA's constraint on forgotten texts, priced by a dual variable."""

    # γ: the nats a token that forgotten texts must reach, none of which counts for more than 1.5 γ;
    # None: what texts have from which nobody learned, at the clients that are still concerned.
    threshold: Annotated[float, Field(gt=0, le=11)] | None = None  # clients tell up to 11.8
    step_size: Positive = 0.5  # σ
    price: Annotated[float, Field(ge=0)] = 0.5  # Ω before the first round
    most: Positive = 10.0  # Ω, whatever the clients tell
    alpha: Annotated[float, Field(ge=0)] = 1.0
    retain: Literal["nll", "kl"] = "nll"

    @model_validator(mode="after")
    def _begins_below_the_most(self) -> Self:
        if self.price > self.most:
            raise ValueError(f"price {self.price} is above the most that it may be, {self.most}")
        return self


class TextVariant(Variant):
    """Of one of the ways of language models."""

    method: TextMethod


class TextUnlearning(Unlearning):
    """What is run for every request."""

    method: TextMethod = "npo"
    compare: tuple[TextMethod, ...] = ("fine-tune",)
    also: tuple[TextVariant, ...] = ()
    retrains: Annotated[int, Field(ge=1)] = 1
    fine_tune: TextStage = TextStage()
    grad_ascent: GradAscentPlan = GradAscentPlan()
    grad_diff: GradDiffPlan = GradDiffPlan()
    npo: NpoPlan = NpoPlan()
    simnpo: SimNpoPlan = SimNpoPlan()
    rmu: RmuPlan = RmuPlan()
    primal_dual: PrimalDualPlan = PrimalDualPlan()

    def chosen(self) -> list[Forgetting]:
        """The settings of all ways that a request has run, but for going on (fine-tune)."""
        return [plan for plan in self._plans() if isinstance(plan, Forgetting)]

    def stages(self) -> list[TextStage]:
        """All rounds of the ways that a request has run, but for the Retrains'."""
        found = []
        for plan in self._plans():
            found += [plan] if isinstance(plan, TextStage) else [plan.unlearn, plan.recover]
        return found

    def _plans(self) -> list[Forgetting | TextStage]:
        ways = [(name, self) for name in (self.method, *self.compare)]
        ways += [(each.method, self.at(each)) for each in self.also]
        return [getattr(own, name.replace("-", "_")) for name, own in ways]

    @model_validator(mode="after")
    def _it_goes_on(self) -> Self:
        if not self.fine_tune.rounds:
            raise ValueError("fine_tune.rounds = 0 would leave the model as it was")
        return self
