"""The split model, controlled by the active party through commands to all parties."""

from collections.abc import Callable, Sequence
from functools import partial
from time import monotonic
from typing import TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from models.targets import (
    ClassTarget,
    NumberTarget,
    Target,
    balanced_weights,
    standard_deviation,
)
from parties.common.errors import DataError
from parties.common.shared_randomness import Index
from parties.data.preprocess import declared_target
from parties.session.checkpoint import CheckpointContent, CheckpointStore
from parties.session.journal import Journal, recorded_value
from parties.session.store.model_store import ModelStore, VersionFacts
from parties.vertical.engine.features import read_weights
from parties.vertical.engine.local_model import LocalModel
from parties.vertical.engine.networks import ActiveNetwork, build_active_network
from parties.vertical.engine.optimiser import UpdateRule
from parties.vertical.engine.party import SECONDS_PER_ROW, VerticalParty
from parties.vertical.engine.party_state import LocalFit, PartyState, fit_steps
from parties.vertical.engine.rows import RowSets, Sample
from parties.vertical.engine.training_loop import CachedTrainingLoop, RowOutputs, TrainingLoop
from parties.vertical.privacy.labels import UsedLabels
from parties.vertical.privacy.one_time_release import erase_forgotten_releases
from protocol import vfl_pb2
from protocol.dataclass_codec import encode
from protocol.hub import Hub
from protocol.message import Body
from unlearning.sharding import mean_shard_logits

T = TypeVar("T")
ROUNDING = 1e-3  # largest rounding error of a number, in standard deviations of the label


