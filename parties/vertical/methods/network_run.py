"""A single split model over the network, as an unlearning method sees it."""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TypeVar, cast

import numpy as np
import torch
from torch import Tensor

from configs.unlearning import MethodSettings
from models.targets import Target
from models.tops import ConcatHead, SumHead
from parties.common.shared_randomness import Index
from parties.vertical.engine.local_model import ORIGINAL
from parties.vertical.engine.networks import ActiveNetwork
from parties.vertical.engine.optimiser import UpdateRule
from parties.vertical.engine.party_state import LocalFit
from parties.vertical.engine.rows import RowSets, Sample
from parties.vertical.engine.split_model import SplitModel
from parties.vertical.engine.training_loop import (
    BatchLoss,
    SentGradients,
    TrainingBatch,
    TrainingLoop,
)
from parties.vertical.methods.run import LAST_GOOD, PLAIN, Act, Batch, Norms, ShrinkShares, Votes
from protocol import vfl_pb2

PRESENT = "present model"  # slot of a copy that only changes the update rule
T = TypeVar("T")
Settings = TypeVar("Settings", bound=MethodSettings)


class NetworkRun:
    """One split model, whose parts are at the parties; every change is a message.

    Attributes:
        split_model: the model.
        agreement: the agreement.
        progress: receives the steps of the method.
    """

    stops_early = True

    def __init__(
        self,
        split_model: SplitModel,
        task: vfl_pb2.Task = vfl_pb2.UNLEARN,
        frozen: Tensor | None = None,
    ) -> None:
        """Change ``split_model`` in the task ``task``, which every message names.

        Args:
            split_model: the model.
            task: the task.
            frozen: the embeddings of the rows of all epochs that train only the top model, [rows,
                total_width], in index order; None: they are read from the parties.
        """
        self.split_model, self.agreement = split_model, split_model.agreement
        self._task = task
        self.progress = split_model.party.progress
        self._frozen = self._given = frozen

    @property
    def sets(self) -> list[RowSets]:
        """The row sets of the model."""
        return [self.split_model.rows]

    @property
    def labels(self) -> Tensor:
        """The labels of all common rows, [common_rows]."""
        return self.split_model.labels

    @property
    def learned_labels(self) -> Tensor:
        """The labels that the trained model learned, [common_rows]."""
        return self.split_model.learned_labels

    @property
    def target(self) -> Target:
        """What the model predicts, with its loss."""
        return self._network.target

    def weights_of(self, rows: Index) -> Tensor | None:
        """The weights in the loss of the common ``rows``, [rows]; None if all of them are 1."""
        return self.split_model.weights_of(rows)

    @property
    def finite(self) -> bool:
        """Whether all numbers since the last start are finite."""
        return not self.split_model.diverged

    @property
    def sent_gradients(self) -> SentGradients:
        """The gradients that were sent for the last batch."""
        return self.split_model.loop.sent_gradients

    def settings(self, kind: type[Settings]) -> Settings:
        """The agreed table of settings of the type ``kind``."""
        return self.agreement.unlearning.of(kind)

    # --- journal ---------------------------------------------------------------------------------

    def once(self, name: str, kind: type[T], work: Callable[[], T]) -> T:
        """Return the result of ``work``, or the result that was recorded before a crash."""
        return self.split_model.once(name, kind, work)

    def recorded(self, name: str, kind: type[T]) -> T | None:
        """Return the progress that was recorded under ``name`` before a crash; else None."""
        return self.split_model.recorded(name, kind)

    def record(self, name: str, value: object) -> None:
        """Record the progress of ``name``, in place of the earlier progress of this name."""
        self.split_model.record(name, value)

    def verify(self) -> None:
        """Check that the parameters of all parties are finite; else set ``finite`` to False."""
        if self.finite and not self.split_model.replaying:
            (norms,) = self.norms()
            self.split_model.loop.diverged = not math.isfinite(norms.parameters)

    # --- copies ----------------------------------------------------------------------------------

    def keep_good(self, _which: Sequence[bool] | None) -> None:
        """Keep a copy of the present model, which is good."""
        self.keep(LAST_GOOD)

    def restore_good(self) -> None:
        """Restore the last good model: the kept copy, or the original model."""
        good = LAST_GOOD in self.split_model.local_model.slots
        slot = LAST_GOOD if good else ORIGINAL
        self.split_model.restore_copy(slot, self.split_model.stream, self._task)

    def drop_good(self) -> None:
        """Delete the kept copy."""
        if LAST_GOOD in self.split_model.local_model.slots:
            self.split_model.drop_copy(LAST_GOOD, self._task)

    def start(
        self, slot: str, stream: str, rule: UpdateRule = PLAIN, sample: Sample | None = None
    ) -> None:
        """Restore the copy with the name ``slot``; the steps that follow use ``rule``.

        Balanced weights of the classes, and the mean of the weights of rows, are those of D_r, as
        in a training without D_u.
        """
        self._frozen = self._given
        self.split_model.restore_copy(slot, stream, self._task, rule, sample)
        if self._task == vfl_pb2.UNLEARN:
            self.split_model.weigh(vfl_pb2.RETAIN)

    def initialise(
        self, stream: str, rows: vfl_pb2.Rows, rule: UpdateRule, sample: Sample | None = None
    ) -> None:
        """Start with a fresh model, whose preprocessing is fitted on ``rows``."""
        self._frozen = self._given
        self.split_model.initialise(stream, rows, self._task, None, rule, sample)

    def shrink(self, shares: ShrinkShares, stream: str) -> None:
        """Move all parameters towards fresh values of the stream, and start the rule again."""
        self.split_model.shrink(shares.bottom, shares.top, stream, self._task)

    def keep(self, slot: str) -> None:
        """Keep a copy of the model in ``slot``."""
        self.split_model.keep_copy(slot, self._task)

    def change_rule(self, rule: UpdateRule) -> None:
        """Continue with the present parameters and batch order, by another update rule."""
        self.keep(PRESENT)
        self.start(PRESENT, self.split_model.stream, rule)
        self.split_model.drop_copy(PRESENT, self._task)

    def fit_bottoms(self, rows: vfl_pb2.Rows, fit: LocalFit, epoch: int) -> None:
        """Carry out one epoch of the local fit of all bottom models; no embedding is sent."""
        self.split_model.fit_bottoms(rows, fit, epoch, self._task)

    # --- passes over rows ------------------------------------------------------------------------

    def row_count(self, rows: vfl_pb2.Rows) -> int:
        """The number of rows of a row set."""
        return self.split_model.loop.row_count(rows)

    def pass_requests(self, rows: vfl_pb2.Rows) -> Iterator[vfl_pb2.BatchRequest]:
        """Requests of one pass over a row set, in index order."""
        return self.split_model.loop.pass_requests(rows)

    def epoch_requests(
        self, rows: vfl_pb2.Rows, epoch: int, size: int
    ) -> Iterator[vfl_pb2.BatchRequest]:
        """Requests of one shuffled epoch over a row set, with ``size`` rows in each batch."""
        return self.split_model.loop.epoch_requests(rows, epoch, size)

    def run_batches(
        self, requests: Iterable[vfl_pb2.BatchRequest], act: Act, absent: Collection[str] = ()
    ) -> None:
        """Carry out one step for each request; the parties ``absent`` take no part."""
        loop = self._loop(absent)
        loop.run_batches(self._task, requests, self._on_network(act))
        self._take_over(loop)

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

        With ``only_top``, only the top model is trained, on embeddings that were sent once.
        """
        loop = self.split_model.loop
        if not only_top:
            loop.run_epoch(self._task, rows, epoch, size, self._on_network(act), steps)
            return
        if self._frozen is None:
            self._frozen = loop.read(rows, self._task).embeddings
        self._run_top_epoch(self._frozen, rows, epoch, size, act)

    def streams(self, purpose: str) -> list[str]:
        """The random stream of the model for ``purpose``."""
        return [purpose]

    def embeddings(self, rows: vfl_pb2.Rows, most: int | None = None) -> Tensor:
        """The embeddings of the first ``most`` rows of a row set, [1, rows, total_width]."""
        return self.split_model.loop.read(rows, self._task, most).embeddings[None]

    def logits(self, rows: vfl_pb2.Rows, most: int | None = None) -> list[Tensor]:
        """The logits of the first ``most`` rows of a row set in index order, [rows, classes]."""
        return [self.split_model.logits(rows, self._task, most)]

    def votes(self, rows: vfl_pb2.Rows, absent: Collection[str] = ()) -> list[Votes]:
        """The votes of all parties but ``absent`` on a row set in index order."""
        loop = self._loop(absent)
        outputs = loop.read(rows, self._task)
        self._take_over(loop)
        names = [name for name in self.agreement.feature_parties if name not in absent]
        parts = torch.split(outputs.embeddings, outputs.logits.shape[1], dim=1)
        bias = cast(SumHead, self._network.top).bias.detach().clone()
        return [Votes(outputs.logits, dict(zip(names, parts, strict=True)), bias)]

    def _loop(self, absent: Collection[str]) -> TrainingLoop:
        loop = self.split_model.loop
        return loop.without_parties(frozenset(absent)) if absent else loop

    def _take_over(self, loop: TrainingLoop) -> None:
        """Take over what a loop without some parties has found."""
        whole = self.split_model.loop
        if loop is not whole:
            whole.sent_gradients = loop.sent_gradients
            whole.diverged |= loop.diverged

    def _on_network(self, act: Act) -> Callable[[TrainingBatch], BatchLoss]:
        """``act`` for a batch of the training loop."""

        def on_network(batch: TrainingBatch) -> BatchLoss:
            def norms() -> list[Norms]:
                return self._sum([*batch.reports, self.split_model.local_model.report()])

            found = act(
                Batch(
                    batch.request,
                    torch.from_numpy(batch.rows)[None],
                    batch.logits[None],
                    batch.labels[None],
                    norms,
                    batch.share,
                    batch.last,
                    self._network.target,
                    None if batch.weights is None else batch.weights[None],
                )
            )
            return BatchLoss(found.values.sum(), found.use_of(0))

        return on_network

    def _run_top_epoch(
        self, embeddings: Tensor, rows: vfl_pb2.Rows, epoch: int, size: int, act: Act
    ) -> None:
        """Train the top model for one epoch on the embeddings of ``rows``, [rows, width]."""
        model, chosen = self.split_model, self.split_model.rows.select(rows)
        order = model.rows.shuffled(rows, model.stream, epoch)
        widths = [party.width or 0 for party in self.agreement.feature_parties.values()]
        for index, start in enumerate(range(0, len(order), size)):
            part = order[start : start + size]
            inputs = embeddings[np.searchsorted(chosen, part)]
            weights = model.weights_of(part)
            batch = Batch(
                vfl_pb2.BatchRequest(
                    rows=rows, order=vfl_pb2.SHUFFLED, epoch=epoch, size=size, index=index
                ),
                torch.from_numpy(part)[None],
                self._network(list(torch.split(inputs, widths, dim=1)))[None],
                self.labels[part][None],
                list,
                target=self._network.target,
                weights=None if weights is None else weights[None],
            )
            found = act(batch)
            loss = found.values.sum()
            if not math.isfinite(loss.item()):
                model.loop.diverged = True
                return
            loss.backward()  # type: ignore[no-untyped-call]
            model.local_model.use(found.use_of(0), 0)
            self.progress.step()

    @property
    def _network(self) -> ActiveNetwork:
        return cast(ActiveNetwork, self.split_model.local_model.model.network)

    # --- steps of all parties --------------------------------------------------------------------

    def norms(self, anchor: str | None = None, proximal: float = 0.0) -> list[Norms]:
        """The norms of the model.

        Args:
            anchor: the copy from which the proximal term is measured; None without this term.
            proximal: ρ, weight of the proximal term.
        """
        ask = vfl_pb2.ReportNorms(anchor=anchor, proximal=None if anchor is None else proximal)
        command = vfl_pb2.ModelCommand(report_norms=ask)
        return self._sum(list(self.split_model.command_all(self._task, command).values()))

    def _sum(self, reports: Sequence[vfl_pb2.BlockReport]) -> list[Norms]:
        """The norms over the parts of all parties."""
        return [
            Norms(
                held=sum(each.held_square for each in reports),
                change=sum(each.change_square for each in reports),
                parameters=sum(each.norm_square for each in reports),
                proximal=sum(each.proximal_square for each in reports),
            )
        ]

    def ascend(self, factors: Sequence[float]) -> None:
        """Add the held gradient to the parameters, times the factor."""
        self.split_model.ascent_step(factors[0], self._task)

    def primal_step(self, steps: Sequence[vfl_pb2.PrimalStep]) -> None:
        """Take a primal step without retained rows."""
        self.split_model.primal_step(steps[0], self._task)

    def scale_logits(self, factors: Sequence[float]) -> None:
        """Multiply the logits by the factor, in the last layer of the top model."""
        cast(ConcatHead, self._network.top).scale_logits(factors[0])
