"""FedORA for several parties; the active party computes the dual and the step sizes (Alg. 1, 2).

Notation of the paper (arXiv 2512.23171): S_u = mean forgetting score on D_u, g_u = its gradient, γ
= threshold, Ω = dual, τ and σ = primal and dual step size, L_r = loss on retained rows, ρ = weight
of the proximal term, δ = fraction of D_r per iteration.
"""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import chain, islice
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from configs.agreement import MlpTop, TrainingSettings
from configs.unlearning import FedoraSettings
from models.tops import ConcatHead
from parties.common.errors import PolicyError
from parties.vertical.engine.local_model import EARLY_CHECKPOINT, NEXT_EARLY_CHECKPOINT, ORIGINAL
from parties.vertical.engine.networks import ActiveNetwork
from parties.vertical.engine.split_model import FRESH_TOP, ShrinkShares, SplitModel
from parties.vertical.engine.train import (
    HOLD,
    LAST_FINITE,
    TrainingPlan,
    share_correct,
    train_epochs,
)
from parties.vertical.engine.training_loop import BatchLoss, SentGradients, TrainingBatch
from parties.vertical.methods.kkt import ANCHOR, kkt_report
from parties.vertical.methods.method import MethodResult, Threshold
from protocol import vfl_pb2
from unlearning import thresholds
from unlearning.calibration import calibration_factor
from unlearning.guarantee import Guarantee
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


@dataclass(frozen=True, slots=True)
class FedOraStart:
    """The values that FedORA computes before the first iteration.

    Attributes:
        threshold: γ, the threshold on the forgetting score.
        accuracy: the original model's accuracy on the validation rows.
        original: [validation_rows, classes], the original model's logits.
    """

    threshold: Threshold
    accuracy: float
    original: Tensor


@dataclass(frozen=True, slots=True)
class FedOraIteration:
    """The record of one outer iteration.

    Attributes:
        iteration: number of the iteration, from 0.
        forgetting: S_u.
        multiplier: the dual Ω; None for the literal dual, which has one Ω per element.
        threshold: γ, the threshold on the forgetting score.
        primal_step: the primal step size τ of the first sub-step.
        dual_step: σ.
        dual_bound: upper bound of the dual step size σ; None if all gradients were zero.
        gradient_norm: ‖g_u‖.
        retain_loss: mean L_r over the sub-steps; None for δ = 0.
        change: ‖ΔΘ‖, the norm of the change of the parameters; None until the next iteration.
        validation_accuracy: None if the model was not validated.
    """

    iteration: int
    forgetting: float
    multiplier: float | None
    threshold: float
    primal_step: float
    dual_step: float
    dual_bound: float | None
    gradient_norm: float
    retain_loss: float | None
    change: float | None = None
    validation_accuracy: float | None = None


@dataclass(frozen=True, slots=True)
class FedOraResult:
    """The result of a FedORA run.

    Attributes:
        iterations: the records of all iterations.
        decision: why the run stopped.
        sent_gradients: the gradients of S_u that were sent for the last batch of D_u in the first
            iteration.
        gamma: the threshold γ at the end of the run.
    """

    iterations: list[FedOraIteration]
    decision: Decision
    sent_gradients: SentGradients
    gamma: float

    @property
    def multiplier(self) -> float | None:
        """The dual Ω at the end of the run; None for the literal dual, or if no iteration ran."""
        return self.iterations[-1].multiplier if self.iterations else None


@dataclass(frozen=True, slots=True)
class FedOraState:
    """The state after an iteration that the next iteration needs in addition to the parameters.

    Attributes:
        dual: Ω and γ.
        steps: τ and σ.
        retain_batches: number of batches of D_r used so far.
        iterations: number of iteration records so far.
        newest: the records of the last two iterations.
        decision: whether the run stops after this iteration, and why.
        validated: whether this iteration validated the model.
        passed: whether the model passed its last validation; false before the first validation,
            unless FedORA starts from the original model.
        sent_gradients: the gradients of S_u that the active party sent in the first iteration; None
            in later iterations.
    """

    dual: Dual
    steps: StepSizes
    retain_batches: int
    iterations: int
    newest: list[FedOraIteration]
    decision: Decision
    validated: bool
    passed: bool
    sent_gradients: SentGradients | None


