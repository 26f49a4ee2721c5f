"""Training of the split model: in epochs of mini-batches, or in Newton steps for a convex head.

With shards, one model is trained in epochs for each shard.

In a Newton run, each party k stores only its block of the parameters and of all vectors. The
parties exchange the products A_k p_k, the Hessian of the loss times the sum of these products, and
one number per party for each inner product.

Notation: A_k = features of party k, p_k = block of p at party k, F = the regularised loss, H = its
Hessian, p = the search direction, r = the residual, x = the solution, B = the certified distance to
the optimum, λ = the weight of the regulariser.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from configs.agreement import VerticalAgreement
from models.targets import LabelsTarget, Target
from parties.common.errors import Diverged, PolicyError
from parties.vertical.engine.local_model import EARLY_CHECKPOINT
from parties.vertical.engine.optimiser import UpdateRule
from parties.vertical.engine.split_model import SplitModel
from parties.vertical.engine.training_loop import (
    ACCUMULATE,
    DESCEND,
    HOLD,
    BatchLoss,
    TrainingBatch,
)
from protocol import vfl_pb2
from unlearning.audit.classifier import roc_auc
from unlearning.audit.membership import Outputs
from unlearning.audit.targets import labels_auc
from unlearning.certificate import distance_bound, gaussian_noise_scale
from unlearning.newton import NewtonStep, SolverBudget, curvature_quadratic, newton_step


@dataclass(frozen=True, slots=True)
class EpochResult:
    """The result of one epoch."""

    epoch: int  # number of the epoch, from 1
    loss: float  # mean loss of the batches, such as the cross entropy
    # Mean loss on validation rows; None if the model was not validated.
    validation_loss: float | None = None
    # Accuracy on validation rows; None if the model was not validated, or predicts a number.
    validation_accuracy: float | None = None
    # AUC on validation rows; None unless ``training.monitor`` is ``auc``.
    validation_auc: float | None = None

    @property
    def shortfall(self) -> float:
        """What early stopping lowers: the validation loss, or 1 minus the AUC."""
        if self.validation_auc is not None:
            return 1 - self.validation_auc
        return self.validation_loss or 0.0


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """The settings of one training run."""

    name: str  # name in the progress display and in the journal
    rows: vfl_pb2.Rows  # the row set on which the model is trained
    epochs: int  # largest number of epochs
    batch: int  # number of rows per step
    # Training stops after this number of epochs without a lower validation loss, or a higher AUC;
    # None: training never stops early.
    patience: int | None = None
    validates: bool = True  # whether the model is validated after each epoch
    # The epoch after which every party keeps a copy in the slot ``EARLY_CHECKPOINT``.
    early: int | None = None


def train_epochs(split_model: SplitModel, plan: TrainingPlan) -> list[EpochResult]:
    """Train on ``plan.rows``; with patience, restore the best model on validation rows.

    Without validation rows all epochs are trained.

    Raises:
        Diverged: a loss or gradient is not finite in a task that must not diverge.
        RemoteProtocolError: embeddings are not finite in a task that must not diverge.
    """
    steps = math.ceil(split_model.loop.row_count(plan.rows) / plan.batch)
    split_model.party.progress.phase(plan.name, plan.epochs * (steps + 1))
    epochs: list[EpochResult] = []
    validates = plan.validates and len(split_model.rows.validation) > 0
    plan = replace(plan, validates=validates, patience=plan.patience if validates else None)
    for number in range(1, plan.epochs + 1):
        epochs.append(_recorded(split_model, plan, number))
        if split_model.diverged:
            break
        if number == plan.early:
            split_model.keep_copy(EARLY_CHECKPOINT, vfl_pb2.TRAIN)
        if plan.patience is None:
            continue
        if best_epoch(epochs) == number:
            split_model.keep_copy("best", vfl_pb2.TRAIN)
        elif number - best_epoch(epochs) >= plan.patience:
            break
    if plan.patience is not None:
        split_model.restore_copy("best", split_model.stream, vfl_pb2.TRAIN)
        split_model.drop_copy("best", vfl_pb2.TRAIN)
    if plan.early is not None and len(epochs) < plan.early and not split_model.diverged:
        split_model.keep_copy(EARLY_CHECKPOINT, vfl_pb2.TRAIN)  # training ended before that epoch
    return epochs


def _recorded(split_model: SplitModel, plan: TrainingPlan, number: int) -> EpochResult:
    """Run one epoch, or return its result from the journal."""
    name = f"{plan.name}, epoch {number}"
    found = split_model.once(name, EpochResult, lambda: _epoch(split_model, plan, number))
    figures = {key: value for key, value in asdict(found).items() if key != "epoch"}
    split_model.party.progress.measured(plan.name, number, figures)
    return found


def best_epoch(epochs: list[EpochResult]) -> int:
    """Number of the epoch with the lowest validation loss, or the highest AUC if it is watched.

    In case of a tie it is the first epoch.
    """
    return min(epochs, key=lambda each: each.shortfall).epoch


def _epoch(split_model: SplitModel, plan: TrainingPlan, number: int) -> EpochResult:
    losses: list[tuple[float, int]] = []
    target = split_model.target

    def descend(batch: TrainingBatch) -> BatchLoss:
        loss = target.loss(batch.logits, batch.labels, weights=batch.weights)
        losses.append((loss.item(), len(batch.rows)))
        if batch.share < 1:
            loss = loss * batch.share
        return BatchLoss(loss, DESCEND if batch.last else ACCUMULATE)

    split_model.loop.run_epoch(vfl_pb2.TRAIN, plan.rows, number, plan.batch, descend)
    mean = sum(value * rows for value, rows in losses) / max(1, sum(rows for _, rows in losses))
    if not plan.validates:
        return EpochResult(number, mean)
    return validated_epoch(
        split_model.agreement,
        target,
        EpochResult(number, mean),
        Outputs(
            split_model.logits(vfl_pb2.VALIDATION),
            split_model.labels[split_model.rows.validation],
        ),
        split_model.weights_of(split_model.rows.validation),
    )


def validated_epoch(
    agreement: VerticalAgreement,
    target: Target,
    epoch: EpochResult,
    validation: Outputs,
    weights: Tensor | None,
) -> EpochResult:
    """Add the figures of validation rows to the result of an epoch.

    Args:
        agreement: says what early stopping watches.
        target: what the model predicts, with its loss.
        epoch: the result, without these figures.
        validation: outputs and labels of the validation rows.
        weights: [rows], their weights in the loss; None if all are 1. The accuracy and the AUC have
            no weights.

    Raises:
        PolicyError: early stopping watches the AUC, but a class has no validation row.
    """
    logits, truth = validation.logits, validation.labels
    found = replace(
        epoch,
        validation_loss=target.loss(logits, truth, weights=weights).item(),
        validation_accuracy=target.accuracy(logits, truth),
    )
    if agreement.training.monitor == "loss":
        return found
    areas = labels_auc if isinstance(target, LabelsTarget) else roc_auc
    area = areas(validation) if bool(torch.isfinite(logits).all()) else 0.0
    if area is None:
        raise PolicyError(
            "training.monitor = 'auc' needs validation rows of every class, but a class has none",
            "set training.monitor = 'loss', or a larger split.validation",
        )
    return replace(found, validation_auc=area)


def validation_metrics(
    split_model: SplitModel, task: vfl_pb2.Task = vfl_pb2.EVALUATE
) -> tuple[float, float | None]:
    """Loss and accuracy on the validation rows; a number has no accuracy."""
    logits, target = split_model.logits(vfl_pb2.VALIDATION, task), split_model.target
    rows = split_model.rows.validation
    truth, weights = split_model.labels[rows], split_model.weights_of(rows)
    return target.loss(logits, truth, weights=weights).item(), target.accuracy(logits, truth)


def accuracy_on_rows(
    split_model: SplitModel, rows: vfl_pb2.Rows, task: vfl_pb2.Task = vfl_pb2.EVALUATE
) -> float:
    """Accuracy of the current model on a row set."""
    return share_correct(
        split_model.logits(rows, task), split_model.labels[split_model.rows.select(rows)]
    )


def share_correct(logits: Tensor, truth: Tensor) -> float:
    """Fraction of the rows in which the logit of the label is the largest logit.

    Args:
        logits: [rows, classes].
        truth: [rows], the labels.
    """
    return (logits.argmax(dim=1) == truth).double().mean().item()


@dataclass(frozen=True, slots=True)
class NewtonRun:
    """The settings of one Newton run."""

    # Name in the progress display and in the journal; the names of kept copies begin with it.
    name: str
    task: vfl_pb2.Task  # the task that the messages of the run name, such as training or unlearning
    rows: vfl_pb2.Rows  # the row set on which the model is trained
    # The run ends when B, the certified distance to the optimum, is at most this value.
    bound: float
    keep_points: bool = False  # whether a copy of the parameters is kept after each step


@dataclass(frozen=True, slots=True)
class NewtonPoint:
    """The parameters after one Newton step, or at the start of a Newton run."""

    step: NewtonStep  # the result of the step
    bound: float  # B, the certified distance of this point to the optimum
    epoch: EpochResult  # loss and validation metrics at this point


class ConvexHead:
    """All parties' blocks of the convex head, with the operations that ``unlearning.newton`` needs.

    Attributes:
        loss: mean cross entropy at the point of the last gradient.
    """

    def __init__(self, split_model: SplitModel, run: NewtonRun) -> None:
        self._split_model, self._run = split_model, run
        self._count = len(split_model.rows.select(run.rows))
        self._probabilities: list[Tensor] = []
        self.loss = 0.0

    def gradient(self) -> float:
        """Compute ∇F, the gradient of the regularised loss, at the current point; return ‖∇F‖².

        Raises:
            Diverged: the logits or their gradient are not finite.
        """
        self._probabilities, self.loss = [], 0.0

        def act(batch: TrainingBatch) -> BatchLoss:
            self._probabilities.append(torch.softmax(batch.logits.detach(), dim=1))
            loss = cross_entropy(batch.logits, batch.labels, reduction="sum") / self._count
            self.loss += loss.item()
            return BatchLoss(loss, HOLD)

        return sum(report.held_square for report in self._pass(act))

    def begin(self) -> None:
        """Start to solve a step's linear system; after a restart, compute the gradient first."""
        if not self._probabilities:
            self.gradient()
        self._command(vfl_pb2.Newton(start=vfl_pb2.Newton.Start()))

    def product(self) -> float:
        """Compute H p, the Hessian times the search direction; return pᵀ H p.

        Raises:
            Diverged: the logits or their gradient are not finite.
        """

        def act(batch: TrainingBatch) -> BatchLoss:
            probabilities = self._probabilities[batch.request.index]
            return BatchLoss(curvature_quadratic(probabilities, batch.logits) / self._count, HOLD)

        return sum(report.inner_product for report in self._pass(act))

    def step(self, length: float) -> float:
        """Move the solution x by ``length`` times p; return ‖r‖², the squared residual."""
        reports = self._command(vfl_pb2.Newton(step=vfl_pb2.Newton.Step(length=length)))
        return sum(report.residual_square for report in reports)

    def next_direction(self, momentum: float) -> None:
        """Compute the next search direction p."""
        self._command(vfl_pb2.Newton(direction=vfl_pb2.Newton.Direction(momentum=momentum)))

    def apply(self, length: float) -> None:
        """Set the parameters to the start point plus ``length`` times the solution x."""
        self._command(vfl_pb2.Newton(apply=vfl_pb2.Newton.Apply(length=length)))

    def _pass(self, act: Callable[[TrainingBatch], BatchLoss]) -> list[vfl_pb2.BlockReport]:
        split_model, run = self._split_model, self._run
        split_model.loop.run_batches(run.task, split_model.loop.pass_requests(run.rows), act)
        if split_model.diverged:
            raise Diverged(
                f"{run.name}: the logits or their gradient are not finite", "raise newton.weight"
            )
        return self._command(vfl_pb2.Newton(regularise=vfl_pb2.Newton.Regularise()))

    def _command(self, newton: vfl_pb2.Newton) -> list[vfl_pb2.BlockReport]:
        command = vfl_pb2.ModelCommand(newton=newton)
        return list(self._split_model.command_all(self._run.task, command).values())


