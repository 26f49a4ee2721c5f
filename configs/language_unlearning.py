"""Unlearning in the LLM mode: one table of settings per method, and the methods to compare."""

from typing import Annotated, Literal, Self, TypeAlias

from pydantic import Field, model_validator

from configs.federated import ServerRule
from configs.table import ConfigTable, Count, Fraction, Positive
from configs.variants import MethodVariant, UnlearningSettingsBase

TextMethod: TypeAlias = Literal[
    "fine-tune", "grad-ascent", "grad-diff", "npo", "simnpo", "rmu", "primal-dual"
]


def _absent(value: object) -> bool:
    return value is None


class TextStage(ConfigTable):
    """Settings of one stage of a method; a stage consists of rounds."""

    rounds: Annotated[int, Field(ge=0, lt=2**31)] = 5
    # Fraction of the participants that take part in a round; a round that unlearns has at least one
    # client with forgotten texts. Absent: the value of training.share.
    share: Fraction | None = Field(default=None, exclude_if=_absent)
    # Weight μ of the proximal term of FedProx; absent: the value of training.proximal.
    proximal: Annotated[float, Field(ge=0)] | None = Field(default=None, exclude_if=_absent)
    # Learning rate; absent: the value of training.learning_rate.
    learning_rate: Positive | None = None
    epochs: Count = 1  # local epochs in a round
    batch: Count | None = None  # rows of a batch; absent: the value of training.batch


class ForgettingPlan(ConfigTable):
    """Stages of a method that unlearns texts."""

    unlearn: TextStage = TextStage()  # rounds that unlearn
    recover: TextStage = TextStage(rounds=0)  # rounds of recovery
    # Clients in a round that unlearns. all: all clients; clients without forgotten texts train on
    # the usual loss. leaving: only clients with forgotten texts, as in the code released with
    # Oblivionis.
    participants: Literal["all", "leaving"] = "all"

    @model_validator(mode="after")
    def _has_rounds_that_unlearn(self) -> Self:
        if not self.unlearn.rounds:
            raise ValueError(
                "unlearn.rounds must be at least 1 (got 0); only recover.rounds may be 0"
            )
        return self


class ServerRulePlan(ForgettingPlan):
    """Stages of a method that minimises a loss without a dual variable."""

    # Update rule of the server in the rounds that unlearn and recover; absent: the mean update is
    # added.
    rule: ServerRule | None = None


class GradAscentPlan(ServerRulePlan):
    """Gradient ascent on the forgotten texts."""

    # Whether a client stops the ascent at the loss of a uniform guess; in the paper clients do not
    # stop.
    stop_at_uniform: bool = Field(default=True, exclude_if=bool)


class GradDiffPlan(ServerRulePlan):
    """Gradient ascent on the forgotten texts and descent on the remaining texts."""

    gamma: Positive = 1.0  # weight γ of the forgotten texts
    alpha: Annotated[float, Field(ge=0)] = 1.0  # weight α of the remaining texts
    # Loss on the remaining texts: negative log-likelihood, or KL divergence to the trained model.
    retain: Literal["nll", "kl"] = "nll"


class NpoPlan(GradDiffPlan):
    """Negative preference optimisation (Zhang et al. 2024)."""

    beta: Positive = 0.1  # inverse temperature β


class SimNpoPlan(GradDiffPlan):
    """Negative preference optimisation without a reference model (Fan et al. 2024)."""

    beta: Positive = 4.5  # inverse temperature β
    delta: Annotated[float, Field(ge=0)] = 0.0  # reward margin δ
    gamma: Positive = 0.125  # weight γ of the forgotten texts


class RmuPlan(ServerRulePlan):
    """Representation misdirection for unlearning (Li et al. 2024)."""

    # Layer whose outputs are steered, counted from 1; absent: the middle layer.
    layer: Count | None = None
    steering: Positive = 2.0  # norm c of the steering vector
    gamma: Positive = 1.0  # weight γ of the forgotten texts
    alpha: Annotated[float, Field(ge=0)] = 1.0  # weight α of the remaining texts


class PrimalDualPlan(ForgettingPlan):
    """FedORA for texts: a dual variable weights the forgotten texts until their loss is high."""

    # Loss γ, in nats per token, that the forgotten texts must reach; the loss of a text counts as
    # 1.5 γ at most. Absent: the loss of held-out texts at the clients of the request. The threshold
    # is at most 11, because clients report losses up to 11.8.
    threshold: Annotated[float, Field(gt=0, le=11)] | None = None
    step_size: Positive = 0.5  # dual step σ
    # Dual variable Ω before the first round.
    initial_multiplier: Annotated[float, Field(ge=0)] = 0.5
    max_multiplier: Positive = 10.0  # largest value of Ω
    alpha: Annotated[float, Field(ge=0)] = 1.0  # weight α of the remaining texts
    # Loss on the remaining texts: negative log-likelihood, or KL divergence to the trained model.
    retain: Literal["nll", "kl"] = "nll"

    @model_validator(mode="after")
    def _multiplier_begins_below_its_maximum(self) -> Self:
        if self.initial_multiplier > self.max_multiplier:
            raise ValueError(
                "initial_multiplier must not exceed max_multiplier (got "
                f"{self.initial_multiplier} and {self.max_multiplier})"
            )
        return self


class TextVariant(MethodVariant):
    """Variant of a method of the LLM mode: the same method with other settings."""

    method: TextMethod


class TextUnlearning(UnlearningSettingsBase):
    """Unlearning of texts: the methods to run for every request, and each method's settings."""

    method: TextMethod = "npo"  # method whose model is the result of the run
    compare: tuple[TextMethod, ...] = ("fine-tune",)  # further methods to run and compare
    variants: tuple[TextVariant, ...] = ()  # methods to run once more with other settings
    retrains: Annotated[int, Field(ge=1)] = 1  # number of Retrains
    fine_tune: TextStage = TextStage()  # rounds of the baseline fine-tune
    grad_ascent: GradAscentPlan = GradAscentPlan()
    grad_diff: GradDiffPlan = GradDiffPlan()
    npo: NpoPlan = NpoPlan()
    simnpo: SimNpoPlan = SimNpoPlan()
    rmu: RmuPlan = RmuPlan()
    primal_dual: PrimalDualPlan = PrimalDualPlan()

    def chosen(self) -> list[ForgettingPlan]:
        """Return the settings of the unlearning methods of a run; fine-tune is not included."""
        return [plan for plan in self._plans() if isinstance(plan, ForgettingPlan)]

    def stages(self) -> list[TextStage]:
        """Return the stages of the methods of a run; the stages of Retrain are not included."""
        found = []
        for plan in self._plans():
            found += [plan] if isinstance(plan, TextStage) else [plan.unlearn, plan.recover]
        return found

    def _plans(self) -> list[ForgettingPlan | TextStage]:
        methods = [(name, self) for name in (self.method, *self.compare)]
        methods += [(each.method, self.at(each)) for each in self.variants]
        return [getattr(own, name.replace("-", "_")) for name, own in methods]

    @model_validator(mode="after")
    def _fine_tune_has_rounds(self) -> Self:
        if not self.fine_tune.rounds:
            raise ValueError(
                "fine_tune.rounds must be at least 1, because 0 rounds would not change the model"
            )
        return self