@dataclass(frozen=True, slots=True)
class FedOraMethod:
    """FedORA: raise the forgetting score on D_u to γ, and keep the loss on D_r low."""

    name: str = "fedora"
    guarantee: Guarantee = Guarantee.HEURISTIC

    def run(self, split_model: SplitModel) -> MethodResult:
        """Compute the threshold γ, then run the iterations."""
        start = split_model.once("start of fedora", FedOraStart, lambda: _start(split_model))
        split_model.restore_copy(ORIGINAL, ORIGINAL, vfl_pb2.UNLEARN)
        result = run_fedora(split_model, start.threshold.gamma, start.accuracy)
        factor = calibrate_top(split_model, start.original)
        return MethodResult(
            fedora_variant(split_model.agreement.unlearning.fedora) | {"calibration": factor},
            iterations=[asdict(each) for each in result.iterations],
            stopped=result.decision.value,
            threshold=replace(start.threshold, gamma=result.gamma),
            sent_gradients=result.sent_gradients,
            audit=partial(_audit, split_model, result.gamma, result.multiplier),
        )


def _audit(split_model: SplitModel, gamma: float, multiplier: float | None) -> dict[str, Any]:
    """The KKT report; it is not part of the cost, because it changes nothing."""
    return {"kkt": kkt_report(split_model, gamma, multiplier)}


def _start(split_model: SplitModel) -> FedOraStart:
    read = partial(split_model.logits, vfl_pb2.VALIDATION)
    original = split_model.once("original on validation rows", Tensor, read, durable=False)
    return FedOraStart(
        choose_threshold(split_model, original), _utility(split_model, original), original
    )


def _utility(split_model: SplitModel, logits: Tensor) -> float:
    """Accuracy on the validation rows of classes that remain in D_r.

    ``logits``, [validation_rows, classes], are of all validation rows. Rows of a class that is
    forgotten as a whole do not count, because the model should not predict them.
    """
    rows, labels = split_model.rows, split_model.labels
    truth = labels[rows.validation]
    remaining = torch.isin(truth, torch.unique(labels[rows.retain]))
    counted = remaining if bool(remaining.any()) else torch.ones_like(remaining)
    return share_correct(logits[counted], truth[counted])


def run_fedora(split_model: SplitModel, gamma: float, accuracy: float) -> FedOraResult:
    """Run FedORA on the current model.

    Args:
        split_model: the model.
        gamma: the threshold γ.
        accuracy: the original model's accuracy on the validation rows.
    """
    return _Run(split_model, gamma, accuracy).run()


