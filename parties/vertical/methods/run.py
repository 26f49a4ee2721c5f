"""The vertical models that an unlearning method changes: N models at once, each with its own D_u.

Over the network N is 1: the model is split over the parties, and every change is a message. In one
process, N models of one architecture are changed together, for studies of many models. A method is
written once for both.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Final, Protocol, TypeVar

import torch
from torch import Tensor

from configs.agreement import VerticalAgreement
from configs.unlearning import MethodSettings, ShrinkTop
from models.targets import ClassTarget, Target
from parties.common.shared_randomness import Index
from parties.requests.driver import Run
from parties.vertical.engine.optimiser import UpdateRule
from parties.vertical.engine.party_state import LocalFit
from parties.vertical.engine.rows import RowSets, Sample
from parties.vertical.engine.training_loop import ACCUMULATE, DESCEND, HOLD, SentGradients
from protocol import vfl_pb2

T = TypeVar("T")
Settings = TypeVar("Settings", bound=MethodSettings)
PLAIN: Final = UpdateRule()
CLASSES: Final = ClassTarget()
LAST_GOOD = "last good model"  # slot of the last good model of a method


@dataclass(frozen=True, slots=True)
class ShrinkShares:
    """How far the parameters move towards fresh values: from 0 (not at all) to 1 (all the way)."""

    bottom: float  # how far the parameters of the bottom models move
    top: float  # how far the parameters of the top model move

    @classmethod
    def agreed(cls, share: float, top: ShrinkTop) -> "ShrinkShares":
        """Use ``share`` for bottom models; ``top`` selects 0, ``share`` or 1 for the top model."""
        return cls(share, {"keep": 0.0, "shrink": share, "fresh": 1.0}[top])

    @property
    def pair(self) -> tuple[float, float]:
        """The shares of bottom models and of the top model."""
        return self.bottom, self.top


FRESH_TOP = ShrinkShares(bottom=0.0, top=1.0)


@dataclass(frozen=True, slots=True)
class Norms:
    """Squared norms of one model, over the parameters of all parties."""

    held: float  # of the held gradient
    # Of the change of the parameters between the last two held gradients; 0 before the second one.
    change: float
    parameters: float = 0.0  # of the parameters; 0 if not measured
    proximal: float = 0.0  # of the held gradient plus FedORA's proximal gradient; 0 if not measured


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch of each of N models."""

    request: vfl_pb2.BatchRequest  # the rows of the batch
    rows: Tensor  # [N, batch], indices into the common order
    logits: Tensor  # [N, batch, classes], with the graph of the models
    labels: Tensor  # [N, batch], or [N, batch, labels] of several binary labels
    # Returns the norms of each model; call it only in the first batch after a gradient was held.
    norms: Callable[[], list[Norms]]
    # Fraction of the step's rows that are in this batch; below 1 for micro-batches.
    share: float = 1.0
    last: bool = True  # whether this is the last batch of its step
    target: Target = CLASSES  # what the models predict, with its loss
    weights: Tensor | None = None  # [N, batch], of the rows in the loss; None if all are 1

    def loss(self, labels: Tensor | None = None, logits: Tensor | None = None) -> Tensor:
        """The mean loss of each model, [N], such as the cross entropy.

        Args:
            labels: [N, batch], replace the labels of the batch.
            logits: [N, batch, classes], replace the logits of the batch.
        """
        truth = self.labels if labels is None else labels
        found = self.logits if logits is None else logits
        if len(found) == 1:
            loss = self.target.loss(found[0], truth[0], weights=self._first_weights)
            return loss.reshape(1)
        each = self.target.loss(found.flatten(0, 1), truth.flatten(0, 1), reduction="none")
        return each.view(found.shape[:2]).mean(dim=1)

    def loss_sum(self, logits: Tensor | None = None) -> Tensor:
        """The sum of the losses of the rows of each model, [N].

        ``logits``, [N, batch, classes], replace the logits of the batch.
        """
        found = self.logits if logits is None else logits
        if len(found) == 1:
            weights = self._first_weights
            return self.target.loss(found[0], self.labels[0], "sum", weights).reshape(1)
        each = self.target.loss(found.flatten(0, 1), self.labels.flatten(0, 1), reduction="none")
        return each.view(found.shape[:2]).sum(dim=1)

    @property
    def _first_weights(self) -> Tensor | None:
        """The weights of a single model's rows, [batch]; several models have none."""
        return None if self.weights is None else self.weights[0]

    def sums(self, values: Tensor) -> Tensor:
        """The sum of ``values``, [N * batch], over the rows of each model, [N]."""
        if len(self.logits) == 1:
            return values.sum().reshape(1)
        return values.view(self.labels.shape).sum(dim=1)