def run_newton(split_model: SplitModel, run: NewtonRun) -> list[NewtonPoint]:
    """Take Newton steps until the distance bound is at most ``run.bound``, or a limit is reached.

    Returns:
        The start point and the point after each step, in this order.

    Raises:
        Diverged: the logits or their gradient are not finite.
    """
    plan, head = split_model.agreement.newton, ConvexHead(split_model, run)
    split_model.party.progress.phase(run.name)
    start = partial(_start, split_model, head)
    points = [split_model.once(f"{run.name}, start", NewtonPoint, start)]
    if run.keep_points:
        split_model.keep_copy(f"{run.name}, step 0", run.task)
    while points[-1].bound > run.bound and len(points) <= plan.steps and points[-1].step.moves:
        left = plan.products - sum(each.step.products for each in points)
        if left <= 0:
            break
        budget, number = SolverBudget(tolerance=plan.tolerance, products=left), len(points)
        step = partial(_step, split_model, head, points[-1], budget)
        points.append(split_model.once(f"{run.name}, step {number}", NewtonPoint, step))
        if run.keep_points:
            split_model.keep_copy(f"{run.name}, step {number}", run.task)
    return points


def _start(split_model: SplitModel, head: ConvexHead) -> NewtonPoint:
    norm = head.gradient() ** 0.5
    return _point(split_model, head, NewtonStep(norm, 0, 1, 1.0), 0)


