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
from typing import Any, ClassVar, Final

import numpy as np
import torch
from torch import Tensor

from configs.agreement import TrainingSettings, VerticalAgreement
from configs.local_start import LocalStartSettings
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
from parties.vertical.engine.train import share_correct
from parties.vertical.engine.training_loop import HOLD, SentGradients
from parties.vertical.methods.counterfactual import (
    LEARNED,
    REFERENCE,
    SAMPLED,
    CounterfactualTargets,
    find_targets,
    remaining_classes,
)
from parties.vertical.methods.fedora_settings import (
    FedoraSettings,
    fedora_step_sizes,
    fedora_variant,
)
from parties.vertical.methods.fedora_thresholds import (
    calibrate_top,
    choose_thresholds,
    heldout_gammas,
    reference_start,
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
)
from protocol import vfl_pb2
from unlearning.counterfactual import label_scores, label_shortfalls
from unlearning.objectives import forgetting_scores
from unlearning.primal_dual import Dual, extrapolated_score, retain_steps
from unlearning.step_sizes import StepSizes
from unlearning.stopping import Decision, IterationProgress, StoppingLimits, stopping_decision
from unlearning.thresholds import lowest_threshold

SMALLER_STEP = "try a smaller unlearning.fedora.primal_step or more iterations"
ROLLED_BACK = (
    "all parties restored the last model that passed validation, which may still contain the "
    f"forgotten rows; {SMALLER_STEP}"
)
RESTORED = "no model of FedORA passed validation, so all parties restored the model from before"
REFERENCE_DIVERGED = (
    "FedORA forgets nothing, because its reference models diverged: an embedding or an output is "
    "not finite, or an embedding exceeds limits.magnitude, for example because a forgotten row has "
    "an extreme value; use an exact method, such as retrain-paired"
)
START = "start of fedora"  # random stream of the fresh parameters of a start model
REDRAWN = "redrawn start of fedora"  # random stream of the models of the redrawn start


PASSES = 1.2  # epochs over D_r of all iterations together
CORRECTING = 2.0  # times as many if D_u stays with other labels: learning takes longer
LEAST_ITERATIONS, MOST_ITERATIONS = 8, 64
SUB_STEPS = 6  # most sub-steps with one gradient of D_u: with more, the gradient is too old
LEAST_STEPS, LEAST_BATCH = 64, 8  # sub-steps that the batch leaves, and its least number of rows
NEGLIGIBLE = 1e-3  # nats; a mean divergence up to this needs no forgetting
VALIDATED = 512  # rows of a validation: enough to detect a loss of 5 points of accuracy
# ε over the divergence on validation rows. The targets follow from the model's own outputs, so the
# divergence of another model, such as a Retrain, is larger; twice, if their errors are independent.
UNLEARNED = 2.0
LARGEST_EPSILON = 0.2  # nats: a planted trigger starts at several nats
# ε over the divergence of the rows that the model knows less well than their targets.
NOISE = 0.5


@dataclass(frozen=True, slots=True)
class FedOraState:
    """The state after an iteration in addition to the parameters; lists have an entry per model."""

    policy: str  # the policy that set the thresholds
    # The threshold γ of the policy; an upper limit of γ with the policy ``present``, and with
    # ``counterfactual`` from the second iteration.
    limits: list[float]
    original: list[Tensor]  # [validated_rows, classes], the original model's logits
    duals: list[Dual]  # Ω and γ
    steps: list[StepSizes]  # τ and σ
    floor: float  # lowest accuracy on validation rows at which a model is useful
    # Whether the model passed its last validation; false before the first validation, unless FedORA
    # starts from the original model.
    passed: bool
    kept: bool = False  # whether a model passed a validation, so that a rollback ends at it
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
            fresh=(reference_start(plan, training),) if proxy else (),
            local=_local_starts(plan),
            scales=plan.start == "redrawn",
            batches=tuple(batches),
            passes=_passes(plan),
            shares=(LEARNED,) if plan.policy == "counterfactual" and plan.score else (),
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
        diverged = targets is not None and not (run.finite and targets.usable)
        if diverged:
            run.progress.warn(REFERENCE_DIVERGED)
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
            decision=Decision.NOT_FINITE if diverged else Decision.CONTINUE,
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
        restored = _restored(state, records, stop)
        if stop.restore and records:
            advice = ROLLED_BACK if restored is None else f"{RESTORED}; {SMALLER_STEP}"
            run.progress.warn(f"FedORA ended with {stop.reason!r}: {advice}")
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
            label=_label(plan, constraint, stop),
            iterations=_with_changes(records),
            stopped=stop.reason,
            restored=restored,
            threshold=Threshold(gamma, state.policy),
            sent_gradients=state.sent,
            audit=partial(_audit, run, state, multiplier if scalar else None),
        )


def _restored(state: FedOraState, records: Sequence[JsonObject], stop: Stop) -> str | None:
    """Why all parties have the model from before FedORA; None if they have another one."""
    if not stop.restore or state.kept:
        return None
    return f"{stop.reason}: {RESTORED}" if records else REFERENCE_DIVERGED


def _label(plan: FedoraSettings, constraint: ConstraintUse, stop: Stop) -> Label | None:
    """The name and the remark of the method in the report; None: those of the class."""
    if stop.restore and not constraint.iterations:
        return Label("FedORA", f"not carried out: {stop.reason}")
    return None if plan.dual == "literal" else constraint_label(plan, constraint)


def _audit(run: VerticalRun, state: FedOraState, multiplier: float | None) -> dict[str, Any]:
    """The KKT report; it is not part of the cost, because it changes nothing."""
    plan, gamma = run.settings(FedoraSettings), state.duals[0].threshold
    terms = KktTerms(partial(row_scores, run, state.targets), plan.proximal, plan.tolerance)
    return {"kkt": kkt_report(run, gamma, multiplier, terms)}