class _Run:
    """One run of FedORA, with its state between iterations."""

    def __init__(self, split_model: SplitModel, gamma: float, accuracy: float) -> None:
        self._split_model, self._plan = split_model, split_model.agreement.unlearning.fedora
        maximum = self._plan.max_multiplier if self._plan.score else 0.0
        self._largest_gamma, classes = gamma, len(split_model.agreement.labels.classes)
        if self._plan.policy == "present":  # until the first validation
            gamma = lowest_threshold(classes, self._plan.weight)
        self._dual = Dual(threshold=gamma, maximum=maximum)
        self._steps = fedora_step_sizes(self._plan, split_model.agreement.training)
        floor = accuracy - self._plan.utility_loss
        self._limits = StoppingLimits(
            iterations=self._plan.iterations,
            utility_floor=max(0.0, floor),
            shortfall=self._plan.tolerance,
            change=self._plan.tolerance,
        )
        retained = len(split_model.rows.retain)
        self._batch = self._plan.batch or split_model.agreement.training.batch
        self._per_epoch = math.ceil(retained / self._batch)
        share = self._plan.retain_share
        self._sub_steps = retain_steps(share, retained, self._batch) if share else 0
        self._iterations: list[FedOraIteration] = []
        self._sent_gradients = SentGradients(split_model.rows.forgotten[:0], {})
        self._retain_batches = 0  # until now
        self._passed = self._plan.start == "original"

    def run(self) -> FedOraResult:
        """Iterate until ``stopping_decision`` stops; after a failure restore a good model."""
        split_model = self._split_model
        split_model.party.progress.phase("fedora", self._plan.iterations * (self._sub_steps + 1))
        split_model.keep_copy(LAST_FINITE, vfl_pb2.UNLEARN)
        self._move_to_start()
        if self._plan.proximal:
            split_model.keep_copy(ANCHOR, vfl_pb2.UNLEARN)
        early = math.ceil(self._plan.rewind * self._plan.iterations)
        for k in range(self._plan.iterations):
            state = split_model.once(
                f"fedora, iteration {k + 1}", FedOraState, partial(self._run_iteration, k)
            )
            self._set_state(state)
            if self._plan.start == "rewind" and k + 1 == early:
                split_model.keep_copy(NEXT_EARLY_CHECKPOINT, vfl_pb2.UNLEARN)
            if state.validated and state.passed:
                split_model.keep_copy(LAST_FINITE, vfl_pb2.UNLEARN)
            if state.decision.stops:
                break
        if state.decision.rolls_back:
            split_model.restore_copy(LAST_FINITE, split_model.stream, vfl_pb2.UNLEARN)
            ending = f"FedORA ended with {state.decision.value!r}"
            split_model.party.progress.warn(f"{ending}: {ROLLED_BACK}")
        if self._plan.start == "rewind" and k + 1 < early:
            split_model.keep_copy(
                NEXT_EARLY_CHECKPOINT, vfl_pb2.UNLEARN
            )  # the start of the next request
        split_model.drop_copy(LAST_FINITE, vfl_pb2.UNLEARN)
        gamma = self._dual.threshold
        return FedOraResult(self._iterations, state.decision, self._sent_gradients, gamma)

    def _move_to_start(self) -> None:
        """Restore or make the start model, which is also θ₀ of the proximal term."""
        match self._plan.start:
            case "rewind":
                split_model = self._split_model
                split_model.restore_copy(EARLY_CHECKPOINT, split_model.stream, vfl_pb2.UNLEARN)
            case "fresh-top":
                self._split_model.shrink(FRESH_TOP, START, vfl_pb2.UNLEARN)
            case "shrink":
                shares = ShrinkShares.agreed(self._plan.shrink, self._plan.shrink_top)
                self._split_model.shrink(shares, START, vfl_pb2.UNLEARN)

    def _run_iteration(self, k: int) -> FedOraState:
        """Run one iteration, and validate the model if it is due."""
        progress = self._iterate(k)
        decision = stopping_decision(progress, self._limits)
        last = decision.stops or (k + 1) % self._plan.check_every == 0
        looked = progress.finite and last
        if looked:
            validated = self._validate(progress)
            decision = stopping_decision(validated, self._limits)
            self._passed = not decision.rolls_back and self._is_useful(validated)
        return FedOraState(
            dual=self._dual,
            steps=self._steps,
            retain_batches=self._retain_batches,
            iterations=len(self._iterations),
            newest=self._iterations[-2:],
            decision=decision,
            validated=looked,
            passed=self._passed,
            sent_gradients=None if k else self._sent_gradients,
        )

    def _set_state(self, state: FedOraState) -> None:
        """Use the state after an iteration, which ran now or before a crash."""
        self._dual, self._steps, self._retain_batches = (
            state.dual,
            state.steps,
            state.retain_batches,
        )
        self._passed = state.passed
        self._sent_gradients = state.sent_gradients or self._sent_gradients
        older = self._iterations[: state.iterations - len(state.newest)]
        self._iterations = [*older, *state.newest]

    def _iterate(self, k: int) -> IterationProgress:
        """One outer iteration: hold g_u, ascend the dual, and take the primal sub-steps."""
        split_model, score, losses = self._split_model, [0.0], list[float]()

        def act(batch: TrainingBatch) -> BatchLoss:
            if batch.request.rows == vfl_pb2.FORGOTTEN:
                return self._score_loss(batch, score)
            first = not losses
            if first:
                self._update_dual(k, score[0], batch.reports)
            loss = cross_entropy(batch.logits, batch.labels)
            order = self._primal_step(k, len(losses))
            losses.append(loss.item())
            return BatchLoss(loss, vfl_pb2.Gradient(primal_step=order))

        split_model.loop.run_batches(
            vfl_pb2.UNLEARN, chain(self._forget_requests(k), self._retain_requests()), act
        )
        if not self._sub_steps and not split_model.diverged:  # δ = 0
            self._update_dual(k, score[0], split_model.report_norms(vfl_pb2.UNLEARN))
            split_model.primal_step(self._primal_step(k, 0), vfl_pb2.UNLEARN)
        return self._progress(k, score[0], losses)

    def _forget_requests(self, k: int) -> Iterator[vfl_pb2.BatchRequest]:
        """Requests for all of D_u, or for one fresh mini-batch of it."""
        size = self._plan.score_rows
        if size is None or size >= len(self._split_model.rows.forgotten):
            yield from self._split_model.loop.pass_requests(vfl_pb2.FORGOTTEN)
        else:
            yield from islice(
                self._split_model.loop.epoch_requests(vfl_pb2.FORGOTTEN, k + 1, size), 1
            )

    def _retain_requests(self) -> Iterator[vfl_pb2.BatchRequest]:
        """Requests for the batches of the next sub-steps; they pass over D_r epoch after epoch."""
        for _ in range(self._sub_steps):
            epoch, index = divmod(self._retain_batches, self._per_epoch)
            self._retain_batches += 1
            yield vfl_pb2.BatchRequest(
                rows=vfl_pb2.RETAIN,
                order=vfl_pb2.SHUFFLED,
                epoch=epoch + 1,
                size=self._batch,
                index=index,
            )

    def _score_loss(self, batch: TrainingBatch, score: list[float]) -> BatchLoss:
        """S_u, whose gradient is held: a mean over D_u or over the mini-batch."""
        whole = batch.request.order == vfl_pb2.BY_INDEX
        count = len(self._split_model.rows.forgotten) if whole else len(batch.rows)
        mean = forgetting_scores(batch.logits, self._plan.weight).sum() / count
        score[0] += mean.item()
        return BatchLoss(mean, HOLD)

    def _update_dual(self, k: int, score: float, reports: list[vfl_pb2.BlockReport]) -> None:
        """Dual ascent and step sizes from the norms of all blocks (Eq. 20, 30-33)."""
        reports = [*reports, self._split_model.local_model.report()]
        if k == 0:
            self._sent_gradients = self._split_model.loop.sent_gradients
        else:
            change = sum(report.change_square for report in reports)
            self._iterations[-1] = replace(self._iterations[-1], change=math.sqrt(change))
            self._steps = self._steps.adapt(change)
        held = sum(report.held_square for report in reports)
        self._steps = self._steps.with_gradient(held)
        previous = self._iterations[-1].forgetting if self._iterations else None
        extrapolated = extrapolated_score(score, previous) if self._plan.extrapolate else score
        self._dual = self._dual.ascend(extrapolated, self._steps.dual)
        bound = self._steps.dual_bound
        self._iterations.append(
            FedOraIteration(
                iteration=k,
                forgetting=score,
                multiplier=self._dual.multiplier if self._plan.dual == "scalar" else None,
                threshold=self._dual.threshold,
                primal_step=self._primal_step(k, 0).step_size,
                dual_step=self._steps.dual,
                dual_bound=bound if math.isfinite(bound) else None,
                gradient_norm=math.sqrt(held),
                retain_loss=None,
            )
        )

    def _primal_step(self, k: int, place: int) -> vfl_pb2.PrimalStep:
        """τ of one sub-step, with Ω, or with what a party needs to compute its literal dual."""
        step, count = self._steps.primal, max(1, self._sub_steps)
        if self._plan.anneal:
            step *= self._plan.anneal.factor((k * count + place) / (self._plan.iterations * count))
        if self._plan.dual == "scalar":
            return vfl_pb2.PrimalStep(step_size=step, multiplier=self._dual.multiplier)
        literal = vfl_pb2.LiteralDual(
            step_size=None if place else self._steps.dual,
            threshold=self._dual.threshold,
            max=self._plan.max_multiplier,
        )
        return vfl_pb2.PrimalStep(step_size=step, literal=literal)

    def _progress(self, k: int, score: float, losses: list[float]) -> IterationProgress:
        """What ``stopping_decision`` needs to know about an iteration."""
        finite = not self._split_model.diverged and all(map(math.isfinite, [score, *losses]))
        change = self._iterations[-2].change if len(self._iterations) > 1 else None
        if finite and losses:
            mean = sum(losses) / len(losses)
            self._iterations[-1] = replace(self._iterations[-1], retain_loss=mean)
        shortfall = self._dual.threshold - score
        return IterationProgress(
            iteration=k, finite=finite, shortfall=shortfall, change=change or 0.0
        )

    def _validate(self, progress: IterationProgress) -> IterationProgress:
        """Validate the model, which also shows whether all numbers are finite."""
        split_model = self._split_model
        logits = split_model.logits(vfl_pb2.VALIDATION, vfl_pb2.UNLEARN)
        accuracy = _utility(split_model, logits)
        self._iterations[-1] = replace(self._iterations[-1], validation_accuracy=accuracy)
        finite = not split_model.diverged
        if finite and self._plan.policy == "present":
            level = min(self._largest_gamma, heldout_gamma(split_model, logits))
            self._dual = replace(self._dual, threshold=level)
        return replace(progress, finite=finite, utility=accuracy, recovering=not self._passed)

    def _is_useful(self, progress: IterationProgress) -> bool:
        return progress.utility is not None and progress.utility >= self._limits.utility_floor


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


