"""The settings of FedORA (``[unlearning.fedora]``), and the step sizes that they define."""

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from configs.agreement import TrainingSettings, VerticalAgreement, require_local_start
from configs.table import ConfigTable, Count, Fraction, Positive
from configs.unlearning import MethodSettings, ShrinkTop
from unlearning.step_sizes import StepRule, StepSizes

LARGEST_STEP, STEP_OF_TRAINING = 4e-3, 4.0  # primal step: largest, and over training.learning_rate


def _none_if_false(value: Any) -> Any:
    """None for False, because TOML cannot write None."""
    return None if value is False else value


class AdaptiveStepSettings(ConfigTable):
    """Step sizes that adapt to the change of the parameters (FedORA, Eq. 30-33).

    With α = 1 the steps shrink after each iteration that changes the parameters more than the
    previous iteration did. Smaller steps reduce the noise of the last iterations, and the model
    comes closer to Retrain (docs/decisions.md).
    """

    beta: Positive = 0.5  # ratio β of successive changes below which the steps grow
    alpha: Positive = 1.0  # ratio α of successive changes above which the steps shrink
    growth: Annotated[float, Field(gt=1)] = 1.05  # factor κ_i of a growing step
    decay: Fraction = 0.7  # factor κ_d of a shrinking step
    largest: Positive = 10.0  # largest step, as a multiple of the initial step
    smallest: Positive = 0.001  # smallest step, as a multiple of the initial step

    @model_validator(mode="after")
    def _bounds_are_ordered(self) -> Self:
        if not (self.beta < self.alpha and self.decay < 1 and self.smallest <= 1 <= self.largest):
            raise ValueError(
                "the keys must satisfy beta < alpha, decay < 1 and smallest <= 1 <= largest"
            )
        return self


class AnnealSettings(ConfigTable):
    """Schedule of the primal step: linear warm-up, then the full step, then cosine decay.

    Large steps remove what the initial model has learned from the forgotten rows. Small steps at
    the end reduce the noise in the parameters to the noise that training has.
    """

    warmup: Annotated[float, Field(ge=0, lt=1)] = 0.15  # fraction of the sub-steps for the warm-up
    # Fraction of the sub-steps at which the full step ends and the cosine decay begins.
    hold: Annotated[float, Field(ge=0, lt=1)] = 0.5
    floor: Fraction = 0.2  # smallest step, as a fraction of primal_step

    @model_validator(mode="after")
    def _hold_ends_after_warmup(self) -> Self:
        if self.warmup > self.hold:
            raise ValueError(
                f"warmup must not exceed hold (got warmup = {self.warmup} and hold = {self.hold})"
            )
        return self

    def factor(self, progress: float) -> float:
        """Primal step at ``progress`` (from 0 to 1), as a fraction of ``primal_step``."""
        if progress < self.warmup:
            return max(self.floor, progress / self.warmup)
        if progress < self.hold:
            return 1.0
        fallen = (progress - self.hold) / (1.0 - self.hold)
        return self.floor + (1.0 - self.floor) * (1.0 + math.cos(math.pi * fallen)) / 2.0


# Defaults with policy = "counterfactual" (docs/decisions.md, 344).
COUNTERFACTUAL: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "iterations": None,
        "retain_share": None,
        "dual_step": 0.8,
        "max_multiplier": 10.0,
        "score_rows": 128,
        "anneal": AnnealSettings(floor=0.05),
        "calibrate": False,
        "start": "original",
    }
)
# Defaults with form = "paper" (FedORA, Eq. 20, 27, 30-34): from the trained model, with adaptive
# plain steps and without calibration.
PAPER: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "form": "paper",
        "policy": "present",
        "start": "original",
        "primal": "plain",
        "anneal": None,
        "adaptive": AdaptiveStepSettings(),
        "calibrate": False,
    }
)