def _step(
    split_model: SplitModel, head: ConvexHead, last: NewtonPoint, budget: SolverBudget
) -> NewtonPoint:
    step = newton_step(head, last.step.gradient_norm, budget)
    return _point(split_model, head, step, last.epoch.epoch + 1)


def _point(split_model: SplitModel, head: ConvexHead, step: NewtonStep, number: int) -> NewtonPoint:
    bound = distance_bound(step.gradient_norm, split_model.agreement.newton.weight)
    return NewtonPoint(
        step, bound, EpochResult(number, head.loss, *validation_metrics(split_model))
    )


def kept_points(split_model: SplitModel, name: str) -> dict[int, str]:
    """For each step number of the Newton run ``name``, the name of the copy kept after the step."""
    prefix = f"{name}, step "
    slots = [slot for slot in split_model.local_model.slots if slot.startswith(prefix)]
    return {int(slot.removeprefix(prefix)): slot for slot in slots}


def distance_to_copy(split_model: SplitModel, slot: str) -> float:
    """Euclidean distance between all parameters and their values in the copy named ``slot``."""
    command = vfl_pb2.ModelCommand(report_norms=vfl_pb2.ReportNorms(slot=slot))
    reports = split_model.command_all(vfl_pb2.EVALUATE, command).values()
    return math.sqrt(sum(report.distance_square for report in reports))