def choose_threshold(split_model: SplitModel, original: Tensor) -> Threshold:
    """Compute the threshold γ with the policy of the agreement.

    Args:
        split_model: the model.
        original: [validation_rows, classes], the original model's logits.

    Raises:
        PolicyError: the policy needs validation rows of the classes that occur in D_u, but there
            are no such validation rows.
    """
    plan, classes = (
        split_model.agreement.unlearning.fedora,
        len(split_model.agreement.labels.classes),
    )
    if plan.policy == "uniform":
        return Threshold(thresholds.uniform_threshold(classes, plan.weight), "uniform")
    if plan.policy == "proxy":
        logits = _reference(split_model)
        if not split_model.diverged:
            scores = forgetting_scores(logits, plan.weight)
            # On a tenth of the rows a model is less sure of D_u than Retrain is (decision 16).
            gamma = thresholds.proxy_threshold(scores, classes, plan.weight, plan.entropy_factor)
            return Threshold(gamma, "proxy")
        split_model.party.progress.warn("the reference model diverged; the threshold is 'heldout'")
    level = heldout_gamma(split_model, original)
    return Threshold(level, "present" if plan.policy == "present" else "heldout")


def _reference(split_model: SplitModel) -> Tensor:
    """Logits on D_u, [forgotten, classes], of a model trained on a fixed sample of D_r."""
    split_model.initialise("reference", vfl_pb2.REFERENCE_SAMPLE, vfl_pb2.REFERENCE)
    plan = split_model.agreement.unlearning.fedora
    shares = (plan.reference_epochs, plan.reference_batch)
    train_epochs(
        split_model, TrainingPlan("reference", vfl_pb2.REFERENCE, vfl_pb2.REFERENCE_SAMPLE, *shares)
    )
    return split_model.logits(vfl_pb2.FORGOTTEN, vfl_pb2.REFERENCE)