class FedoraSettings(MethodSettings):
    """Primal-dual unlearning (FedORA, Algorithms 1 and 2).

    Some defaults differ from the paper's settings, because the experiments in docs/threshold.md
    gave models closer to Retrain. ``form = "paper"`` chooses the paper's own settings.
    """

    added_later: ClassVar[frozenset[str]] = frozenset({"noise"})

    # paper: the defaults of the other keys are the paper's settings, and the gradient of D_u is
    # sent in every iteration. tuned: it is zero while the constraint is met and the dual is 0.
    form: Literal["tuned", "paper"] = "tuned"
    # How the score and its threshold γ are chosen. If absent: present with dual = "literal", and
    # where no bottom model may be fitted alone (top.kind = "sum", privacy.embed_once,
    # training.local.keep_embeddings or training.optimiser = "newton-cg"), else counterfactual.
    # counterfactual: the score is minus the divergence from what the model would predict on D_u had
    # it not learned D_u, and γ is minus the divergence that epsilon allows. The other policies
    # score how uncertain the prediction is. heldout: the score of held-out rows of the forgotten
    # classes under the trained model. present: the lower of two scores of these rows, under the
    # trained model and under the current model. proxy: the score under a small reference model.
    # uniform: the score of a nearly uniform prediction.
    policy: Literal["counterfactual", "present", "heldout", "proxy", "uniform"] = "counterfactual"
    # Largest mean divergence from the counterfactual predictions that counts as forgotten, as a
    # fraction of the divergence of the first iteration; at least twice the divergence on validation
    # rows, which the model has not learned, and 0.001 nats, and at most 0.2. In every iteration, at
    # least half of the divergence of the rows that the model knows less well than predicted.
    epsilon: Positive = 0.3
    # Number of standard errors by which γ is below the score of held-out rows.
    margin: Annotated[float, Field(ge=0)] = 2.0
    # scalar: one dual variable at the active party. literal: one per parameter (paper, Eq. 25).
    dual: Literal["scalar", "literal"] = "scalar"
    weight: Positive = 2.0  # weight ω in the forgetting score
    # Largest number K of iterations. With policy = "counterfactual", if absent, from 8 to 64: so
    # many that an iteration takes at most 6 sub-steps; twice as many if a request corrects labels.
    iterations: Count | None = 20
    # Fraction δ of the remaining rows that each iteration uses. With policy = "counterfactual", if
    # absent, 1.2 / K; 2.4 / K if a request corrects labels.
    retain_share: Annotated[float, Field(ge=0, le=1)] | None = 0.25
    # Rows B of a batch; absent: the value of training.batch. With policy = "counterfactual", if
    # absent, a power of 2 that leaves 64 sub-steps, from 8 to training.batch.
    batch: Count | None = None
    # Primal step τ; absent: twice training.learning_rate, or 0.1 with primal = "plain". With policy
    # = "counterfactual", if absent, 4 times training.learning_rate, and at most 0.004.
    primal_step: Positive | None = None
    # Dual step σ. With policy = "counterfactual" it is divided by the largest divergence so far,
    # and the default is 0.8.
    dual_step: Positive = 0.1
    # Weight ρ of the proximal term, which keeps the model close to the model of the first
    # iteration.
    proximal: Annotated[float, Field(ge=0)] = 0.0
    # Largest value of the dual variable Ω; with policy = "counterfactual" the default is 10.0.
    max_multiplier: Positive = 1.0
    # Standard deviation of the Gaussian noise that every party adds to its parameters after each
    # primal step, as a multiple of τ. With the other defaults, 2.0 changes the leak on three
    # data sets by less than the intervals, and costs accuracy (docs/forgetting-study.md).
    noise: Annotated[float, Field(ge=0)] = 0.0
    # Largest number of forgotten rows in one iteration; with policy = "counterfactual" the default
    # is 128.
    score_rows: Count | None = 1024
    # Iterations between two evaluations on the validation rows. With anneal, there is one after the
    # last iteration only, unless policy = "present" needs them for its threshold.
    check_every: Count = 7
    # Largest accepted loss of validation accuracy; after a larger loss the method restores an
    # earlier model. With anneal only the loss after the last iteration counts.
    utility_loss: Positive = 0.05
    # Largest difference between γ and the score, and largest parameter change, that count as
    # converged.
    tolerance: Positive = 1e-3
    # plain: parameters move along the direction of Eq. 34. optimiser: this direction is passed to
    # the training's optimiser as the gradient.
    primal: Literal["plain", "optimiser"] = "optimiser"
    # Schedule of the primal step; false: constant. With policy = "counterfactual" the default has
    # floor = 0.05.
    anneal: Annotated[AnnealSettings | None, BeforeValidator(_none_if_false)] = AnnealSettings()
    # Adaptive step sizes; false: off.
    adaptive: Annotated[AdaptiveStepSettings | None, BeforeValidator(_none_if_false)] = None
    # Whether the top model's logits are scaled after the last iteration, so that the unlearned
    # model is as confident on held-out rows as the trained model. With policy = "counterfactual"
    # the default is false.
    calibrate: bool = True
    # Whether the forgetting score is used; false keeps Ω = 0 (the paper's "w/o UL").
    score: bool = True
    # Whether the dual variable ascends at 2 Θ_k - Θ_(k-1), as in the primal-dual hybrid gradient
    # method.
    extrapolate: bool = False
    # Model of the first iteration. rewind: the early checkpoint that every party saved during
    # training. original: the trained model. fresh-top: the trained model with a new top. shrink:
    # the trained model with all bottoms moved towards a new initialisation. redrawn: fresh bottoms,
    # which each party alone teaches the embeddings of the trained model on D_r, and a fresh top.
    # With policy = "counterfactual" the default is original.
    start: Literal["rewind", "original", "fresh-top", "shrink", "redrawn"] = "rewind"
    redraw_epochs: Count = 30  # epochs in which a fresh bottom learns the embeddings
    # Fraction of the training epochs after which the early checkpoint is saved.
    rewind: Fraction = 0.2
    shrink: Fraction = 0.3  # fraction of the way to the new initialisation, for start = "shrink"
    # Top model for start = "shrink". keep: unchanged. shrink: moved like the bottoms. fresh: a new
    # top model.
    shrink_top: ShrinkTop = "keep"
    # With policy = "proxy", γ corresponds to this fraction of the reference model's mean entropy.
    entropy_factor: Positive = 0.75
    # Fraction of the remaining rows that train the reference model of policy = "proxy".
    reference_share: Fraction = 0.1
    reference_epochs: Count = 10  # epochs of the reference model
    reference_batch: Count = 32  # rows of a batch of the reference model
    reference_learning_rate: Positive = 5e-3  # learning rate of the reference model

    def first_step(self, learning_rate: float) -> float:
        """Return the first primal step τ; its default may depend on the ``learning_rate``."""
        if self.primal_step is not None:
            return self.primal_step
        if self.primal == "plain":
            return 0.1
        if self.policy == "counterfactual":
            return min(LARGEST_STEP, STEP_OF_TRAINING * learning_rate)
        return 2 * learning_rate

    def within(self, agreement: VerticalAgreement) -> Self:
        """Return the settings; the default policy is ``present`` where no bottom may be fitted."""
        chosen = "policy" in self.model_fields_set or self.form == "paper"
        if chosen or (agreement.may_fit_bottoms and self.dual == "scalar"):
            return self
        given = {key: getattr(self, key) for key in self.model_fields_set}
        return type(self).model_validate({**given, "policy": "present"})

    @model_validator(mode="after")
    def _defaults_of_the_policy(self) -> Self:
        """Set the defaults that differ with policy = "counterfactual", or form = "paper"."""
        paper = PAPER if self.form == "paper" else {}
        policy = self.policy if "policy" in self.model_fields_set else paper.get("policy")
        known = policy in (None, "counterfactual")
        for key, value in {**(COUNTERFACTUAL if known else {}), **paper}.items():
            if key not in self.model_fields_set:
                object.__setattr__(self, key, value)
        return self

    @model_validator(mode="after")
    def _iterations_are_known(self) -> Self:
        if self.policy != "counterfactual" and None in (self.iterations, self.retain_share):
            raise ValueError(
                "the keys 'iterations' and 'retain_share' may be absent only with policy = "
                "'counterfactual'"
            )
        return self

    @model_validator(mode="after")
    def _literal_dual_uses_the_score(self) -> Self:
        if self.dual == "literal" and not (self.score and not self.extrapolate):
            raise ValueError(
                "dual = 'literal' needs score = true and extrapolate = false: set these values, "
                "or dual = 'scalar'"
            )
        chosen = "policy" in self.model_fields_set and self.policy == "counterfactual"
        if self.dual == "literal" and chosen:
            raise ValueError(
                "dual = 'literal' has no step relative to the divergence: set policy = 'present', "
                "or dual = 'scalar'"
            )
        return self

    @model_validator(mode="after")
    def _one_rule_moves_the_step(self) -> Self:
        if self.anneal and self.adaptive:
            raise ValueError(
                "the keys 'adaptive' and 'anneal' both change the primal step: set one of the two "
                "keys to false"
            )
        return self

    def why_not_corrected(self) -> str:
        """Return why these settings cannot replace labels; empty if they can."""
        if self.policy == "counterfactual":
            return ""
        return (
            f"unlearning.fedora.policy = {self.policy!r} cannot correct labels: set policy = "
            "'counterfactual'"
        )

    def check(self, agreement: VerticalAgreement) -> None:
        """Check that FedORA's start and its constraint are possible.

        Raises:
            ValueError: the training saves no early checkpoint, or no local fit is possible.
        """
        if self.policy == "counterfactual" and self.score:
            _require_local_fit(
                agreement,
                "unlearning.fedora.policy = 'counterfactual'",
                "; unlearning.fedora.policy = 'present' needs no local fit",
            )
        if agreement.corrects and (reason := self.why_not_corrected()):
            raise ValueError(f"{reason}, or remove corrects = true from the request")
        if self.start == "redrawn":
            _require_local_fit(agreement, "unlearning.fedora.start = 'redrawn'")
        newton = agreement.training.optimiser == "newton-cg"
        if newton and agreement.unlearn and self.start == "rewind":
            raise ValueError(
                "unlearning.fedora.start = 'rewind' needs an early checkpoint, which "
                "training.optimiser = 'newton-cg' does not save: set unlearning.fedora.start = "
                "'original' or unlearning.method = 'newton-cg'"
            )