def release_noise(agreement: VerticalAgreement) -> float | None:
    """σ of the noise on released models; None if the agreement has no ``newton.release``."""
    plan = agreement.newton
    if plan.release is None:
        return None
    return plan.bound * gaussian_noise_scale(plan.release.epsilon, plan.release.delta)


def add_release_noise(split_model: SplitModel, run: NewtonRun, reached: float) -> bool:
    """Add the agreed noise to the model if the bound ``reached`` is at most ``newton.bound``.

    Returns:
        Whether noise was added.
    """
    sigma = release_noise(split_model.agreement)
    if sigma is None or reached > split_model.agreement.newton.bound:
        return False

    def add_noise() -> bool:
        noise = vfl_pb2.Newton(noise=vfl_pb2.Newton.Noise(sigma=sigma))
        split_model.command_all(run.task, vfl_pb2.ModelCommand(newton=noise))
        return True

    return split_model.once(f"{run.name}, noise", bool, add_noise)


def train_from_random(
    split_model: SplitModel,
    rows: vfl_pb2.Rows,
    stream: str,
    name: str,
    early: int | None = None,
) -> list[EpochResult]:
    """Train a model from random weights, with the agreed optimiser and number of shards.

    Args:
        split_model: the model.
        rows: the row set for preprocessing and training.
        stream: random stream of the weights and the batch order.
        name: name in the progress display and in the journal.
        early: the epoch after which every party keeps the early checkpoint; None: no checkpoint.
    """
    agreement = split_model.agreement
    if agreement.sharding.shards > 1:
        slots, epochs = train_shards(split_model, rows, stream, name)
        split_model.use_ensemble(list(slots.values()))
        return epochs
    if agreement.training.optimiser == "newton-cg":
        split_model.initialise(stream, rows, vfl_pb2.TRAIN)
        return _solve(split_model, NewtonRun(name, vfl_pb2.TRAIN, rows, agreement.newton.bound))
    split_model.initialise(stream, rows, vfl_pb2.TRAIN, rule=training_rule(agreement))
    return train_epochs(split_model, replace(_plan(split_model, rows, name), early=early))