def heldout_gamma(split_model: SplitModel, logits: Tensor) -> float:
    """γ from ``logits``, [validation_rows, classes], weighted to the class mix of D_u.

    Raises:
        PolicyError: no validation row has a class of D_u.
    """
    rows, labels = split_model.rows, split_model.labels
    plan, classes = (
        split_model.agreement.unlearning.fedora,
        len(split_model.agreement.labels.classes),
    )
    compared = min(len(rows.forgotten), plan.score_rows or len(rows.forgotten))
    scores = forgetting_scores(logits, plan.weight)
    try:
        level = thresholds.class_matched_level(
            scores, labels[rows.validation], labels[rows.forgotten], compared
        )
    except ValueError as error:
        raise PolicyError(
            "no validation row has a class of the forgotten rows", "raise split.validation"
        ) from error
    return thresholds.heldout_threshold(level, classes, plan.weight, plan.margin)


def calibrate_top(split_model: SplitModel, original: Tensor) -> float | None:
    """Scale the logits to restore the original model's confidence on validation rows.

    Only validation rows of unaffected classes are used; a class is unaffected if it has no
    forgotten row. On the other classes, Retrain is less confident than the original model.

    Args:
        split_model: the model.
        original: [validation_rows, classes], the original model's logits.

    Returns:
        The factor by which the logits are multiplied. The result is None if no validation row has
        an unaffected class, or if ``fedora.calibrate`` is off. It is also None if ``top.kind`` is
        ``'sum'``, because this top model cannot scale logits.
    """
    plan, rows = split_model.agreement.unlearning.fedora, split_model.rows
    labels = split_model.labels
    unaffected = ~torch.isin(labels[rows.validation], torch.unique(labels[rows.forgotten]))
    is_mlp = isinstance(split_model.agreement.top, MlpTop)
    if not (plan.calibrate and unaffected.any() and is_mlp):
        return None
    work = partial(_calibrate, split_model, original, unaffected)
    return split_model.once("calibration", float, work)


def _calibrate(split_model: SplitModel, original: Tensor, chosen: Tensor) -> float:
    present = split_model.logits(vfl_pb2.VALIDATION, vfl_pb2.UNLEARN)
    if split_model.diverged:
        return 1.0
    margin = split_model.agreement.unlearning.fedora.margin
    factor = calibration_factor(present[chosen], original[chosen], margin)
    top = cast(ActiveNetwork, split_model.local_model.model.network).top
    cast(ConcatHead, top).scale_logits(factor)
    return factor