def _require_local_fit(agreement: VerticalAgreement, user: str, instead: str = "") -> None:
    """Refuse a local fit of bottom models that no model changes, or that add votes.

    The message ends with ``instead``.

    Raises:
        ValueError: the message names the key to change.
    """
    try:
        require_local_start(agreement, user)
        if agreement.keeps_embeddings:
            raise ValueError(
                f"{user} fits bottom models, but training.local.keep_embeddings keeps their random "
                "weights: remove one of the two"
            )
    except ValueError as error:
        raise ValueError(f"{error}{instead}") from None


def fedora_variant(plan: FedoraSettings) -> dict[str, Any]:
    """The settings that define the variant of FedORA, for the report."""
    return {
        "dual": plan.dual,
        "start": plan.start,
        "score": plan.score,
        "primal": plan.primal,
        "anneal": plan.anneal is not None,
        "adaptive": plan.adaptive is not None,
        "extrapolate": plan.extrapolate,
        "retain_share": plan.retain_share,
    }


def fedora_step_sizes(plan: FedoraSettings, training: TrainingSettings) -> StepSizes:
    """The initial step sizes and their rule; without ``adaptive``, the rule changes nothing."""
    rule, primal = plan.adaptive, plan.first_step(training.learning_rate)
    if rule is None:
        constant = StepRule(
            primal_range=(primal, primal),
            dual_range=(plan.dual_step, plan.dual_step),
        )
        return StepSizes(primal=primal, dual=plan.dual_step, rule=constant)
    adaptive = StepRule(
        beta=rule.beta,
        alpha=rule.alpha,
        grow=rule.growth,
        shrink=rule.decay,
        primal_range=(primal * rule.smallest, primal * rule.largest),
        dual_range=(plan.dual_step * rule.smallest, plan.dual_step * rule.largest),
    )
    return StepSizes(primal=primal, dual=plan.dual_step, rule=adaptive)