@dataclass(frozen=True, slots=True)
class Loss:
    """The loss of each model on a batch, and how the parties use its gradient."""

    values: Tensor  # [N], to differentiate
    # How the gradient is used: one message for all models, or one for each model.
    use: vfl_pb2.Gradient | Sequence[vfl_pb2.Gradient]

    def use_of(self, model: int) -> vfl_pb2.Gradient:
        """How model number ``model`` uses the gradient."""
        return self.use if isinstance(self.use, vfl_pb2.Gradient) else self.use[model]


@dataclass(frozen=True, slots=True)
class Votes:
    """The parties' votes on some rows, with ``top.kind = 'sum'``."""

    logits: Tensor  # [rows, classes], the sum of all votes and the bias
    parties: dict[str, Tensor]  # the votes of each party, [rows, classes]
    bias: Tensor  # the bias of the top model, [classes]


Act = Callable[[Batch], Loss]


class VerticalRun(Run, Protocol):
    """N models of the vertical mode, all of one agreement, each with its own row sets."""

    @property
    def agreement(self) -> VerticalAgreement:
        """The agreement, with the settings of the methods."""

    @property
    def sets(self) -> Sequence[RowSets]:
        """The row sets of each model; the sets have equal sizes in all models."""

    @property
    def labels(self) -> Tensor:
        """The labels of all common rows, [common_rows]."""

    @property
    def learned_labels(self) -> Tensor:
        """The labels that the trained models learned, [common_rows].

        They differ from ``labels`` on D_u if the request corrects labels.
        """
        return self.labels

    @property
    def target(self) -> Target:
        """What the models predict, with its loss."""
        return CLASSES

    def weights_of(self, rows: Index) -> Tensor | None:  # noqa: ARG002  several models have none
        """The weights in the loss of the common ``rows``, [rows]; None if all of them are 1."""
        return None

    @property
    def sent_gradients(self) -> SentGradients | None:
        """The gradients that were sent for the last batch; None if no gradient is sent."""

    @property
    def stops_early(self) -> bool:
        """Whether a method may stop before its last step; N models take equally many steps."""

    def settings(self, kind: type[Settings]) -> Settings:
        """The agreed table of settings of the type ``kind``."""

    def once(self, name: str, kind: type[T], work: Callable[[], T]) -> T:
        """Return the result of ``work``, or the result that was recorded before a crash."""

    def start(
        self,
        slot: str,
        stream: str,
        rule: UpdateRule = PLAIN,
        sample: Sample | None = None,
    ) -> None:
        """Restore the copy with the name ``slot`` of all models.

        Args:
            slot: the name of the copy.
            stream: random stream of the batch order.
            rule: the update rule of the steps that follow.
            sample: the row set ``SAMPLE``; None: it has no rows.
        """

    def initialise(
        self, stream: str, rows: vfl_pb2.Rows, rule: UpdateRule, sample: Sample | None = None
    ) -> None:
        """Start with fresh models, whose preprocessing is fitted on ``rows``."""

    def shrink(self, shares: ShrinkShares, stream: str) -> None:
        """Move all parameters towards fresh values of the stream, and start the rule again."""

    def keep(self, slot: str) -> None:
        """Keep a copy of all models in ``slot``."""

    def row_count(self, rows: vfl_pb2.Rows) -> int:
        """The number of rows of a row set, in every model."""

    def pass_requests(self, rows: vfl_pb2.Rows) -> Iterator[vfl_pb2.BatchRequest]:
        """Requests of one pass over a row set, in index order."""

    def epoch_requests(
        self, rows: vfl_pb2.Rows, epoch: int, size: int
    ) -> Iterator[vfl_pb2.BatchRequest]:
        """Requests of one shuffled epoch over a row set, with ``size`` rows in each batch."""

    def run_batches(
        self,
        requests: Iterable[vfl_pb2.BatchRequest],
        act: Act,
        absent: Collection[str] = (),
    ) -> None:
        """Carry out one step for each request; the parties ``absent`` take no part."""

    def change_rule(self, rule: UpdateRule) -> None:
        """Continue with the present parameters and batch order, by another update rule."""

    def fit_bottoms(self, rows: vfl_pb2.Rows, fit: LocalFit, epoch: int) -> None:
        """Carry out one epoch of the local fit of all bottom models, on the rows of ``rows``.

        No embedding, gradient or label is exchanged. The first epoch has the number 1.
        """

    def run_epoch(
        self,
        rows: vfl_pb2.Rows,
        epoch: int,
        size: int,
        act: Act,
        *,
        only_top: bool = False,
        steps: int | None = None,
    ) -> None:
        """Carry out one shuffled epoch, or its first ``steps``, in the agreed mode of overlap.

        With ``only_top``, only the top models are trained. Then the embeddings of ``rows`` are sent
        once, and later epochs send no message.
        """

    def norms(self, anchor: str | None = None, proximal: float = 0.0) -> list[Norms]:
        """The norms of every model.

        Args:
            anchor: the copy from which the proximal term is measured; None without this term.
            proximal: ρ, weight of the proximal term.
        """

    def ascend(self, factors: Sequence[float]) -> None:
        """Add to the parameters of each model its held gradient, times its factor."""

    def primal_step(self, steps: Sequence[vfl_pb2.PrimalStep]) -> None:
        """Take a primal step of each model, without retained rows."""

    def streams(self, purpose: str) -> list[str]:
        """The name of each model's random stream for ``purpose``."""

    def embeddings(self, rows: vfl_pb2.Rows, most: int | None = None) -> Tensor:
        """The embeddings of each model on a row set in index order, [N, rows, total_width].

        The embeddings of all parties stand side by side, in the agreement's order. With ``most``,
        only the first ``most`` rows.
        """

    def logits(self, rows: vfl_pb2.Rows, most: int | None = None) -> list[Tensor]:
        """The logits of each model on a row set in index order, [rows, classes] each.

        With ``most``, only the first ``most`` rows: a random sample, because the common order is
        random.
        """

    def votes(self, rows: vfl_pb2.Rows, absent: Collection[str] = ()) -> list[Votes]:
        """The votes of all parties but ``absent`` on a row set in index order, by model."""

    def scale_logits(self, factors: Sequence[float]) -> None:
        """Multiply the logits of each model by its factor, in the last layer of its top model."""


