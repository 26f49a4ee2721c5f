"""FedORA for several parties; the active party computes the dual and the step sizes (Alg. 1, 2).

Notation of the paper (arXiv 2512.23171): S_u = mean forgetting score on D_u, g_u = its gradient, γ
= threshold, Ω = dual, τ and σ = primal and dual step size, L_r = loss on retained rows, ρ = weight
of the proximal term, δ = fraction of D_r per iteration. Every model of a run has its own S_u, γ, Ω,
τ and σ.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from hashlib import sha256
from itertools import chain, islice
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Final, Literal, Self

import numpy as np
import torch
from pydantic import BeforeValidator, Field, model_validator
from torch import Tensor

from configs.agreement import (
    MlpTop,
    TrainingSettings,
    VerticalAgreement,
    require_local_start,
)
from configs.local_start import LocalStartSettings
from configs.table import ConfigTable, Count, Fraction, Positive
from configs.unlearning import MethodSettings, ShrinkTop
from parties.common.errors import PolicyError
from parties.common.shared_randomness import torch_seed
from parties.report.method_names import Label
from parties.requests.driver import (
    NOTHING,
    JsonObject,
    MethodDefaults,
    Needs,
    StepRecord,
    StepResult,
    Stop,
)
from parties.vertical.engine.local_model import EARLY_CHECKPOINT, NEXT_EARLY_CHECKPOINT, ORIGINAL
from parties.vertical.engine.optimiser import UpdateRule, top_rule
from parties.vertical.engine.rows import RowSets, Sample
from parties.vertical.engine.train import share_correct
from parties.vertical.engine.training_loop import HOLD, SentGradients
from parties.vertical.methods.counterfactual import (
    REFERENCE,
    CounterfactualTargets,
    find_targets,
    remaining_classes,
)
from parties.vertical.methods.kkt import ANCHOR, KktTerms, kkt_report
from parties.vertical.methods.local_start import RedrawnStart, train_local_start
from parties.vertical.methods.method import MethodResult, Threshold
from parties.vertical.methods.orders import Orders, PrimalLimits, Start
from parties.vertical.methods.run import (
    FRESH_TOP,
    Batch,
    Loss,
    Norms,
    ShrinkShares,
    VerticalRun,
    train_epoch,
)
from protocol import vfl_pb2
from unlearning import thresholds
from unlearning.calibration import calibration_factor
from unlearning.counterfactual import label_scores
from unlearning.objectives import forgetting_scores
from unlearning.primal_dual import Dual, extrapolated_score, retain_steps
from unlearning.step_sizes import StepRule, StepSizes
from unlearning.stopping import Decision, IterationProgress, StoppingLimits, stopping_decision
from unlearning.thresholds import lowest_threshold

ROLLED_BACK = (
    "all parties restored the last model that passed validation, which may still contain the "
    "forgotten rows; try a smaller unlearning.fedora.primal_step or more iterations"
)
START = "start of fedora"  # random stream of the fresh parameters of a start model
REDRAWN = "redrawn start of fedora"  # random stream of the models of the redrawn start


def _none_if_false(value: Any) -> Any:
    """None for False, because TOML cannot write None."""
    return None if value is False else value


PASSES = 1.2  # epochs over D_r of all iterations together
CORRECTING = 2.0  # times as many if D_u stays with other labels: learning takes longer
LEAST_ITERATIONS, MOST_ITERATIONS = 8, 64
SUB_STEPS = 6  # most sub-steps with one gradient of D_u: with more, the gradient is too old
LEAST_STEPS, LEAST_BATCH = 64, 8  # sub-steps that the batch leaves, and its least number of rows
LARGEST_STEP, STEP_OF_TRAINING = 4e-3, 4.0  # primal step: largest, and over training.learning_rate
NEGLIGIBLE = 1e-3  # nats; a mean divergence up to this needs no forgetting
VALIDATED = 512  # rows of a validation: enough to detect a loss of 5 points of accuracy
# ε over the divergence on validation rows. The targets follow from the model's own outputs, so the
# divergence of another model, such as a Retrain, is larger; twice, if their errors are independent.
UNLEARNED = 2.0
LARGEST_EPSILON = 0.2  # nats: a planted trigger starts at several nats


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
    # rows, which the model has not learned, and 0.001 nats, and at most 0.2.
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
    # primal step, as a multiple of τ. On some data 2.0 removes more of what a single forgotten row
    # has left in the parameters, for half a point of accuracy (docs/decisions.md, 347).
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


@dataclass(frozen=True, slots=True)
class FedOraState:
    """The state after an iteration in addition to the parameters; lists have an entry per model."""

    policy: str  # the policy that set the thresholds
    # The threshold γ of the policy; with the policy ``present``, an upper limit of γ.
    limits: list[float]
    original: list[Tensor]  # [validated_rows, classes], the original model's logits
    duals: list[Dual]  # Ω and γ
    steps: list[StepSizes]  # τ and σ
    floor: float  # lowest accuracy on validation rows at which a model is useful
    # Whether the model passed its last validation; false before the first validation, unless FedORA
    # starts from the original model.
    passed: bool
    # S_u of the last iteration; empty before the first iteration.
    scores: list[float] = field(default_factory=list)
    retain_batches: int = 0  # number of batches of D_r used so far
    decision: Decision = Decision.CONTINUE  # whether and why to stop
    # The gradients of S_u that were sent for the last batch of D_u in the first iteration.
    sent: SentGradients | None = None
    # Iterations with Ω above 0, and with Ω at its maximum; means over the models.
    active: float = 0.0
    at_maximum: float = 0.0
    # The counterfactual targets; None with another policy.
    targets: CounterfactualTargets | None = None
    # The largest divergence from the targets so far; empty with another policy.
    largest: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ConstraintUse:
    """In how many iterations the constraint took part; means over the models."""

    active: float  # iterations with Ω above 0
    at_maximum: float  # iterations with Ω at its maximum
    iterations: int  # all iterations

    @property
    def text(self) -> str:
        """A sentence for the headline of the method."""
        if not self.active:
            return "constraint inactive"
        found = f"constraint active in {self.active:.3g} of {self.iterations} iterations"
        if self.at_maximum:
            found += f", at its maximum in {self.at_maximum:.3g}"
        return found


# The plain method that remains while Ω is 0, by start.
PLAIN_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "rewind": "Rewind and fine-tune",
        "original": "Fine-tune",
        "fresh-top": "Fresh top, fine-tuned",
        "shrink": "Shrink-perturb",
        "redrawn": "Redrawn bottoms, fine-tuned",
    }
)


def constraint_label(plan: FedoraSettings, constraint: ConstraintUse) -> Label:
    """What the report shows: FedORA only if its constraint took part, else the plain method."""
    if constraint.active:
        return Label("FedORA", constraint.text)
    return Label(PLAIN_NAMES[plan.start], f"FedORA, {constraint.text}: Ω was always 0")


class FedOraMethod(MethodDefaults):
    """FedORA: raise the forgetting score on D_u to γ, and keep the loss on D_r low."""

    name: ClassVar = "fedora"
    only_classes: ClassVar = "its forgetting score is the entropy of class probabilities"
    label: ClassVar = Label("FedORA", "fine-tuned under a forgetting constraint")
    settings: ClassVar = FedoraSettings
    corrects: ClassVar = True
    state: ClassVar = FedOraState

    def needs(self, agreement: VerticalAgreement) -> Needs:
        """The early checkpoint, if FedORA starts from it."""
        plan = agreement.unlearning.of(FedoraSettings)
        return Needs(early_checkpoint=plan.rewind) if plan.start == "rewind" else NOTHING

    def orders(self, agreement: VerticalAgreement) -> Orders:
        """Primal steps on D_r, and the training of the reference model."""
        plan, training = agreement.unlearning.of(FedoraSettings), agreement.training
        score = plan.score_rows
        proxy = plan.policy == "proxy"
        # An iteration takes at most one epoch over D_r, and one batch of D_u.
        iterations = plan.iterations or MOST_ITERATIONS
        batches = [(size, iterations + 1) for size in _batch_sizes(plan, training)]
        batches += [] if score is None else [(score, iterations)]
        batches += [(plan.reference_batch, plan.reference_epochs)] if proxy else []
        return Orders(
            starts=_starts(plan, training),
            fresh=(_reference_start(plan, training),) if proxy else (),
            local=_local_starts(plan),
            scales=plan.start == "redrawn",
            batches=tuple(batches),
            passes=() if _most_validated(plan) is None else (VALIDATED,),
            shrinks=tuple(each.pair for each in _shrinks(plan)),
            primal=_primal_limits(plan, training),
            proximal=plan.proximal,
        )

    def count(self, run: VerticalRun) -> int:
        """The largest number of batches."""
        schedule = Schedule.of_run(run)
        return schedule.iterations * (schedule.sub_steps + 1)

    def init(self, run: VerticalRun) -> FedOraState:
        """Compute the threshold γ, and prepare the model of the first iteration."""
        plan = run.settings(FedoraSettings)
        # Recorded, because the work below replaces the model, and a crash may repeat this method.
        read = partial(run.logits, vfl_pb2.VALIDATION, _most_validated(plan))
        original = run.once("validation of the trained model", list[Tensor], read)
        # Without the constraint (the paper's "w/o UL"), nothing needs the targets.
        wanted = plan.policy == "counterfactual" and plan.score
        targets = find_targets(run, original) if wanted else None
        policy, limits = choose_thresholds(run, original)
        _start(run, plan)
        if plan.proximal:
            run.keep(ANCHOR)
        gammas, maximum = limits, plan.max_multiplier if plan.score else 0.0
        if plan.policy == "present":  # until the first validation
            classes = len(run.agreement.labels.classes)
            gammas = [lowest_threshold(classes, plan.weight)] * len(limits)
        sizes = fedora_step_sizes(plan, run.agreement.training)
        return FedOraState(
            policy=policy,
            limits=limits,
            original=original,
            duals=[Dual(threshold=gamma, maximum=maximum) for gamma in gammas],
            steps=[sizes] * len(limits),
            floor=max(0.0, _utility(run, original[0]) - plan.utility_loss),
            passed=plan.start == "original",
            targets=targets,
        )

    def step(self, run: VerticalRun, state: FedOraState, k: int) -> StepResult[FedOraState]:
        """Run iteration ``k``, and validate the model if it is due."""
        if state.decision.stops:
            return Stop(state.decision.value, restore=state.decision.rolls_back)
        if k and k == _early_iteration(run):
            run.keep(NEXT_EARLY_CHECKPOINT)
        return _Iteration(run, state, k).run()

    def finish(
        self, run: VerticalRun, state: FedOraState, records: Sequence[JsonObject], stop: Stop
    ) -> MethodResult:
        """Calibrate the top model, and return the iterations."""
        if stop.restore:
            run.progress.warn(f"FedORA ended with {stop.reason!r}: {ROLLED_BACK}")
        early = _early_iteration(run)
        if early is not None and len(records) <= early:
            run.keep(NEXT_EARLY_CHECKPOINT)  # the start of the next request
        gamma, multiplier = state.duals[0].threshold, state.duals[0].multiplier
        plan = run.settings(FedoraSettings)
        scalar = plan.dual == "scalar" and records
        factor = calibrate_top(run, state.original)
        constraint = ConstraintUse(state.active, state.at_maximum, len(records))
        figures = {"calibration": factor, "constraint": asdict(constraint)}
        return MethodResult(
            fedora_variant(plan) | figures,
            label=None if plan.dual == "literal" else constraint_label(plan, constraint),
            iterations=_with_changes(records),
            stopped=stop.reason,
            threshold=Threshold(gamma, state.policy),
            sent_gradients=state.sent,
            audit=partial(_audit, run, state, multiplier if scalar else None),
        )


def _audit(run: VerticalRun, state: FedOraState, multiplier: float | None) -> dict[str, Any]:
    """The KKT report; it is not part of the cost, because it changes nothing."""
    plan, gamma = run.settings(FedoraSettings), state.duals[0].threshold
    terms = KktTerms(partial(row_scores, run, state.targets), plan.proximal, plan.tolerance)
    return {"kkt": kkt_report(run, gamma, multiplier, terms)}


def row_scores(run: VerticalRun, found: CounterfactualTargets | None, batch: Batch) -> Tensor:
    """The forgetting score of each row of a batch of D_u, [N * batch].

    With counterfactual targets it is minus the divergence from the target of the row.
    """
    plan, logits = run.settings(FedoraSettings), batch.logits.flatten(0, 1)
    if found is None:
        return forgetting_scores(logits, plan.weight)
    of_models = zip(found.log_targets, run.sets, batch.rows.numpy(), strict=True)
    targets = torch.cat(
        [log_q[np.searchsorted(sets.forgotten, rows)] for log_q, sets, rows in of_models]
    )
    return label_scores(targets, logits, run.learned_labels[batch.rows].flatten())


def _with_changes(records: Sequence[JsonObject]) -> list[JsonObject]:
    """The iterations, each with the change of the parameters that the next one measured."""
    measured = [*(each["change"] for each in records[1:]), None]
    pairs = zip(records, measured, strict=False)
    return [each | {"change": change} for each, change in pairs]


def _start(run: VerticalRun, plan: FedoraSettings) -> None:
    """Make the model of the first iteration, and start its update rule."""
    rule = _update_rule(plan, run.agreement.training)
    if plan.start == "redrawn":
        train_local_start(run, _redrawn(plan), REDRAWN)
        run.change_rule(rule)
        return
    run.start(EARLY_CHECKPOINT if plan.start == "rewind" else ORIGINAL, ORIGINAL, rule)
    for shares in _shrinks(plan):
        run.shrink(shares, START)


def _redrawn(plan: FedoraSettings) -> LocalStartSettings:
    """The settings of the redrawn start: a local start whose codes are the old embeddings."""
    return RedrawnStart(fit_epochs=plan.redraw_epochs, joint_epochs=0.0)


def _local_starts(plan: FedoraSettings) -> tuple[LocalStartSettings, ...]:
    """The trainings with a local start: of the reference, and of the redrawn start."""
    reference = (REFERENCE,) if plan.policy == "counterfactual" and plan.score else ()
    return (*reference, *((_redrawn(plan),) if plan.start == "redrawn" else ()))


def _starts(plan: FedoraSettings, training: TrainingSettings) -> tuple[Start, ...]:
    """The update rules of the primal steps, and of the top model of the redrawn start."""
    rules = [_update_rule(plan, training)]
    rules += [top_rule(_redrawn(plan))] if plan.start == "redrawn" else []
    return tuple((rule, None) for rule in rules)


def _shrinks(plan: FedoraSettings) -> list[ShrinkShares]:
    """How far the model of the first iteration moves to fresh values; empty: it does not move."""
    if plan.start == "fresh-top":
        return [FRESH_TOP]
    return [ShrinkShares.agreed(plan.shrink, plan.shrink_top)] if plan.start == "shrink" else []


def _batch_sizes(plan: FedoraSettings, training: TrainingSettings) -> list[int]:
    """The possible sizes of a batch of D_r; the number of rows of D_r chooses one of them."""
    if plan.batch is not None or plan.policy != "counterfactual":
        return [plan.batch or training.batch]
    powers = [2**each for each in range(LEAST_BATCH.bit_length() - 1, training.batch.bit_length())]
    return sorted({min(training.batch, each) for each in (*powers, training.batch)})


def _primal_limits(plan: FedoraSettings, training: TrainingSettings) -> PrimalLimits:
    """The largest step sizes that adaptive steps can reach, and the largest Ω."""
    rule = fedora_step_sizes(plan, training).rule
    literal = rule.dual_range[1] if plan.dual == "literal" else None
    return PrimalLimits(
        step_size=rule.primal_range[1],
        multiplier=plan.max_multiplier,
        dual_step=literal,
        noise=plan.noise,
    )


def _reference_start(plan: FedoraSettings, training: TrainingSettings) -> Start:
    """The update rule of the reference model, and the sample of D_r that trains it."""
    rule = UpdateRule.like_training(training, plan.reference_learning_rate)
    return rule, Sample("reference", plan.reference_share)


def _update_rule(plan: FedoraSettings, training: TrainingSettings) -> UpdateRule:
    """The update rule of the primal steps."""
    if plan.primal == "plain":
        return UpdateRule(proximal=plan.proximal)
    rule = UpdateRule.like_training(training, plan.first_step(training.learning_rate))
    return replace(rule, proximal=plan.proximal)


def _early_iteration(run: VerticalRun) -> int | None:
    """The iteration before which the next early checkpoint is kept; None without a checkpoint."""
    plan = run.settings(FedoraSettings)
    if plan.start != "rewind":
        return None
    return math.ceil(plan.rewind * Schedule.of_run(run).iterations)


@dataclass(frozen=True, slots=True)
class Schedule:
    """The numbers of steps of FedORA."""

    batch: int  # B, rows of a batch of D_r
    iterations: int  # K, the largest number of iterations
    sub_steps: int  # R, the number of primal sub-steps on retained rows; 0 for δ = 0

    @classmethod
    def of_run(cls, run: VerticalRun) -> "Schedule":
        """The schedule of ``run``."""
        plan, retained = run.settings(FedoraSettings), run.row_count(vfl_pb2.RETAIN)
        corrects = run.sets[0].corrects
        return cls.of(plan, retained, run.agreement.training.batch, corrects=corrects)

    @classmethod
    def of(
        cls, plan: FedoraSettings, retained: int, trained: int, *, corrects: bool = False
    ) -> "Schedule":
        """The schedule for ``retained`` rows of D_r; the training had batches of ``trained``.

        ``corrects``: whether the rows of the request stay in D_r, with other labels.
        """
        passes = PASSES * (CORRECTING if corrects else 1.0)
        iterations, share, batch = plan.iterations, plan.retain_share, plan.batch or trained
        if plan.batch is None and plan.policy == "counterfactual":
            most = max(LEAST_BATCH, PASSES * retained / LEAST_STEPS)
            batch = min(trained, 2 ** int(math.log2(most)))  # one of _batch_sizes
        if iterations is None:
            wanted = math.ceil(passes * retained / (SUB_STEPS * batch))
            iterations = min(MOST_ITERATIONS, max(LEAST_ITERATIONS, wanted))
        if share is None:
            share = min(1.0, passes / iterations)
        return cls(batch, iterations, retain_steps(share, retained, batch) if share else 0)


def _most_validated(plan: FedoraSettings) -> int | None:
    """The largest number of rows of a validation; None: all, for a threshold or a calibration.

    Both validations read the same rows, so that the standard error of a loss of a few points is
    about one point.
    """
    sampled = plan.policy == "counterfactual" and not plan.calibrate
    return VALIDATED if sampled else None


def _utility(run: VerticalRun, logits: Tensor) -> float:
    """Accuracy on the validation rows of classes that remain in D_r.

    ``logits``, [validated_rows, classes], are of the first validation rows.
    """
    truth = run.labels[run.sets[0].validation[: len(logits)]]
    counted = remaining_classes(run, len(logits))
    return share_correct(logits[counted], truth[counted])


def noise_draws(run: VerticalRun, number: int) -> list[int]:
    """The draw of each model for the noise of the sub-step ``number``, of 63 bits.

    It depends on D_u, so that the next request draws other noise, and a replay the same.
    """
    streams = run.streams(f"noise {number}")
    return [
        torch_seed(run.agreement.seed, stream, sha256(sets.forgotten.tobytes()).hexdigest())
        for stream, sets in zip(streams, run.sets, strict=True)
    ]


class _Iteration:
    """One iteration of FedORA."""

    def __init__(self, run: VerticalRun, state: FedOraState, k: int) -> None:
        self._run, self._plan, self._k = run, run.settings(FedoraSettings), k
        self._before, self._schedule = state, Schedule.of_run(run)
        self._sub_steps = self._schedule.sub_steps
        self._duals, self._steps = list(state.duals), list(state.steps)
        self._retain_batches, self._sent = state.retain_batches, state.sent
        self._largest = list(state.largest) or [NEGLIGIBLE] * len(state.duals)
        self._scores = torch.zeros(len(run.sets), dtype=torch.float64)
        self._losses: list[float] = []
        self._norms: list[Norms] = []

    def run(self) -> tuple[FedOraState, StepRecord]:
        """Hold g_u, ascend the dual, take the primal sub-steps, and validate if it is due."""
        self._run.run_batches(chain(self._forget_requests(), self._retain_requests()), self._act)
        if not self._sub_steps and self._run.finite:  # δ = 0
            self._update_duals(self._run.norms())
            self._run.primal_step(self._primal_steps(0))
        progress = self._progress()
        decision, accuracy, passed = stopping_decision(progress, self._limits), None, None
        last = self._k + 1 >= self._schedule.iterations
        ends = last or (decision.stops and self._run.stops_early)
        if progress.finite and (ends or self._is_due):
            logits = self._run.logits(vfl_pb2.VALIDATION, _most_validated(self._plan))
            accuracy = _utility(self._run, logits[0])
            validated = self._validated(progress, logits, accuracy)
            decision = stopping_decision(validated, self._limits)
            passed = not decision.rolls_back and accuracy >= self._before.floor
        if not self._run.stops_early:
            decision = Decision.OUT_OF_ITERATIONS if last else Decision.CONTINUE
        after = replace(
            self._before,
            duals=self._duals,
            steps=self._steps,
            scores=self._scores.tolist(),
            retain_batches=self._retain_batches,
            decision=decision,
            passed=self._before.passed if passed is None else passed,
            sent=self._sent,
            largest=self._largest,
            active=self._before.active + self._share(lambda dual: dual.multiplier > 0),
            at_maximum=self._before.at_maximum
            + self._share(lambda dual: 0 < dual.maximum <= dual.multiplier),
        )
        return after, StepRecord(self._record(accuracy), good=bool(passed))

    @property
    def _is_due(self) -> bool:
        """Whether to validate the model before the last iteration.

        A run with annealed steps is judged after its last iteration alone, so it exchanges no
        validation rows before, unless the policy ``present`` needs them for its threshold.
        """
        if self._plan.anneal is not None and self._plan.policy != "present":
            return False
        return (self._k + 1) % self._plan.check_every == 0

    def _share(self, holds: Callable[[Dual], bool]) -> float:
        """The fraction of the duals of which ``holds`` is true."""
        return sum(map(holds, self._duals)) / len(self._duals)

    @property
    def _limits(self) -> StoppingLimits:
        return StoppingLimits(
            iterations=self._schedule.iterations,
            utility_floor=self._before.floor,
            shortfall=self._plan.tolerance,
            change=self._plan.tolerance,
        )

    def _act(self, batch: Batch) -> Loss:
        if batch.request.rows == vfl_pb2.FORGOTTEN:
            return self._score_loss(batch)
        if not self._losses:
            self._update_duals(batch.norms())
        loss, steps = batch.loss(), self._primal_steps(len(self._losses))
        self._losses.append(loss.detach().mean().item())
        return Loss(loss, [vfl_pb2.Gradient(primal_step=each) for each in steps])

    def _forget_requests(self) -> Iterator[vfl_pb2.BatchRequest]:
        """Requests for all of D_u, or for one fresh mini-batch of it."""
        size = self._plan.score_rows
        if size is None or size >= self._run.row_count(vfl_pb2.FORGOTTEN):
            yield from self._run.pass_requests(vfl_pb2.FORGOTTEN)
        else:
            yield from islice(self._run.epoch_requests(vfl_pb2.FORGOTTEN, self._k + 1, size), 1)

    def _retain_requests(self) -> Iterator[vfl_pb2.BatchRequest]:
        """Requests for the batches of the next sub-steps; they pass over D_r epoch after epoch."""
        size = self._schedule.batch
        per_epoch = math.ceil(self._run.row_count(vfl_pb2.RETAIN) / size)
        for _ in range(self._sub_steps):
            epoch, index = divmod(self._retain_batches, per_epoch)
            self._retain_batches += 1
            yield vfl_pb2.BatchRequest(
                rows=vfl_pb2.RETAIN,
                order=vfl_pb2.SHUFFLED,
                epoch=epoch + 1,
                size=size,
                index=index,
            )

    def _score_loss(self, batch: Batch) -> Loss:
        """S_u, whose gradient is held: a mean over D_u or over the mini-batch."""
        whole = batch.request.order == vfl_pb2.BY_INDEX
        count = self._run.row_count(vfl_pb2.FORGOTTEN) if whole else batch.rows.shape[1]
        means = batch.sums(row_scores(self._run, self._before.targets, batch)) / count
        self._scores += means.detach()
        if batch.rows.shape[1] == count and self._sends_if_violated:
            means = means * self._needed(means.detach())
        return Loss(means, HOLD)

    @property
    def _sends_if_violated(self) -> bool:
        """Whether a gradient of D_u, which may reveal labels, is sent only if a dual uses it."""
        return self._plan.form != "paper" and self._plan.dual == "scalar"

    def _needed(self, scores: Tensor) -> Tensor:
        """1 for each model whose dual is above 0, or will be with these ``scores``; else 0, [N]."""
        wanted = [
            dual.maximum > 0
            and (dual.multiplier > 0 or self._used(n, score) < self._threshold(n, score))
            for n, (dual, score) in enumerate(zip(self._duals, scores.tolist(), strict=True))
        ]
        return torch.tensor(wanted, dtype=scores.dtype)

    def _threshold(self, model: int, score: float) -> float:
        """γ of a model; the ``score`` of the first iteration sets the counterfactual one."""
        targets = self._before.targets
        if targets is None or self._k:
            return self._duals[model].threshold
        least = max(NEGLIGIBLE, UNLEARNED * targets.unlearned[model])
        return -min(max(least, -self._plan.epsilon * score), LARGEST_EPSILON)

    def _dual_step(self, model: int) -> float:
        """σ of a model; the counterfactual one is relative to the largest divergence so far."""
        steps = self._steps[model]
        if not self._relative:
            return steps.dual
        return min(steps.dual / self._largest[model], steps.dual_bound)

    @property
    def _relative(self) -> bool:
        """Whether ε and σ are relative to the divergence from counterfactual targets."""
        return self._before.targets is not None

    def _used(self, model: int, score: float) -> float:
        """The score that the dual of a model uses: ``score``, or its extrapolation."""
        before = self._before.scores[model] if self._k else None
        return extrapolated_score(score, before) if self._plan.extrapolate else score

    def _update_duals(self, norms: list[Norms]) -> None:
        """Dual ascent and step sizes from the norms of all blocks (Eq. 20, 30-33)."""
        if self._k == 0:
            self._sent = self._run.sent_gradients
        self._norms = norms
        scores = self._scores.tolist()
        if self._relative:
            pairs = zip(self._largest, scores, strict=True)
            self._largest = [max(before, -score) for before, score in pairs]
        for n, (score, norm) in enumerate(zip(scores, norms, strict=True)):
            steps = self._steps[n].adapt(norm.change) if self._k else self._steps[n]
            self._steps[n] = steps.with_gradient(norm.held)
            dual = replace(self._duals[n], threshold=self._threshold(n, score))
            self._duals[n] = dual.ascend(self._used(n, score), self._dual_step(n))

    def _primal_steps(self, place: int) -> list[vfl_pb2.PrimalStep]:
        """τ of one sub-step, with Ω, or with what a party needs to compute its literal dual."""
        factor, count = 1.0, max(1, self._sub_steps)
        if self._plan.anneal:
            done = self._k * count + place
            factor = self._plan.anneal.factor(done / (self._schedule.iterations * count))
        pairs = zip(self._duals, self._steps, strict=True)
        found = [self._primal_step(dual, steps, factor, place) for dual, steps in pairs]
        if self._plan.noise:
            number = self._k * count + place
            for step, draw in zip(found, noise_draws(self._run, number), strict=True):
                deviation = self._plan.noise * step.step_size
                step.noise.CopyFrom(vfl_pb2.PrimalNoise(deviation=deviation, draw=draw))
        return found

    def _primal_step(
        self, dual: Dual, steps: StepSizes, factor: float, place: int
    ) -> vfl_pb2.PrimalStep:
        size = steps.primal * factor
        if self._plan.dual == "scalar":
            return vfl_pb2.PrimalStep(step_size=size, multiplier=dual.multiplier)
        literal = vfl_pb2.LiteralDual(
            step_size=None if place else steps.dual,
            threshold=dual.threshold,
            max=self._plan.max_multiplier,
        )
        return vfl_pb2.PrimalStep(step_size=size, literal=literal)

    def _progress(self) -> IterationProgress:
        """What ``stopping_decision`` needs to know about an iteration."""
        score, change = self._scores[0].item(), self._change
        return IterationProgress(
            iteration=self._k,
            finite=self._run.finite and all(map(math.isfinite, [score, *self._losses])),
            shortfall=self._duals[0].threshold - score,
            change=change or 0.0,
        )

    @property
    def _change(self) -> float | None:
        """‖ΔΘ‖ of the iteration before; None in the first iteration."""
        return math.sqrt(self._norms[0].change) if self._k and self._norms else None

    def _validated(
        self, progress: IterationProgress, logits: list[Tensor], accuracy: float
    ) -> IterationProgress:
        """The progress of a validated model; the policy ``present`` sets γ again."""
        if self._run.finite and self._plan.policy == "present":
            levels = map(min, self._before.limits, heldout_gammas(self._run, logits))
            pairs = zip(self._duals, levels, strict=True)
            self._duals = [replace(dual, threshold=level) for dual, level in pairs]
        return replace(
            progress,
            finite=self._run.finite,
            utility=accuracy,
            # The small steps at the end of an annealed schedule make up for the large ones.
            recovering=self._plan.anneal is not None or not self._before.passed,
        )

    def _record(self, accuracy: float | None) -> dict[str, Any]:
        """The values of this iteration for the report, of the first model."""
        dual, steps = self._duals[0], self._steps[0]
        held = self._norms[0].held if self._norms else 0.0
        mean = sum(self._losses) / len(self._losses) if self._losses else None
        return {
            "iteration": self._k,
            "forgetting": self._scores[0].item(),
            "multiplier": dual.multiplier if self._plan.dual == "scalar" else None,
            "threshold": (self._duals if self._relative else self._before.duals)[0].threshold,
            "primal_step": self._primal_steps(0)[0].step_size,
            "dual_step": self._dual_step(0),
            "dual_bound": steps.dual_bound if math.isfinite(steps.dual_bound) else None,
            "gradient_norm": math.sqrt(held),
            "retain_loss": mean,
            "change": self._change,
            "validation_accuracy": accuracy,
        }


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


def choose_thresholds(run: VerticalRun, original: Sequence[Tensor]) -> tuple[str, list[float]]:
    """The policy that set the thresholds, and the threshold γ of each model.

    Args:
        run: the models.
        original: [validation_rows, classes], the logits of each original model.

    Raises:
        PolicyError: the policy needs validation rows of the classes that occur in D_u, but there
            are no such validation rows.
    """
    plan, classes = run.settings(FedoraSettings), len(run.agreement.labels.classes)
    if plan.policy == "counterfactual":
        return "counterfactual", [-plan.epsilon] * len(original)
    if plan.policy == "uniform":
        gamma = thresholds.uniform_threshold(classes, plan.weight)
        return "uniform", [gamma] * len(original)
    if plan.policy == "proxy":
        logits = _reference(run)
        if run.finite:
            scores = [forgetting_scores(each, plan.weight) for each in logits]
            # On a tenth of the rows a model is less sure of D_u than Retrain is (decision 16).
            settings = (classes, plan.weight, plan.entropy_factor)
            return "proxy", [thresholds.proxy_threshold(each, *settings) for each in scores]
        run.progress.warn("the reference model diverged; the threshold is 'heldout'")
    levels = heldout_gammas(run, original)
    return ("present" if plan.policy == "present" else "heldout"), levels


def _reference(run: VerticalRun) -> list[Tensor]:
    """Logits on D_u, [forgotten, classes], of models trained on a fixed sample of D_r."""
    plan, training = run.settings(FedoraSettings), run.agreement.training
    run.initialise("reference", vfl_pb2.SAMPLE, *_reference_start(plan, training))
    size = plan.reference_batch
    batches = -(-run.row_count(vfl_pb2.SAMPLE) // size)
    run.progress.phase("reference", plan.reference_epochs * (batches + 1))
    for number in range(1, plan.reference_epochs + 1):
        work = partial(train_epoch, run, vfl_pb2.SAMPLE, number, size=size)
        run.once(f"reference, epoch {number}", float, work)
        if not run.finite:
            break
    read = partial(run.logits, vfl_pb2.FORGOTTEN)
    return run.once("outputs of the reference", list[Tensor], read)


def heldout_gammas(run: VerticalRun, logits: Sequence[Tensor]) -> list[float]:
    """γ of each model from its ``logits``, [validation_rows, classes].

    The validation rows are weighted to the class mix of D_u.

    Raises:
        PolicyError: no validation row has a class of D_u.
    """
    plan, classes = run.settings(FedoraSettings), len(run.agreement.labels.classes)
    gammas = []
    for own, rows in zip(logits, run.sets, strict=True):
        compared = min(len(rows.forgotten), plan.score_rows or len(rows.forgotten))
        truth, forgotten = run.labels[rows.validation], run.labels[rows.forgotten]
        scores = forgetting_scores(own, plan.weight)
        try:
            level = thresholds.class_matched_level(scores, truth, forgotten, compared)
        except ValueError as error:
            raise PolicyError(
                "no validation row has a class of the forgotten rows", "raise split.validation"
            ) from error
        gammas.append(thresholds.heldout_threshold(level, classes, plan.weight, plan.margin))
    return gammas


def calibrate_top(run: VerticalRun, original: Sequence[Tensor]) -> float | None:
    """Scale the logits to restore the original model's confidence on validation rows.

    The confidence is the median log-odds of the predicted class. Only validation rows of unaffected
    classes are used; a class is unaffected if it has no forgotten row. On the other classes,
    Retrain is less confident than the original model.

    Args:
        run: the models.
        original: [validation_rows, classes], the logits of each original model.

    Returns:
        The factor by which the logits of the first model are multiplied. The result is None if no
        validation row has an unaffected class, or if ``fedora.calibrate`` is off. It is also None
        if ``top.kind`` is ``'sum'``, because this top model cannot scale logits.
    """
    chosen = [_unaffected(run.labels, rows) for rows in run.sets]
    is_mlp = isinstance(run.agreement.top, MlpTop)
    if not (run.settings(FedoraSettings).calibrate and is_mlp and all(map(torch.any, chosen))):
        return None
    factors = run.once("calibration", list[float], partial(_calibrate, run, original, chosen))
    return factors[0]


def _unaffected(labels: Tensor, rows: RowSets) -> Tensor:
    """Which validation rows are of a class without a forgotten row, [validation_rows]."""
    return ~torch.isin(labels[rows.validation], torch.unique(labels[rows.forgotten]))


def _calibrate(
    run: VerticalRun, original: Sequence[Tensor], chosen: Sequence[Tensor]
) -> list[float]:
    present = run.logits(vfl_pb2.VALIDATION)
    if not run.finite:
        return [1.0] * len(present)
    triples = zip(present, original, chosen, strict=True)
    factors = [calibration_factor(now[rows], then[rows]) for now, then, rows in triples]
    run.scale_logits(factors)
    return factors
