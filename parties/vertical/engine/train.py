"""Learning together: split training with early stopping, and gradients by D_u that are held."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from configs.agreement import Agreement
from parties.vertical.engine.batch import Batch, Use
from parties.vertical.engine.local_model import EARLY
from parties.vertical.engine.split_model import Federation
from protocol import vfl_pb2

DESCEND = vfl_pb2.Gradient(descend=vfl_pb2.Descend())
ACCUMULATE = vfl_pb2.Gradient(accumulate=vfl_pb2.Accumulate())
SOUND = "last sound model"
HOLD = vfl_pb2.Gradient(hold=vfl_pb2.Hold())


@dataclass(frozen=True, slots=True)
class Epoch:
    """What one epoch did."""

    epoch: int
    loss: float
    validation_loss: float | None = None  # looked at only where a model is trained for good
    validation_accuracy: float | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """One run of training."""

    name: str  # as people see it
    task: vfl_pb2.Task
    rows: vfl_pb2.Rows
    epochs: int
    batch: int
    patience: int | None = None
    looks: bool = True  # at the validation rows after every epoch, where it trains for good
    labels: Tensor | None = None  # of all common rows, where others than the truth are taught
    early: int | None = None  # the epoch after which every party keeps a copy as ``EARLY``


def early_epoch(agreement: Agreement) -> int | None:
    """After which epoch of training a copy is kept; None where nobody will start from it."""
    plan = agreement.unlearning
    if not agreement.unlearn or plan.method != "fedora" or plan.fedora.start != "early":
        return None
    return max(1, round(plan.fedora.early * agreement.training.epochs))


def learn(federation: Federation, plan: Plan) -> list[Epoch]:
    """Train on ``plan.rows``; with patience, end at the model of the best validation loss.

    Raises:
        RemoteProtocolError, Diverged: numbers are no longer finite.
    """
    steps = math.ceil(federation.passes.count(plan.rows) / plan.batch)
    federation.party.watch.phase(plan.name, plan.epochs * (steps + 1))
    epochs: list[Epoch] = []
    for number in range(1, plan.epochs + 1):
        epochs.append(_recorded(federation, plan, number))
        if federation.diverged:
            break
        if number == plan.early:
            federation.keep(EARLY, plan.task)
        if plan.patience is None:
            continue
        if best_epoch(epochs) == number:
            federation.keep("best", plan.task)
        elif number - best_epoch(epochs) >= plan.patience:
            break
    if plan.patience is not None:
        federation.restore("best", federation.stream, plan.task)
        federation.drop("best", plan.task)
    if plan.early is not None and len(epochs) < plan.early and not federation.diverged:
        federation.keep(EARLY, plan.task)  # it ended before: no later model is as early
    return epochs


def _recorded(federation: Federation, plan: Plan, number: int) -> Epoch:
    """One epoch, unless a checkpoint knows it."""
    name = f"{plan.name}, epoch {number}"
    return federation.once(name, Epoch, lambda: _epoch(federation, plan, number))


def best_epoch(epochs: list[Epoch]) -> int:
    """The epoch of the lowest validation loss, the first of several."""
    return min(epochs, key=lambda each: each.validation_loss or 0.0).epoch


def _epoch(federation: Federation, plan: Plan, number: int) -> Epoch:
    losses: list[tuple[float, int]] = []

    def descend(batch: Batch) -> Use:
        labels = batch.labels if plan.labels is None else plan.labels[batch.rows]
        loss = cross_entropy(batch.logits, labels)
        losses.append((loss.item(), len(batch.rows)))
        if batch.share < 1:
            loss = loss * batch.share
        return Use(loss, DESCEND if batch.last else ACCUMULATE)

    federation.passes.descend(plan.task, plan.rows, number, plan.batch, descend)
    mean = sum(value * rows for value, rows in losses) / max(1, sum(rows for _, rows in losses))
    if plan.task != vfl_pb2.TRAIN or not plan.looks:
        return Epoch(number, mean)
    return Epoch(number, mean, *validate(federation))


def validate(federation: Federation, task: vfl_pb2.Task = vfl_pb2.EVALUATE) -> tuple[float, float]:
    """Loss and accuracy on the validation rows."""
    logits = federation.logits(vfl_pb2.VALIDATION, task)
    truth = federation.labels[federation.rows.validation]
    return cross_entropy(logits, truth).item(), right(logits, truth)


def accuracy(
    federation: Federation, rows: vfl_pb2.Rows, task: vfl_pb2.Task = vfl_pb2.EVALUATE
) -> float:
    """Share of some rows that the present model predicts right."""
    return right(federation.logits(rows, task), federation.labels[federation.rows.of(rows)])


def right(logits: Tensor, truth: Tensor) -> float:
    """Share of rows whose class has the largest logit."""
    return (logits.argmax(dim=1) == truth).double().mean().item()


def hold(federation: Federation, task: vfl_pb2.Task) -> float:
    """Have every party hold its gradient of the mean cross entropy on D_u; that mean."""
    count, total = len(federation.rows.forgotten), torch.zeros(())

    def climb(batch: Batch) -> Use:
        loss = cross_entropy(batch.logits, batch.labels, reduction="sum") / count
        total.add_(loss.detach())
        return Use(loss, HOLD)

    federation.passes.sweep(task, federation.passes.parts(vfl_pb2.FORGOTTEN), climb)
    return total.item()