class SplitModel:
    """All parties' parts of the model, with methods for training, outputs, copies and checkpoints.

    After a crash, the program runs again from the start, and the journal replays the results of
    completed steps. During replay, only the row sets change; no message is sent and no parameter
    changes, because the checkpoint is already loaded.

    Attributes:
        party: the active party.
        agreement: the agreement of the run.
        checkpoints: the checkpoints of the active party.
        loop: the training loop.
        used_labels: the labels that the training uses.
        ensemble: slots of the copies in the ensemble; empty for a single model.
        run: 16 bytes that identify the run.
    """

    def __init__(
        self,
        party: VerticalParty,
        hub: Hub,
        rows: Index,
        checkpoints: CheckpointStore,
        parts: NDArray[np.uint8] | None = None,
    ) -> None:
        """Start a run on the common ``rows``, [common_rows]: the party's own row number of each.

        ``parts``, [common_rows], are the parts of a split by time; None for other splits.
        """
        self._set_up(
            party,
            hub,
            checkpoints,
            PartyState(party, rows, partial(build_active_network, party), None, parts),
        )
        self.run = next(iter(hub.channels.values())).session or b""
        self._number, self._journal = 0, Journal()

    def _set_up(
        self,
        party: VerticalParty,
        hub: Hub,
        checkpoints: CheckpointStore,
        state: PartyState,
    ) -> None:
        self.party, self.agreement, self._hub = party, party.agreement, hub
        self.checkpoints, self.state = checkpoints, state
        self.start = state.rows
        self.ensemble: tuple[str, ...] = ()
        self._kept_ensembles: dict[str, tuple[str, ...]] = {}  # slots of the members, by slot
        self._saved = monotonic()
        self._resumed = state.batch_order  # of the checkpoint, if the run was resumed
        self._learned: Tensor | None = None  # labels before the last correction, [common_rows]
        self.used_labels = UsedLabels(party, state)
        self.loop = (CachedTrainingLoop if party.agreement.frozen_bottoms else TrainingLoop)(
            party,
            hub,
            state,
            self.used_labels.values,
            read_weights(party, np.maximum(state.features.rows, 0)),
        )

    @classmethod
    def resume(
        cls,
        party: VerticalParty,
        hub: Hub,
        checkpoints: CheckpointStore,
        number: int,
        run: bytes,
    ) -> "SplitModel":
        """Load a checkpoint that every party has.

        Args:
            party: the active party.
            hub: the channels to the passive parties.
            checkpoints: the party's checkpoints.
            number: number of the checkpoint.
            run: 16 bytes that identify the run.
        """
        content = checkpoints.read(number)
        self = cls.__new__(cls)
        state = PartyState.from_content(party, content, partial(build_active_network, party))
        self._set_up(party, hub, checkpoints, state)
        self.run, self._number = run, number
        self._journal = Journal.read(content)
        begin = {name: rows.numpy() for name, rows in content.tensors["start"].items()}
        self.start = RowSets(seed=state.rows.seed, stream="", **begin)  # type: ignore[arg-type]
        if self._journal.replaying:
            self._resumed = state.batch_order
            state.reset_rows(self.start)
        self.loop.labels = content.tensors["labels"]["labels"]
        self.loop.weights = content.tensors["labels"].get("weights")
        self.loop.load(content.tensors)
        party.traffic.restore(content.values["traffic"])
        return self

    @property
    def rows(self) -> RowSets:
        """The current row sets."""
        return self.state.rows

    @property
    def time_limit(self) -> float:
        """Seconds that one party may take for a command that processes all its rows."""
        return self.loop.time_limit + SECONDS_PER_ROW * len(self.labels)

    @property
    def labels(self) -> Tensor:
        """The labels of all common rows, [common_rows]; -1 for erased rows.

        Numbers: NaN for erased rows. Several binary labels: [common_rows, labels].
        """
        return self.loop.labels

    @property
    def learned_labels(self) -> Tensor:
        """The labels that the trained model learned, [common_rows].

        They differ from ``labels`` while a request corrects labels.
        """
        return self.labels if self._learned is None else self._learned

    def end_correction(self) -> None:
        """Drop the wrong labels that a request has corrected."""
        self._learned = None

    def weights_of(self, rows: Index) -> Tensor | None:
        """The weights in the loss of the common ``rows``, [rows]; None if all of them are 1."""
        return self.loop.weights_of(rows)

    @property
    def stream(self) -> str:
        """The random stream of the current model."""
        return self.state.batches.stream

    @property
    def local_model(self) -> LocalModel:
        """The active party's own part of the model."""
        return self.state.local_model

    @property
    def target(self) -> Target:
        """What the current model predicts, with its loss."""
        return cast(ActiveNetwork, self.local_model.model.network).target

    @property
    def replaying(self) -> bool:
        """Whether the program is replaying results that were recorded before a crash."""
        return self._journal.replaying

    @property
    def diverged(self) -> bool:
        """Whether a value computed at any party was not finite."""
        return self.loop.diverged

    # --- journal and checkpoints ----------------------------------------------------------------

    def once(self, name: str, kind: type[T], work: Callable[[], T], *, durable: bool = True) -> T:
        """Return the result of ``work``, or the recorded result if ``work`` ran before a crash.

        Args:
            name: name under which the journal records the result.
            kind: type of the result.
            work: computes the result; only ``work`` sends messages to the other parties.
            durable: whether a checkpoint may be written after the work.
        """
        entry = self._journal.replay(name)
        if entry is not None:
            self.loop.diverged = entry.diverged
            if not self._journal.replaying:
                # The replayed work may have changed the ensemble.
                self.ensemble = self.state.local_model.ensemble
            return recorded_value(entry, kind)
        value = self._journal.record(name, work, lambda: self.loop.diverged)
        if durable and monotonic() - self._saved >= self.agreement.limits.checkpoint_seconds:
            self.checkpoint()
        return value

    def recorded(self, name: str, kind: type[T]) -> T | None:
        """Return the progress that was recorded under ``name`` before a crash; else None."""
        entry = self._journal.begin(name)
        if entry is None:
            return None
        self.loop.diverged = entry.diverged
        if not self._journal.replaying:
            # The work that set these ran before the crash, and is not repeated.
            self.ensemble = self.state.local_model.ensemble
            self.state.use_stream(*self._resumed)
        return recorded_value(entry, kind)

    def record(self, name: str, value: object) -> None:
        """Record the progress of ``name``, in place of the earlier progress of this name."""
        self._journal.update(name, value, diverged=self.loop.diverged)
        if monotonic() - self._saved >= self.agreement.limits.checkpoint_seconds:
            self.checkpoint()

    def checkpoint(self) -> None:
        """Let every party write a checkpoint, and wait until all checkpoints are written."""
        if self._journal.replaying or (self._number and not self._journal.has_new_entries):
            return  # no work was done since the last checkpoint
        self._number += 1
        save = vfl_pb2.WriteCheckpoint(checkpoint=self._number)
        self._command_passive(vfl_pb2.CHECKPOINT, vfl_pb2.ModelCommand(write_checkpoint=save))
        self.checkpoints.write(self._number, self.run, self._content())
        self._saved, self._journal.has_new_entries = monotonic(), False

    def prune_checkpoints(self) -> None:
        """Let every party write a checkpoint and delete all older checkpoints.

        The older checkpoints still contain state that depends on the forgotten rows. Then every
        party erases what it has released of these rows.
        """
        if not self._journal.replaying:
            self.checkpoint()
            prune = vfl_pb2.PruneCheckpoints(checkpoint=self._number)
            command = vfl_pb2.ModelCommand(prune_checkpoints=prune)
            self._command_passive(vfl_pb2.CHECKPOINT, command)
            self.checkpoints.prune(self._number)
            erase_forgotten_releases(self.party.state)

    def keep_version(self, store: ModelStore, number: int, facts: VersionFacts) -> None:
        """Let every party write its present state as version ``number`` of the model.

        A program that resumes from the version starts with an empty journal.
        """
        version = encode(facts, vfl_pb2.Version)
        write = vfl_pb2.WriteCheckpoint(checkpoint=number, version=version)
        self._command_passive(vfl_pb2.CHECKPOINT, vfl_pb2.ModelCommand(write_checkpoint=write))
        self.state.local_model.end()
        self._journal, self.start = Journal(), self.state.rows
        store.write(number, self.run, self._content(identified=True), facts)
        self._saved = monotonic()
        if self.checkpoints.sealed:  # the checkpoints are the files of the store
            self._number = number

    def erase_before(self, number: int) -> None:
        """Let every party erase everything that it keeps from before version ``number``."""
        prune = vfl_pb2.PruneCheckpoints(checkpoint=number, versions=True)
        self._command_passive(vfl_pb2.CHECKPOINT, vfl_pb2.ModelCommand(prune_checkpoints=prune))

    @property
    def number(self) -> int:
        """The number of the newest checkpoint; 0 without a checkpoint."""
        return self._number

    def _content(self, *, identified: bool = False) -> CheckpointContent:
        state = self.state.content(identified=identified or self.checkpoints.sealed)
        entries = self._journal.entries
        values = state.values | {
            "journal": [[each.name, each.value, each.diverged] for each in entries],
            "traffic": self.party.traffic.to_json(),
        }
        tensors = {f"entry {place}": each.tensors for place, each in enumerate(entries)}
        start = {name: torch.from_numpy(rows.copy()) for name, rows in self.start.arrays().items()}
        labels = {"labels": self.loop.labels}
        if self.loop.weights is not None:
            labels["weights"] = self.loop.weights
        tensors |= {"start": start, "labels": labels}
        return CheckpointContent(values, state.tensors | tensors | self.loop.kept())

    # --- commands to all parties ----------------------------------------------------------------

    def initialise(
        self,
        stream: str,
        fit: vfl_pb2.Rows,
        task: vfl_pb2.Task,
        shard: int | None = None,
        rule: UpdateRule | None = None,
        sample: Sample | None = None,
        *,
        from_kept: bool = False,
    ) -> None:
        """Initialise a new model at all parties.

        Args:
            stream: random stream of the weights and the batch order.
            fit: row set on which preprocessing is fitted.
            task: the task that starts.
            shard: train on the rows of this shard only; None for all rows.
            rule: the update rule of the training; None for Newton steps.
            sample: the row set ``SAMPLE``; None: it has no rows.
            from_kept: start from the kept version that the handshake named, in place of new
                weights; a party that is new in the federation starts from new weights.
        """
        fresh = vfl_pb2.Initialise(
            stream=stream,
            preprocessing_rows=fit,
            shard=shard,
            rule=None if rule is None else encode(rule, vfl_pb2.UpdateRule),
            sample=None if sample is None else encode(sample, vfl_pb2.Sample),
            from_kept=True if from_kept else None,
        )
        self._change_all(task, vfl_pb2.ModelCommand(initialise=fresh))
        if not (self._journal.replaying or (from_kept and self.state.uses_kept)):
            self._standardise(fit)
        self.weigh(fit)
        self._refuse_no_weight(fit, shard)
        self.state.use_stream(stream, shard, sample)
        self.ensemble = ()
        self.loop.diverged = False

    def _standardise(self, rows: vfl_pb2.Rows) -> None:
        """Set mean and scale of a number: of its values in a row set, or of its declared range."""
        target = self.target
        if not isinstance(target, NumberTarget):
            return
        if self.agreement.preprocessing == "declared":
            low, high = declared_target(self.party.settings.data)
            target.standardise((low + high) / 2, (high - low) / 2)
        else:
            chosen = self.rows.select(rows)
            known, weights = self.labels[chosen].double(), self.loop.weights
            if weights is None or not bool(weights[chosen].any()):
                target.standardise(known.mean().item(), standard_deviation(known))
            else:
                target.standardise(*_weighted_moments(known, weights[chosen]))
        self._warn_of_rounding(target)

    def _warn_of_rounding(self, target: NumberTarget) -> None:
        """Warn if the label's mean is so far above its spread that float32 rounds the spread."""
        mean, scale = target.mean.item(), target.scale.item()
        rounding = abs(mean) * torch.finfo(torch.float32).eps / scale
        if rounding > ROUNDING:
            self.party.progress.warn(
                f"the label has the mean {mean:.6g} and the standard deviation {scale:.3g}, so the "
                f"model's numbers are rounded to {rounding:.1%} of the standard deviation: "
                "subtract a constant from the label, such as its mean"
            )

    def weigh(self, rows: vfl_pb2.Rows) -> None:
        """Set the agreed weights of classes and rows in the loss, for a training on a row set.

        Balanced weights of the classes are those of the row set. The weights of the rows are
        divided by their mean over the row set; in a shard, over the rows of the shard.
        """
        if self._journal.replaying:
            return
        self._weigh_classes(rows)
        weights = self.loop.weights
        if weights is not None:
            network = cast(ActiveNetwork, self.local_model.model.network)
            mean = weights[self.state.batches.rows.select(rows)].mean().item()
            cast(Tensor, network.mean_weight).fill_(mean or 1.0)  # if all are 0, so is the loss

    def _refuse_no_weight(self, rows: vfl_pb2.Rows, shard: int | None) -> None:
        """Refuse a training without a row of positive weight; a request may leave such rows."""
        weights, plan = self.loop.weights, self.agreement.training
        if weights is None or rows != vfl_pb2.TRAIN_ROWS or shard is not None:
            return
        parts = {"training": self.rows.train}
        if plan.patience is not None and plan.monitor == "loss":
            parts["validation"] = self.rows.validation  # early stopping watches their loss
        for name, part in parts.items():
            if not bool(weights[part].any()):
                raise DataError(
                    f"training.sample_weights: the weights of all {len(part)} {name} rows of "
                    f"{self.party.name} are 0 (data.weight)",
                    f"give {name} rows a weight above 0",
                )

    def _weigh_classes(self, rows: vfl_pb2.Rows) -> None:
        agreed = self.agreement.training.class_weights
        if agreed is None:
            return
        target = cast(ClassTarget, self.target)
        classes = self.agreement.labels.classes
        if agreed == "balanced":
            target.weigh(balanced_weights(self.labels[self.rows.select(rows)], len(classes)))
        else:
            target.weigh([agreed[name] for name in classes])

    def restore_copy(
        self,
        slot: str,
        stream: str,
        task: vfl_pb2.Task,
        rule: UpdateRule | None = None,
        sample: Sample | None = None,
    ) -> None:
        """Restore the copy or the ensemble named ``slot``.

        Args:
            slot: the name of the copy.
            stream: random stream of the batch order.
            task: the task that starts.
            rule: the update rule of the steps that follow; None if no steps follow.
            sample: the row set ``SAMPLE``; None: it has no rows.
        """
        if slot in self._kept_ensembles:
            self.use_ensemble(self._kept_ensembles[slot])
            return
        restore = vfl_pb2.RestoreCopy(
            slot=slot,
            stream=stream,
            rule=None if rule is None else encode(rule, vfl_pb2.UpdateRule),
            sample=None if sample is None else encode(sample, vfl_pb2.Sample),
        )
        self._change_all(task, vfl_pb2.ModelCommand(restore_copy=restore))
        self.state.use_stream(stream, sample=sample)
        self.loop.diverged = False
        self.ensemble = ()

    def use_ensemble(self, slots: Sequence[str]) -> None:
        """Use the copies in ``slots`` as an ensemble, which averages the logits of the copies."""
        assemble = vfl_pb2.UseEnsemble(slots=slots)
        self._change_all(vfl_pb2.EVALUATE, vfl_pb2.ModelCommand(use_ensemble=assemble))
        self.ensemble = tuple(slots)

    def keep_copy(self, slot: str, task: vfl_pb2.Task) -> None:
        """Copy all parameters to ``slot``; for an ensemble, keep only the members' names."""
        if self.ensemble:
            self._kept_ensembles[slot] = self.ensemble
            return
        self._change_all(task, vfl_pb2.ModelCommand(keep_copy=vfl_pb2.KeepCopy(slot=slot)))

    def drop_copy(self, slot: str, task: vfl_pb2.Task) -> None:
        """Delete the copy in ``slot`` at all parties."""
        self._change_all(task, vfl_pb2.ModelCommand(drop_copy=vfl_pb2.DropCopy(slot=slot)))

    def primal_step(self, step: vfl_pb2.PrimalStep, task: vfl_pb2.Task) -> None:
        """Let all parties take a primal step without retained rows (FedORA with δ = 0)."""
        self._change_all(task, vfl_pb2.ModelCommand(primal_step=step))

    def ascent_step(self, step_size: float, task: vfl_pb2.Task) -> None:
        """Let every party take a step along its stored gradient."""
        step = vfl_pb2.AscentStep(step_size=step_size)
        self._change_all(task, vfl_pb2.ModelCommand(ascent_step=step))

    def shrink(self, bottom: float, top: float, stream: str, task: vfl_pb2.Task) -> None:
        """Move the parameters of all parties towards new random values, then start ``task``.

        Args:
            bottom: how far the bottom models move: from 0 (not at all) to 1 (all the way).
            top: how far the top model moves.
            stream: random stream of the new parameter values.
            task: the task that starts.
        """
        step = vfl_pb2.Shrink(stream=stream, bottom=bottom, top=top)
        self._change_all(task, vfl_pb2.ModelCommand(shrink=step))

    def fit_bottoms(
        self, rows: vfl_pb2.Rows, fit: LocalFit, epoch: int, task: vfl_pb2.Task
    ) -> None:
        """Let every party take the steps of one epoch of its local fit; all parties work at once.

        Args:
            rows: the row set of the fit.
            fit: the fit.
            epoch: number of the epoch, from 1.
            task: the current task.
        """
        if self._journal.replaying:
            return
        self._hub.move_to(vfl_pb2.Place(task=task, epoch=epoch, step=0, microbatch=0))
        remaining = fit.steps_of_epoch(self.loop.row_count(rows))
        while remaining:
            steps = min(fit_steps(self.agreement), remaining)
            order = vfl_pb2.FitBottom(rows=rows, steps=steps, fit=encode(fit, vfl_pb2.LocalFit))
            command = vfl_pb2.ModelCommand(fit_bottom=order)
            self._hub.broadcast(command)
            self.state.execute(command, task)
            self._hub.gather(self.time_limit + steps * self.loop.time_limit)
            self.party.progress.step(steps)
            remaining -= steps

    def report_norms(self, task: vfl_pb2.Task) -> list[vfl_pb2.BlockReport]:
        """The passive parties' reports, with norms of stored gradients and parameter changes."""
        return list(
            self._command_passive(
                task, vfl_pb2.ModelCommand(report_norms=vfl_pb2.ReportNorms())
            ).values()
        )

    def command_all(
        self, task: vfl_pb2.Task, command: vfl_pb2.ModelCommand
    ) -> dict[str, vfl_pb2.BlockReport]:
        """Let all parties carry out a command, and return the reports by party.

        Call this method only in a function that is passed to ``once``, because the method sends
        messages.
        """
        reports = self._command_passive(task, command)
        own = self.state.execute(command, task)
        return {**reports, self.party.name: own or vfl_pb2.BlockReport()}

    def forget(self, requested: Index, requests: Sequence[str] = ()) -> None:
        """Start a request: send the indices of the ``requested`` rows, [rows], to every party.

        ``requests`` are the IDs of journaled requests; empty for a request of the agreement.
        """
        if not self._journal.replaying:
            order = vfl_pb2.ForgetRows(requests=requests)
            self.send_to_passive(vfl_pb2.UNLEARN, order, requested)
        self.state.forget(requested)

    def correct(
        self, rows: Index, learned: Index, own: Index, requests: Sequence[str] = ()
    ) -> None:
        """Start a request that replaces labels; training rows stay in the training.

        No label is sent, and no row without a training row: the model did not learn these labels.

        Args:
            rows: [rows], the rows, ascending.
            learned: [rows], the wrong labels, which the model learned.
            own: [rows], the labels that replace them.
            requests: IDs of journaled requests; empty for a request of the agreement.
        """
        trained = np.intersect1d(rows, self.rows.train)
        if len(trained):
            if not self._journal.replaying:
                order = vfl_pb2.ForgetRows(corrects=True, requests=requests)
                self.send_to_passive(vfl_pb2.UNLEARN, order, trained)
            self.state.forget(trained, corrects=True)
        self._learned = self.labels.clone()
        self._learned[rows] = torch.from_numpy(learned)
        self.labels[rows] = torch.from_numpy(own)

    def goodbye(self) -> None:
        """End the run: send ``Goodbye``, and delete the active party's checkpoints."""
        self._move_to(vfl_pb2.CLOSE)
        self._hub.broadcast(vfl_pb2.Goodbye())
        self.checkpoints.clear()

    # --- outputs --------------------------------------------------------------------------------

    def logits(
        self,
        rows: vfl_pb2.Rows,
        task: vfl_pb2.Task = vfl_pb2.EVALUATE,
        most: int | None = None,
    ) -> Tensor:
        """The logits of a row set, or its first ``most`` rows, in index order, [rows, classes]."""
        return self.read(rows, task, most).logits

    def read(
        self,
        rows: vfl_pb2.Rows,
        task: vfl_pb2.Task = vfl_pb2.EVALUATE,
        most: int | None = None,
    ) -> RowOutputs:
        """Logits and embeddings of a row set in index order.

        For an ensemble, the logits are averaged over the members, and the embeddings are
        concatenated. With ``most``, only the first ``most`` rows are read.

        Returns:
            Logits [rows, classes] and embeddings [rows, total_width].
        """
        if not self.ensemble:
            return self.loop.read(rows, task, most)
        outputs = []
        members = self.ensemble
        for member in members:
            self.restore_copy(member, self.stream, task)
            outputs.append(self.loop.read(rows, task, most))
        self.ensemble = members
        embeddings = torch.cat([each.embeddings for each in outputs], dim=-1)
        return RowOutputs(mean_shard_logits([each.logits for each in outputs]), embeddings)

    # --- messages -------------------------------------------------------------------------------

    def send_to_passive(self, task: int, message: Body, *rows: Index) -> dict[str, vfl_pb2.Done]:
        """Send a message and the index arrays ``rows``, each [rows], to every passive party.

        Call this method only in a function that is passed to ``once``.

        Returns:
            The reply of each passive party.
        """
        self._move_to(task)
        self._hub.broadcast(message, *rows)
        done = self._hub.gather(self.time_limit)
        return {name: reply.expect(vfl_pb2.Done) for name, reply in done.items()}

    def command_party(self, party: str, task: vfl_pb2.Task, message: Body, *rows: Index) -> None:
        """Send one party a message and the index arrays ``rows``, each [rows].

        If ``party`` is the active party, a command runs directly and no message is sent.
        """
        if self._journal.replaying:
            return
        if party == self.party.name and isinstance(message, vfl_pb2.ModelCommand):
            self.state.execute(message, task)
            return
        self._move_to(task)
        self._hub.ask(party, self.time_limit, message, *rows)

    def _change_all(self, task: vfl_pb2.Task, command: vfl_pb2.ModelCommand) -> None:
        if not self._journal.replaying:
            self._command_passive(task, command)
            self.state.execute(command, task)

    def _command_passive(
        self, task: int, command: vfl_pb2.ModelCommand
    ) -> dict[str, vfl_pb2.BlockReport]:
        """Send a command to the passive parties and return the reports by party."""
        with self.party.traffic.time_phase("control"):
            done = self.send_to_passive(task, command)
        return {name: each.report for name, each in done.items()}

    def _move_to(self, task: int) -> None:
        self._hub.move_to(vfl_pb2.Place(task=task, epoch=0, step=0, microbatch=0))  # type: ignore[arg-type]


def _weighted_moments(values: Tensor, weights: Tensor) -> tuple[float, float]:
    """Mean and standard deviation of ``values``, [rows], with ``weights``, [rows]."""
    shares = weights / weights.sum()
    mean = (shares * values).sum()
    if not standard_deviation(values[shares > 0]):
        return mean.item(), 0.0
    return mean.item(), (shares * (values - mean).square()).sum().sqrt().item()