def training_rule(agreement: VerticalAgreement) -> UpdateRule:
    """The update rule of the training."""
    plan = agreement.training
    return UpdateRule.like_training(plan, plan.learning_rate)


def train_shards(
    split_model: SplitModel,
    rows: vfl_pb2.Rows,
    stream: str,
    name: str,
    which: Iterable[int] | None = None,
) -> tuple[dict[int, str], list[EpochResult]]:
    """Train a fresh model for each shard in ``which``.

    Each shard has a separate random stream, and the batch order of a shard depends only on the IDs
    of the rows in the shard. Therefore the model of a shard does not depend on other shards, or on
    rows that are not in the data.

    Args:
        split_model: the model.
        rows: the row set for preprocessing and training.
        stream: prefix of the names of the shards' random streams.
        name: name in the progress display and in the journal; the names of the shards' copies
            begin with it.
        which: numbers of the shards; None for all shards.

    Returns:
        Two values: for each shard, the name of the kept copy of its model; and for each epoch, the
        mean loss over the shards.
    """
    slots, runs = {}, []
    if which is None:
        which = range(split_model.agreement.sharding.shards)
    for shard in which:
        rule = training_rule(split_model.agreement)
        split_model.initialise(f"{stream}/{shard}", rows, vfl_pb2.TRAIN, shard, rule)
        plan = replace(_plan(split_model, rows, f"{name}, shard {shard}"), validates=False)
        runs.append(train_epochs(split_model, plan))
        slots[shard] = f"{name}/{shard}"
        split_model.keep_copy(slots[shard], vfl_pb2.TRAIN)
    return slots, [_mean(epochs) for epochs in zip(*runs, strict=True)]


def _plan(split_model: SplitModel, rows: vfl_pb2.Rows, name: str) -> TrainingPlan:
    plan = split_model.agreement.training
    return TrainingPlan(name, rows, plan.epochs, plan.batch, plan.patience)


def _solve(split_model: SplitModel, run: NewtonRun) -> list[EpochResult]:
    """Run Newton steps to the optimum, and add the agreed release noise."""
    points = run_newton(split_model, run)
    add_release_noise(split_model, run, points[-1].bound)
    return [each.epoch for each in points[1:] or points]


def _mean(epochs: Sequence[EpochResult]) -> EpochResult:
    """The mean loss of one epoch over the shards."""
    return EpochResult(epochs[0].epoch, sum(each.loss for each in epochs) / len(epochs))