def hold_forget_gradient(run: VerticalRun) -> list[float]:
    """Hold each model's gradient of the mean loss on its D_u; return each model's mean loss.

    The returned losses, [N], have no weights of classes and rows, so that they can be compared with
    the loss of a guess.
    """
    count, total = run.row_count(vfl_pb2.FORGOTTEN), torch.zeros(len(run.sets))

    def forget_loss(batch: Batch) -> Loss:
        target = CLASSES if isinstance(batch.target, ClassTarget) else batch.target
        total.add_(replace(batch, target=target, weights=None).loss_sum().detach() / count)
        return Loss(batch.loss_sum() / count, HOLD)

    run.run_batches(run.pass_requests(vfl_pb2.FORGOTTEN), forget_loss)
    return total.tolist()


@dataclass(frozen=True, slots=True)
class RateSchedule:
    """The learning rate of each step of an epoch, as a part of several epochs."""

    begun: int  # number of steps before the epoch
    steps: int  # number of steps of all epochs; the last epoch may end early
    factor: Callable[[int], float]  # factor of the learning rate in each step, counted from 0


def train_epoch(
    run: VerticalRun,
    rows: vfl_pb2.Rows,
    number: int,
    labels: Tensor | None = None,
    size: int | None = None,
    *,
    only_top: bool = False,
    schedule: RateSchedule | None = None,
) -> float:
    """Train all models for one epoch, and return the mean loss.

    Args:
        run: the models.
        rows: the row set.
        number: number of the epoch, from 1.
        labels: [N, common_rows], labels that replace the true labels.
        size: rows of a batch; None for the batch size of the training.
        only_top: whether only the top models are trained.
        schedule: the learning rate of each step; None for the rate of the update rule.
    """
    losses: list[tuple[float, int]] = []
    taken = count() if schedule is None else count(schedule.begun)

    def descend(batch: Batch) -> Loss:
        loss = batch.loss(None if labels is None else labels.gather(1, batch.rows))
        losses.append((loss.detach().mean().item(), batch.rows.shape[1]))
        if batch.share < 1:
            loss = loss * batch.share
        if not batch.last:
            return Loss(loss, ACCUMULATE)
        if schedule is None:
            return Loss(loss, DESCEND)
        factor = schedule.factor(next(taken))
        return Loss(loss, vfl_pb2.Gradient(descend=vfl_pb2.Descend(scale=factor)))

    size = size or run.agreement.training.batch
    left = None if schedule is None else schedule.steps - schedule.begun
    run.run_epoch(rows, number, size, descend, only_top=only_top, steps=left)
    return sum(value * rows for value, rows in losses) / max(1, sum(rows for _, rows in losses))