def row_scores(run: VerticalRun, found: CounterfactualTargets | None, batch: Batch) -> Tensor:
    """The forgetting score of each row of a batch of D_u, [N * batch].

    With counterfactual targets it is minus the divergence from the target of the row.
    """
    if found is None:
        weight = run.settings(FedoraSettings).weight
        return forgetting_scores(batch.logits.flatten(0, 1), weight)
    return label_scores(*_against_targets(run, found, batch))


def _against_targets(
    run: VerticalRun, found: CounterfactualTargets, batch: Batch
) -> tuple[Tensor, Tensor, Tensor]:
    """The targets and the logits of a batch of D_u, and the labels that the models learned.

    The first two are [N * batch, classes], the labels [N * batch].
    """
    of_models = zip(found.log_targets, run.sets, batch.rows.numpy(), strict=True)
    targets = torch.cat(
        [log_q[np.searchsorted(sets.forgotten, rows)] for log_q, sets, rows in of_models]
    )
    return targets, batch.logits.flatten(0, 1), run.learned_labels[batch.rows].flatten()


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


def _passes(plan: FedoraSettings) -> tuple[int, ...]:
    """Numbers of rows of which the active party asks the outputs, besides whole row sets."""
    samples = SAMPLED if plan.policy == "counterfactual" and plan.score else ()
    return samples if _most_validated(plan) is None else (VALIDATED, *samples)


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
        # The mean divergence of rows that each model knows less well than their targets.
        self._shortfalls = torch.zeros(len(run.sets), dtype=torch.float64)
        self._limits = list(state.limits)  # largest γ of each model
        # Whether each model's gradient of D_u is sent, [N]; None: the scores of its batch decide.
        self._wanted: Tensor | None = None
        self._losses: list[float] = []
        self._norms: list[Norms] = []

    def run(self) -> tuple[FedOraState, StepRecord]:
        """Hold g_u, ascend the dual, take the primal sub-steps, and validate if it is due."""
        forget = list(self._forget_requests())
        undecided = any(dual.multiplier <= 0 for dual in self._duals)
        if len(forget) > 1 and self._sends_if_violated and undecided:
            self._wanted = self._read_whether_needed()
        self._run.run_batches(chain(forget, self._retain_requests()), self._act)
        if not self._sub_steps and self._run.finite:  # δ = 0
            self._update_duals(self._run.norms())
            self._run.primal_step(self._primal_steps(0))
        progress = self._progress()
        decision, accuracy, passed = stopping_decision(progress, self._stopping), None, None
        last = self._k + 1 >= self._schedule.iterations
        ends = last or (decision.stops and self._run.stops_early)
        if progress.finite and (ends or self._is_due):
            logits = self._run.logits(vfl_pb2.VALIDATION, _most_validated(self._plan))
            accuracy = _utility(self._run, logits[0])
            validated = self._validated(progress, logits, accuracy)
            decision = stopping_decision(validated, self._stopping)
            passed = not decision.rolls_back and accuracy >= self._before.floor
        if not self._run.stops_early:
            decision = Decision.OUT_OF_ITERATIONS if last else Decision.CONTINUE
        after = replace(
            self._before,
            limits=self._limits,
            duals=self._duals,
            steps=self._steps,
            scores=self._scores.tolist(),
            retain_batches=self._retain_batches,
            decision=decision,
            passed=self._before.passed if passed is None else passed,
            kept=self._before.kept or bool(passed),
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
    def _stopping(self) -> StoppingLimits:
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
        means = self._add_scores(batch, count)
        if self._wanted is not None:
            means = means * self._wanted
        elif self._sends_if_violated:
            means = means * self._needed(means.detach())
        return Loss(means, HOLD)

    def _add_scores(self, batch: Batch, count: int) -> Tensor:
        """The scores of a batch of D_u over ``count`` rows, [N]; add them to the iteration's."""
        targets = self._before.targets
        means = batch.sums(row_scores(self._run, targets, batch)) / count
        self._scores += means.detach()
        if targets is not None:
            with torch.no_grad():
                shortfalls = label_shortfalls(*_against_targets(self._run, targets, batch))
            self._shortfalls += batch.sums(shortfalls) / count
        return means

    def _read_whether_needed(self) -> Tensor:
        """Whether each model needs the gradient of D_u, [N], by a pass without gradients.

        The scores of several messages are known only after the last one. By then the gradients of
        the others would have been sent.
        """
        rows = torch.from_numpy(np.stack([sets.forgotten for sets in self._run.sets]))
        logits = torch.stack(self._run.logits(vfl_pb2.FORGOTTEN))
        request = vfl_pb2.BatchRequest(rows=vfl_pb2.FORGOTTEN, order=vfl_pb2.BY_INDEX)
        self._add_scores(Batch(request, rows, logits, self._run.labels[rows], list), rows.shape[1])
        needed = self._needed(self._scores)
        self._scores.zero_()
        self._shortfalls.zero_()
        return needed

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
        """γ of a model; the ``score`` of the first iteration limits the counterfactual one.

        Every step moves the outputs of single rows up and down, also those of a model that never
        learned D_u. What the rows below their targets show of this noise, ε has to allow above.
        """
        targets = self._before.targets
        if targets is None:
            return self._duals[model].threshold
        if not self._k:
            least = max(NEGLIGIBLE, UNLEARNED * targets.unlearned[model])
            wanted = max(least, -self._plan.epsilon * score)
            self._limits[model] = -min(wanted, LARGEST_EPSILON)
        return min(self._limits[model], -NOISE * self._shortfalls[model].item())

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
