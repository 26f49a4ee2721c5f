"""Checks of the active party's orders at a passive party, before an order changes anything.

A passive party carries out an order only if the agreement allows the order, and if the party's
state can carry it out. ``vfl.proto`` has the bounds that hold for every agreement.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import isclose
from typing import Protocol

import numpy as np

from configs.agreement import VerticalAgreement
from configs.local_start import LocalStartSettings
from parties.common.shared_randomness import Index
from parties.session.checkpoint import CheckpointStore
from parties.vertical.engine.features import planned_backdoor
from parties.vertical.engine.local_model import TaskState
from parties.vertical.engine.optimiser import UpdateRule, first_rule, fit_rule
from parties.vertical.engine.party_state import LocalFit, PartyState
from parties.vertical.engine.rows import Sample, part_of
from parties.vertical.engine.train import release_noise
from parties.vertical.engine.training_loop import largest_batch, largest_reading
from parties.vertical.methods.orders import Orders, Start, training_orders
from parties.vertical.methods.registry import agreed_orders
from protocol import vfl_pb2
from protocol.dataclass_codec import decode
from protocol.envelope import task_name
from protocol.errors import RemoteProtocolError

HINT = "use the same version of vfl and the same agreement at all parties"
ROUNDING = 1e-9  # relative tolerance of a largest step, for rounding errors
COPIES = 16  # kept copies of a run without shards and without Newton steps
# The rows that may be used with a gradient.
_LEARNED = {
    vfl_pb2.TRAIN: (vfl_pb2.TRAIN_ROWS, vfl_pb2.RETAIN, vfl_pb2.SHADOW_HALF),
    vfl_pb2.UNLEARN: (vfl_pb2.TRAIN_ROWS, vfl_pb2.RETAIN, vfl_pb2.FORGOTTEN, vfl_pb2.SAMPLE),
    vfl_pb2.RELEARN: (vfl_pb2.FORGOTTEN,),
}


# The rows to which a bottom model may be fitted; no local fit reads D_u of the current request.
_FITTED = {vfl_pb2.TRAIN: _LEARNED[vfl_pb2.TRAIN], vfl_pb2.UNLEARN: (vfl_pb2.RETAIN,)}


# Rows, [rows], of journaled requests that may be carried out now; None: one of them may not.
class StartedRequests(Protocol):
    """Names the rows of journaled requests that may be carried out now."""

    def __call__(self, requests: Sequence[str], *, corrects: bool) -> Index | None:
        """Return the rows, [rows]; None if a request may not be carried out.

        Args:
            requests: IDs of the requests.
            corrects: whether they replace labels; else they forget rows.
        """


class OrderCheck:
    """Checks each order of the active party against the agreement and this party's state.

    Every method raises ``RemoteProtocolError`` for an order that must not be carried out, and
    changes nothing.
    """

    def __init__(
        self,
        agreement: VerticalAgreement,
        name: str,
        state: PartyState,
        checkpoints: CheckpointStore,
        started: StartedRequests | None = None,
        made: Callable[[], int] = int,
        *,
        continues: bool = False,
    ) -> None:
        """Check the orders to the passive party ``name``, which has this state.

        ``started`` returns the rows, [rows], of journaled requests that may be carried out; None
        in a training, which carries out the requests of the agreement. ``made`` returns the largest
        number of a version that a journaled request has made: a later version has a larger number.
        ``continues``: whether the party was started to go on from a kept version.
        """
        self._agreement, self._name = agreement, name
        self._state, self._checkpoints = state, checkpoints
        self._started, self._made, self._continues = started, made, continues
        self._orders = agreed_orders(agreement)
        self._training = training_orders(agreement, continues=continues)

    # --- batches and gradients -------------------------------------------------------------------

    def batch(self, request: vfl_pb2.BatchRequest, task: vfl_pb2.Task, *, learns: bool) -> None:
        """Check the request for a batch; a gradient follows if ``learns`` is true.

        Raises:
            RemoteProtocolError: there is no model, or the rows, their order, the size or the epoch
                are not agreed, or the batch has no rows.
        """
        self._require_model("a batch")
        if learns:
            self._require_task("a batch with a gradient", task, *_LEARNED)
            if request.rows not in (legal := self._agreed(_LEARNED[task])):
                raise _refusal(
                    f"a gradient of the rows {vfl_pb2.Rows.Name(request.rows)}",
                    "rows of the training set: "
                    + ", ".join(vfl_pb2.Rows.Name(each) for each in legal),
                )
        if request.order == vfl_pb2.SHUFFLED:
            self._require_epoch(request, task)
        else:
            sizes = {largest_batch(self._agreement)}
            sizes |= set() if learns else {largest_reading(self._agreement)}
            sizes |= {size for each in self._orders for size in each.passes}
            if request.size not in sizes and request.rows == vfl_pb2.RETAIN and not learns:
                count, most = len(self._state.rows.retain), largest_reading(self._agreement)
                shares = {share for each in self._orders for share in each.shares}
                sizes |= {min(part_of(share, count), most) for share in shares}
            if request.size not in sizes:
                raise _refusal(f"batches of {request.size} rows in index order", _listed(sizes))
        self._state.batches.rows_of(request)

    def _require_epoch(self, request: vfl_pb2.BatchRequest, task: vfl_pb2.Task) -> None:
        relearn = self._agreement.evaluation.relearn
        batches: Sequence[tuple[int, int]] = ()
        match task:
            case vfl_pb2.TRAIN:
                batches = [each for orders in self._training for each in orders.batches]
            case vfl_pb2.UNLEARN:
                batches = [each for orders in self._orders for each in orders.batches]
            case vfl_pb2.RELEARN if relearn is not None:
                batches = [(relearn.batch, relearn.max_steps + 1)]  # an epoch has a batch
        if not any(request.size == s and 1 <= request.epoch <= e for s, e in batches):
            legal = [f"{size} rows up to epoch {epochs}" for size, epochs in batches]
            raise _refusal(
                f"a shuffled batch of {request.size} rows in epoch {request.epoch}", _listed(legal)
            )

    def gradient(self, gradient: vfl_pb2.Gradient, place: vfl_pb2.Place) -> None:
        """Check the use of a gradient, whose batch was requested at ``place``.

        Raises:
            RemoteProtocolError: the use is not agreed, or the current task cannot carry it out.
        """
        match gradient.WhichOneof("use"):
            case "descend" if self._task.optimiser is None:
                raise _refusal("an optimiser step", "a step of a task with an optimiser")
            case "descend" if gradient.descend.HasField("scale") and not self._scales(place.task):
                raise _refusal("a scaled learning rate", "the whole learning rate")
            case "hold" if place.microbatch:
                self._require_held("to add a gradient")
            case "add_to_held":
                self._require_held("to add a gradient")
            case "accumulate" if self._agreement.training.overlap != "microbatch":
                raise _refusal("micro-batches", "whole batches, because training.overlap is off")
            case "primal_step":
                self._primal_step(gradient.primal_step, place.task)

    # --- commands --------------------------------------------------------------------------------

    def command(self, command: vfl_pb2.ModelCommand, task: vfl_pb2.Task) -> None:
        """Check a command.

        Raises:
            RemoteProtocolError: the command is not agreed, or needs state that does not exist.
        """
        match command.WhichOneof("command"):
            case "initialise":
                self._initialise(command.initialise, task)
            case "restore_copy":
                self._restore(command.restore_copy, task)
            case "primal_step":
                self._require_model("a primal step")
                self._primal_step(command.primal_step, task)
            case "ascent_step":
                self._ascent_step(command.ascent_step.step_size, task)
            case "shrink":
                self._shrink(command.shrink, task)
            case "fit_bottom":
                self._fit_bottom(command.fit_bottom, task)
            case "newton":
                self._newton(command.newton, task)
            case "use_ensemble":
                self._ensemble(command.use_ensemble.slots)
            case "report_commitment":
                raise _refusal("a commitment to the model", "one at the end of a replay")
            case _:
                self._copy_command(command)

    def _copy_command(self, command: vfl_pb2.ModelCommand) -> None:
        """Check a command about copies, reports or checkpoints."""
        match command.WhichOneof("command"):
            case "keep_copy":
                self._require_model("a copy")
                slots = {*self._state.local_model.slots, command.keep_copy.slot}
                if len(slots) > (most := _most_copies(self._agreement)):
                    raise _refusal(f"{len(slots)} copies of the model", f"at most {most}")
            case "drop_copy":
                self._require_copy(command.drop_copy.slot)
            case "report_digest":
                self._require_copy(command.report_digest.slot)
            case "test_reconstruction":
                self._require_model("a reconstruction")
                self._require_copy(command.test_reconstruction.slot)
            case "report_norms":
                self._norms(command.report_norms)
            case "report_privacy_spent":
                self._require_model("a report of the privacy loss")
                if self._agreement.privacy.embed_once is None:
                    raise _refusal("a report of the privacy loss", "none without embed_once")
            case "write_checkpoint" | "prune_checkpoints":
                self._checkpoint(command)

    def _checkpoint(self, command: vfl_pb2.ModelCommand) -> None:
        """Check the number of a checkpoint to write, or of the oldest one to keep."""
        numbers = self._checkpoints.offer().numbers
        if command.HasField("prune_checkpoints"):
            if command.prune_checkpoints.versions and not self._checkpoints.sealed:
                raise _refusal("to erase versions of the model", "none in a training")
            if (oldest := command.prune_checkpoints.checkpoint) not in numbers:
                raise _refusal(
                    f"to delete the checkpoints before {oldest}",
                    f"the number of a checkpoint that {self._name} stores",
                )
            return
        write = command.write_checkpoint
        written, following = write.checkpoint, max(numbers, default=0) + 1
        own = not write.HasField("version") or self._checkpoints.sealed
        if write.HasField("version"):
            following = max(following, 1 + self._made())
        if own and written != following:
            raise _refusal(f"to write checkpoint {written}", f"checkpoint {following}")

    def _initialise(self, fresh: vfl_pb2.Initialise, task: vfl_pb2.Task) -> None:
        agreed = self._agreement
        self._require_task("a new model", task, vfl_pb2.TRAIN, vfl_pb2.UNLEARN)
        start, rows = _start(fresh), fresh.preprocessing_rows
        if fresh.from_kept and not (self._continues and task == vfl_pb2.TRAIN):
            raise _refusal("a model from a kept version", "new weights")
        shards = agreed.sharding.shards
        if fresh.HasField("shard") is not (shards > 1) or fresh.shard >= shards:
            raise _refusal(
                f"a model of shard {fresh.shard}",
                f"a shard below {shards}" if shards > 1 else "a model without shards",
            )
        if task == vfl_pb2.TRAIN:
            legal = start in self._training_starts and rows in self._agreed(_LEARNED[task])
        else:
            fresh_starts = [each for orders in self._orders for each in orders.fresh]
            fresh_starts += [(first_rule(plan), None) for plan in self._local(task)]
            learned = vfl_pb2.RETAIN if start[1] is None else vfl_pb2.SAMPLE
            legal = start in fresh_starts and rows == learned
        if not legal:
            raise _refusal(
                f"a new model with the rule {start[0]}, the sample {start[1]} and preprocessing "
                f"for {vfl_pb2.Rows.Name(rows)}",
                f"the settings of the agreement in the task {_name(task)}",
            )
        sets = replace(self._state.rows, stream=fresh.stream, sample=start[1])
        if not len(sets.select(rows)):
            raise _refusal(f"preprocessing for {vfl_pb2.Rows.Name(rows)}", "a set with rows")

    def _agreed(self, rows: Sequence[vfl_pb2.Rows]) -> list[vfl_pb2.Rows]:
        """These row sets, without that of shadow models if none are agreed."""
        shadows = self._agreement.evaluation.shadows > 0
        return [each for each in rows if shadows or each != vfl_pb2.SHADOW_HALF]

    @property
    def _training_starts(self) -> list[tuple[UpdateRule | None, Sample | None]]:
        """No rule for a model that takes no optimiser steps, or the rule of the training."""
        newton = self._agreement.training.optimiser == "newton-cg"
        local = [(first_rule(plan), None) for plan in self._local(vfl_pb2.TRAIN)]
        trained = [each for orders in self._training for each in orders.starts] + local
        return [(None, None), *([] if newton else trained)]

    def _restore(self, command: vfl_pb2.RestoreCopy, task: vfl_pb2.Task) -> None:
        self._require_copy(command.slot)
        start, relearn = _start(command), self._agreement.evaluation.relearn
        legal: list[tuple[UpdateRule | None, Sample | None]] = [(None, None)]
        match task:
            case vfl_pb2.TRAIN:
                legal = self._training_starts
            case vfl_pb2.UNLEARN:
                legal += [each for orders in self._orders for each in orders.starts]
            case vfl_pb2.RELEARN if relearn is not None:
                legal.append((UpdateRule("sgd", relearn.learning_rate), None))
        if start not in legal:
            raise _refusal(
                f"a copy with the rule {start[0]} and the sample {start[1]}",
                f"the settings of the agreement in the task {_name(task)}",
            )

    def _primal_step(self, step: vfl_pb2.PrimalStep, task: vfl_pb2.Task) -> None:
        self._require_task("a primal step", task, vfl_pb2.UNLEARN)
        self._require_held("a primal step")
        limits = [each.primal for each in self._orders if each.primal is not None]
        sizes = [each for each in limits if _at_most(step.step_size, each.step_size)]
        literal, scalar = step.literal, step.WhichOneof("dual") == "multiplier"
        legal = (
            (scalar and _at_most(step.multiplier, each.multiplier))
            or (
                not scalar
                and each.dual_step is not None
                and isclose(literal.max, each.multiplier, rel_tol=ROUNDING)
                and _at_most(literal.step_size, each.dual_step)
            )
            for each in sizes
        )
        if not any(legal):
            found = step.multiplier if scalar else f"of every parameter up to {literal.max}"
            raise _refusal(
                f"a primal step of {step.step_size} with the dual {found}",
                _listed(f"at most {each.step_size} with {each.multiplier}" for each in limits),
            )
        noise = max((each.noise * step.step_size for each in sizes), default=0.0)
        if not _at_most(step.noise.deviation, noise):
            raise _refusal(f"noise of {step.noise.deviation}", f"at most {noise}")
        if not scalar and not literal.HasField("step_size") and self._task.dual is None:
            raise _refusal("a later primal step of an iteration", "the first one before it")

    def _ascent_step(self, size: float, task: vfl_pb2.Task) -> None:
        self._require_task("a step along the held gradient", task, vfl_pb2.UNLEARN)
        self._require_held("a step along it")
        largest = max((each.ascent for each in self._orders), default=0.0)
        if not _at_most(size, largest):
            raise _refusal(f"a step of {size} along the held gradient", f"at most {largest}")

    def _shrink(self, shrink: vfl_pb2.Shrink, task: vfl_pb2.Task) -> None:
        self._require_task("to shrink the model", task, vfl_pb2.UNLEARN)
        self._require_model("to shrink the model")
        shares = [each for orders in self._orders for each in orders.shrinks]
        if (shrink.bottom, shrink.top) not in shares:
            raise _refusal(
                f"to shrink bottom models by {shrink.bottom} and the top by {shrink.top}",
                _listed(f"{bottom} and {top}" for bottom, top in shares),
            )

    def _fit_bottom(self, order: vfl_pb2.FitBottom, task: vfl_pb2.Task) -> None:
        self._require_model("a local fit")
        legal = self._agreed(_FITTED.get(task, ()))
        if order.rows not in legal:
            raise _refusal(
                f"a local fit to the rows {vfl_pb2.Rows.Name(order.rows)} in the task "
                f"{_name(task)}",
                _listed(vfl_pb2.Rows.Name(each) for each in legal),
            )
        fit, count = decode(order.fit, LocalFit), len(self._state.rows.select(order.rows))
        agreed = [LocalFit.agreed(plan, self._agreement, count) for plan in self._local(task)]
        if fit not in agreed:
            raise _refusal(f"the local fit {fit}", _listed(each for each in agreed if each))
        rule = self._task.rule
        of_fit = rule in [fit_rule(plan) for plan in self._local(task)]
        kept = self._state.uses_kept and order.rows == vfl_pb2.TRAIN_ROWS  # takes no step
        if not ((self._task.fresh or kept) and self._task.task == task and of_fit):
            raise _refusal("a local fit", "a new model with the rule of the fit before it")
        if (end := self._task.fitted + order.steps) > (steps := fit.steps(count)):
            raise _refusal(f"the local fit's step {end}", f"at most {steps} steps")

    def _local(self, task: vfl_pb2.Task) -> list[LocalStartSettings]:
        """The agreed settings of trainings with a local start in a task."""
        orders: dict[int, list[Orders]] = {
            vfl_pb2.TRAIN: self._training,
            vfl_pb2.UNLEARN: self._orders,
        }
        return [plan for each in orders.get(task, []) for plan in each.local]

    def _scales(self, task: vfl_pb2.Task) -> bool:
        """Whether a training of a task may scale the learning rate of a step."""
        if task == vfl_pb2.TRAIN:
            return any(each.scales for each in self._training)
        return task == vfl_pb2.UNLEARN and any(each.scales for each in self._orders)

    def _newton(self, newton: vfl_pb2.Newton, task: vfl_pb2.Task) -> None:
        name, agreed = newton.WhichOneof("command"), self._agreement
        if agreed.training.optimiser != "newton-cg":
            raise _refusal("a Newton step", f"training.optimiser {agreed.training.optimiser}")
        self._require_task("a Newton step", task, vfl_pb2.TRAIN, vfl_pb2.UNLEARN)
        self._require_model("a Newton step")
        solver, sigma = self._task.solver, release_noise(agreed)
        if name == "noise" and newton.noise.sigma != sigma:
            raise _refusal(f"noise with the deviation {newton.noise.sigma}", f"{sigma}")
        if name == "regularise":
            self._require_held("to regularise it")
        if name == "start" and not (solver and solver.held):
            raise _refusal("to start a linear system", "a regularised gradient before it")
        if name in ("step", "direction", "apply") and not (solver and solver.solve):
            raise _refusal(f"the Newton command {name!r}", "the command 'start' before it")
        # αₖ = |r|² / pᵀHp ≤ 1/λ, because H ≥ λ and |p| ≥ |r|; rounding errors need some more.
        if name == "step" and newton.step.length > 2 / agreed.newton.weight:
            raise _refusal(
                f"a step of length {newton.step.length}", f"at most {2 / agreed.newton.weight}"
            )

    def _ensemble(self, slots: Sequence[str]) -> None:
        shards = self._agreement.sharding.shards
        if shards == 1 or not 1 <= len(slots) <= shards or len(set(slots)) < len(slots):
            raise _refusal(
                f"an ensemble of {len(slots)} copies",
                f"1 to {shards} different copies" if shards > 1 else "none without shards",
            )
        for slot in slots:
            self._require_copy(slot)

    def _norms(self, asked: vfl_pb2.ReportNorms) -> None:
        self._require_model("a report of norms")
        if asked.HasField("slot"):
            self._require_copy(asked.slot)
        if not asked.HasField("anchor"):
            return
        self._require_copy(asked.anchor)
        if not self._agreement.frozen_bottoms:  # else no bottom model has a gradient
            self._require_held("its norm")
        anchor, block = (
            self._state.local_model.copy(asked.anchor),
            self._state.local_model.model.block,
        )
        if [each.shape for each in anchor] != [each.shape for each in block]:
            raise _refusal(f"the distance to the copy {asked.anchor!r}", "a copy of equal shapes")
        agreed = {0.0, *(each.proximal for each in self._orders)}
        if asked.proximal not in agreed:
            raise _refusal(f"a proximal term with the weight {asked.proximal}", _listed(agreed))

    # --- rows ------------------------------------------------------------------------------------

    def forget(
        self,
        rows: Index,
        task: vfl_pb2.Task,
        requests: Sequence[str] = (),
        *,
        corrects: bool = False,
    ) -> None:
        """Check the rows of a request, [rows], and the IDs of the journaled ``requests``.

        If the request ``corrects`` labels, its rows stay in the training.

        Raises:
            RemoteProtocolError: no such request is agreed, or this party did not journal and
                approve the requests, or the last request is not purged, the list is not a list of
                common rows, or no training row would remain.
        """
        self._require_task("a request", task, vfl_pb2.UNLEARN)
        self._require_rows(rows, "forget")
        agreed, kinds = self._agreement.corrects, ["to forget rows", "to correct labels"]
        if self._started is None and corrects is not agreed:
            raise _refusal(kinds[corrects], f"a request {kinds[agreed]}")
        if corrects and not np.isin(rows, self._state.rows.train).all():
            raise _refusal("to correct labels of other rows", "training rows")
        if self._started is not None:
            journaled = self._started(requests, corrects=corrects)
            if journaled is None or not np.array_equal(np.setdiff1d(rows, journaled), []):
                raise _refusal(
                    f"{kinds[corrects]} ({len(rows)}) for the requests "
                    f"{', '.join(requests) or 'none'}",
                    "the rows of requests that this party journaled and approved",
                )
        elif requests:
            raise _refusal("to forget rows for journaled requests", "the agreement's in training")
        if self._state.unpurged:
            raise _refusal("a second request", "the purge of the first request before it")
        if not corrects and np.isin(self._state.rows.train, rows).all():
            raise _refusal("to forget all training rows", "a request that leaves training rows")

    def plant(self, rows: Index, task: vfl_pb2.Task) -> None:
        """Check the rows that will carry the trigger, [rows].

        Raises:
            RemoteProtocolError: the agreement has no backdoor of this party, the trigger is
                planted already, or a row is not a training row.
        """
        self._require_task("a trigger", task, vfl_pb2.TRAIN)
        if planned_backdoor(self._agreement, self._name) is None:
            raise _refusal("a trigger", f"none, because no request plants one at {self._name}")
        self._require_rows(rows, "plant a trigger in")
        if not np.isin(rows, self._state.rows.train).all():
            raise _refusal("a trigger in rows that are not training rows", "training rows")
        if self._state.trigger is not None:
            raise _refusal("a second trigger", "one trigger in a run")

    def purge(self, task: vfl_pb2.Task) -> None:
        """Check a purge.

        Raises:
            RemoteProtocolError: no request was made.
        """
        self._require_task("a purge", task, vfl_pb2.UNLEARN)
        if not len(self._state.requested_rows):
            raise _refusal("a purge", "a request before it")

    def goodbye(self) -> None:
        """Check the end of the run.

        Raises:
            RemoteProtocolError: there is no model to save.
        """
        self._require_model("the end of the run")

    def _require_rows(self, rows: Index, what: str) -> None:
        # Compared, not subtracted: a difference of 64-bit numbers can wrap around.
        count = len(self._state.features.rows)
        ascending = bool((rows[:-1] < rows[1:]).all())
        if not (ascending and len(rows) and rows[0] >= 0 and rows[-1] < count):
            raise RemoteProtocolError(
                f"the active party sent an invalid list of row indices (rows to {what}); expected "
                f"different indices in ascending order, from 0 to {count - 1}"
            )

    # --- state -----------------------------------------------------------------------------------

    @property
    def _task(self) -> TaskState:
        return self._state.local_model.task

    def _require_task(self, what: str, task: vfl_pb2.Task, *legal: vfl_pb2.Task) -> None:
        agreed = self._agreement
        if task not in legal:
            raise _refusal(f"{what} in the task {_name(task)}", _listed(map(_name, legal)))
        if task == vfl_pb2.UNLEARN and not agreed.unlearn and self._started is None:
            raise _refusal(f"{what} to unlearn", "none, because the agreement has no request")
        if task == vfl_pb2.RELEARN and agreed.evaluation.relearn is None:
            raise _refusal(f"{what} to relearn", "none without evaluation.relearn")

    def _require_model(self, what: str) -> None:
        if not self._state.local_model.has_model:
            raise _refusal(what, "a model before it: none was initialised or restored")

    def _require_copy(self, slot: str) -> None:
        if slot not in self._state.local_model.slots:
            raise RemoteProtocolError(
                f"the active party names the copy {slot!r:.80} of the model, but {self._name} "
                "stores no copy of this name; if an older version of vfl wrote the checkpoints, "
                "start again with --begin fresh at every party",
            )

    def _require_held(self, what: str) -> None:
        """Require a held gradient; a frozen bottom model has none."""
        if not self._task.held and not self._agreement.frozen_bottoms:
            raise _refusal(what, "a held gradient before it")


def _start(command: vfl_pb2.Initialise | vfl_pb2.RestoreCopy) -> Start | tuple[None, Sample | None]:
    """The update rule and the sample of a command; None where the command has none."""
    sample = decode(command.sample, Sample) if command.HasField("sample") else None
    if not command.HasField("rule"):
        return None, sample
    return decode(command.rule, UpdateRule), sample


def _most_copies(agreement: VerticalAgreement) -> int:
    """The largest number of copies that a run keeps."""
    models = agreement.unlearning.retrains + agreement.evaluation.shadows + 2
    shards = agreement.sharding.shards
    return COPIES + agreement.newton.steps + (shards * models if shards > 1 else 0)


def _at_most(found: float, largest: float) -> bool:
    return found <= largest * (1 + ROUNDING)


def _name(task: int) -> str:
    return task_name(vfl_pb2.Place(task=task))  # type: ignore[arg-type]


def _listed(legal: object) -> str:
    return " or ".join(str(each) for each in legal) or "none"  # type: ignore[attr-defined]


def _refusal(order: str, legal: str) -> RemoteProtocolError:
    return RemoteProtocolError(f"the active party orders {order}; legal: {legal}", HINT)
