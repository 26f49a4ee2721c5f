"""One party's part of the split model: network, optimiser, kept copies and stored gradient."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from configs.agreement import VerticalAgreement
from models import arithmetic
from parties.common.device import device_of
from parties.common.errors import NoCopy
from parties.common.json_codec import Tensors
from parties.common.shared_randomness import torch_seed
from parties.session.checkpoint import CheckpointContent
from parties.vertical.engine.features import ModelInputs
from parties.vertical.engine.newton_block import NewtonBlock
from parties.vertical.engine.optimiser import (
    UpdateRule,
    build_optimiser,
    load_optimiser_tensors,
    optimiser_tensors,
    step_with_rate,
)
from protocol import vfl_pb2
from protocol.dataclass_codec import decode
from protocol.envelope import task_name
from protocol.errors import RemoteProtocolError
from unlearning.baselines import ascent_step
from unlearning.primal_dual import (
    LiteralDual,
    UnlearningTerms,
    perturb,
    primal_direction,
    primal_step,
    zero_literal_dual,
)

# Slots of copies.
ORIGINAL = "original"  # the model before the request; also its random stream
EARLY_CHECKPOINT = "early checkpoint"  # from early in training; FedORA may start from it
# From early in unlearning; becomes the early checkpoint after the request.
NEXT_EARLY_CHECKPOINT = "next early checkpoint"
Block = tuple[Tensor, ...]


@dataclass(frozen=True, slots=True)
class PartyNetwork:
    """A party's network, and the features for which the network was built."""

    network: nn.Module  # the bottom model; at the active party also the top model
    inputs: ModelInputs | None  # the features; None if the party has none

    @property
    def block(self) -> list[nn.Parameter]:
        """The trainable parameters, each of any shape."""
        return [parameter for parameter in self.network.parameters() if parameter.requires_grad]


@dataclass(slots=True)
class TaskState:
    """The state of one task; the next task starts with a new state."""

    task: vfl_pb2.Task = vfl_pb2.TASK_UNSPECIFIED  # the task
    rule: UpdateRule | None = None  # the update rule; None if the task takes no steps
    # The optimiser; None if the update rule names none.
    optimiser: torch.optim.Optimizer | None = None
    # θ₀, the reference point of FedORA's proximal term; one tensor per parameter.
    anchor: Block = ()
    held: Block = ()  # the stored gradient; in FedORA, g_u, the gradient of the forgetting score
    mark: Block = ()  # the values of the parameters at the time when the last gradient was stored
    change_square: float = 0.0  # squared distance between the last two values of ``mark``
    # The literal dual of FedORA, one multiplier for each element of each parameter.
    dual: LiteralDual | None = None
    solver: NewtonBlock | None = None  # this party's part of a Newton-CG step
    fresh: bool = False  # whether the task began with new weights, and not with kept ones
    fitted: int = 0  # steps of the local fit that were taken
    # [rows, width], codes of the rows of the local fit; None: to be computed.
    codes: Tensor | None = None


class ModelCopies(dict[str, tuple[PartyNetwork, Block]]):
    """The kept copies, by slot (name of a copy): a network and the copied parameter values."""

    def __missing__(self, slot: str) -> tuple[PartyNetwork, Block]:
        raise NoCopy(slot)


def noise_seed(agreement: VerticalAgreement, name: str, draw: int) -> int:
    """The seed of the noise that the party ``name`` adds after a primal step."""
    return torch_seed(agreement.seed, "noise of a primal step", name, draw)


class LocalModel:
    """One party's part of the model, changed only by the methods of this class.

    Attributes:
        ensemble: slots (names) of the copies in the ensemble, one copy for each shard; empty for a
            single model.
    """

    def __init__(
        self, agreement: VerticalAgreement, name: str, entropy: Callable[[int], bytes]
    ) -> None:
        """Create the state of the party ``name`` without a model.

        ``entropy`` returns secret random bytes.
        """
        self._agreement, self._name, self._entropy = agreement, name, entropy
        self.ensemble: tuple[str, ...] = ()
        self._model: PartyNetwork | None = None
        self._slots = ModelCopies()
        self._task = TaskState()
        self._ended: dict[str, None] = {}  # tasks that had an optimiser, in order

    @property
    def model(self) -> PartyNetwork:
        """The current model.

        Raises:
            LookupError: no model was initialised or restored.
        """
        if self._model is None:
            raise LookupError("no model was initialised or restored")
        return self._model

    @property
    def has_model(self) -> bool:
        """Whether a model was initialised or restored."""
        return self._model is not None

    @property
    def task(self) -> TaskState:
        """The state of the current task, which only the methods of this class may change."""
        return self._task

    @property
    def models(self) -> list[PartyNetwork]:
        """The current model and the models of the kept copies, without duplicates."""
        found = [self._model] if self._model else []
        for model, _ in self._slots.values():
            if not any(model is other for other in found):
                found.append(model)
        return found

    @property
    def slots(self) -> list[str]:
        """The slots (names) of the kept copies, oldest first."""
        return list(self._slots)

    def copy(self, slot: str) -> Block:
        """Parameters of the copy ``slot``, of any shape; raises ``NoCopy`` if it is absent."""
        return self._slots[slot][1]

    def initialise(
        self,
        model: PartyNetwork,
        task: vfl_pb2.Task,
        rule: UpdateRule | None = None,
        *,
        fresh: bool = True,
    ) -> None:
        """Use ``model`` as the current model, and start ``task`` with an update rule.

        ``fresh``: whether its weights are new, and not those of a kept version.
        """
        self._model, self.ensemble = model, ()
        self._start_task(task, rule)
        self._task.fresh = fresh

    def execute(
        self, command: vfl_pb2.ModelCommand, task: vfl_pb2.Task
    ) -> vfl_pb2.BlockReport | None:
        """Carry out a command that needs no data.

        Raises:
            NoCopy: the command names a slot without a copy.
            LookupError: there is no model.
            RemoteProtocolError: the message contains no command that a local model can carry out.
        """
        match command.WhichOneof("command"):
            case "restore_copy":
                self._restore(command.restore_copy, task)
            case "keep_copy":
                copy = arithmetic.snapshot(self.model.block)
                self._slots[command.keep_copy.slot] = (self.model, copy)
            case "drop_copy":
                self._slots.pop(command.drop_copy.slot, None)
            case "newton":
                return self._newton_block.execute(command.newton, self.model.block, self._task.held)
            case "use_ensemble":
                self._use_ensemble(tuple(command.use_ensemble.slots))
            case "primal_step":
                self._primal(command.primal_step, None)
            case "ascent_step":
                ascent_step(self.model.block, self._task.held, command.ascent_step.step_size)
            case _:
                return self._report(command)
        return None

    def _report(self, command: vfl_pb2.ModelCommand) -> vfl_pb2.BlockReport:
        """Answer a command that changes nothing."""
        match command.WhichOneof("command"):
            case "report_norms":
                asked = command.report_norms
                return self.report_norms(asked.slot or None, asked.anchor or None, asked.proximal)
            case "report_digest":
                return vfl_pb2.BlockReport(
                    digest=arithmetic.parameter_digest(self._slots[command.report_digest.slot][1])
                )
        raise RemoteProtocolError(
            "the active party sent a model command that is empty, or that this party does not "
            "support"
        )

    def use(self, gradient: vfl_pb2.Gradient, part: int) -> None:
        """Use the gradients of the last backward pass as the field ``gradient.use`` commands.

        Args:
            gradient: the message with the field ``use``.
            part: number of the batch, from 0. If gradients are to be stored, the gradient of batch
                0 replaces the stored gradient, and gradients of later batches are added to it.

        Raises:
            RemoteProtocolError: the message does not set ``use``.
        """
        match gradient.WhichOneof("use"):
            case "descend":
                scale = gradient.descend.scale if gradient.descend.HasField("scale") else 1.0
                self._descend(scale)
            case "hold":
                self._hold(part)
            case "primal_step":
                self._primal(gradient.primal_step, arithmetic.take_gradients(self.model.block))
            case "add_to_held":
                self._hold(1)
            case "accumulate":
                pass  # PyTorch adds up the gradients of several backward passes
            case _:
                raise RemoteProtocolError(
                    "the active party sent a gradient with an empty field 'use'"
                )

    def _use_ensemble(self, slots: tuple[str, ...]) -> None:
        """Use the copies in ``slots`` together; raises ``NoCopy`` if one is missing."""
        for slot in slots:
            self._slots[slot]
        self.ensemble = slots

    def member_networks(self) -> list[nn.Module]:
        """The networks of the ensemble's members, with the copied parameters restored."""
        found = []
        for slot in self.ensemble:
            model, saved = self._slots[slot]
            arithmetic.restore(model.block, saved)
            found.append(model.network)
        return found

    def _restore(self, command: vfl_pb2.RestoreCopy, task: vfl_pb2.Task) -> None:
        """Restore a copy and start a task."""
        rule = decode(command.rule, UpdateRule) if command.HasField("rule") else None
        self._model, saved = self._slots[command.slot]
        arithmetic.restore(self.model.block, saved)
        self._start_task(task, rule)

    def purge(self, untouched: Sequence[str] = ()) -> list[str]:
        """Delete all state that depends on forgotten rows, except for the current model.

        The copy that was made early in the current unlearning is kept, because the next request
        starts from this copy. Copies in the slots ``untouched`` are kept, because these copies were
        not trained on the forgotten rows.

        Returns:
            Descriptions of the deleted state, for the report.
        """
        self._end_task()
        staying = [slot for slot in (*self.ensemble, *untouched) if slot in self._slots]
        kept = ModelCopies((slot, self._slots[slot]) for slot in staying)
        if NEXT_EARLY_CHECKPOINT in self._slots:
            kept[EARLY_CHECKPOINT] = self._slots.pop(NEXT_EARLY_CHECKPOINT)
        gone = [f"copy {slot!r} of the model" for slot in sorted(self._slots.keys() - staying)]
        gone += [f"optimiser state of {task}" for task in self._ended]
        gone.append("held gradients, anchor and dual of the unlearning")
        self._slots = kept
        self._ended.clear()
        return gone

    def end(self) -> None:
        """End the present task: its optimiser, stored gradient, anchor and dual are not needed."""
        self._end_task()
        self._ended.clear()

    def content(self) -> CheckpointContent:
        """The content of a checkpoint; a network that several copies share is stored once."""
        models, work = self.models, self._task
        values = {
            "fitted": [model.inputs and model.inputs.fitted.statistics() for model in models],
            "slots": {name: _place(models, kept) for name, (kept, _) in self._slots.items()},
            "task": work.task,
            "rule": None if work.rule is None else asdict(work.rule),
            "moved": work.change_square,
            "dual": work.dual and [work.dual.threshold, work.dual.maximum],
            "ended": list(self._ended),
            "members": list(self.ensemble),
            "steps of fit": work.fitted,
            "fresh": work.fresh,
        }
        networks = {f"network {i}": each.network.state_dict() for i, each in enumerate(models)}
        copies = {f"copy {name}": _named(block) for name, (_, block) in self._slots.items()}
        blocks = {"anchor": work.anchor, "held": work.held, "mark": work.mark}
        blocks |= {"prices": work.dual.multipliers} if work.dual else {}
        parts = {f"work {name}": _named(block) for name, block in blocks.items()}
        return CheckpointContent(
            values, networks | copies | parts | {"optimiser": optimiser_tensors(work.optimiser)}
        )

    def load(self, content: CheckpointContent, model: Callable[[object], PartyNetwork]) -> None:
        """Load the content of a checkpoint.

        Args:
            content: the content, in the form that ``LocalModel.content`` returns.
            model: builds a model from preprocessing statistics.
        """
        values, tensors = content.values, content.tensors
        models = [model(statistics) for statistics in values["fitted"]]
        for i, each in enumerate(models):
            each.network.load_state_dict(tensors[f"network {i}"])
        self._model = models[0] if models else None
        device = device_of(models[0].network) if models else torch.device("cpu")
        self._slots = ModelCopies(
            (name, (models[place], _block(tensors[f"copy {name}"], device)))
            for name, place in values["slots"].items()
        )
        self._ended = dict.fromkeys(values["ended"])
        self.ensemble = tuple(values["members"])
        if values["task"]:
            rule = None if values["rule"] is None else UpdateRule(**values["rule"])
            self._start_task(values["task"], rule)
        work = self._task
        work.anchor, work.held, work.mark = (
            _block(tensors[f"work {name}"], device) for name in ("anchor", "held", "mark")
        )
        work.change_square, work.fitted = values["moved"], values["steps of fit"]
        work.fresh = values.get("fresh", True)  # absent in earlier versions, which do not check it
        if values["dual"]:
            threshold, cap = values["dual"]
            prices = _block(tensors["work prices"], device)
            work.dual = LiteralDual(threshold=threshold, maximum=cap, multipliers=prices)
        load_optimiser_tensors(work.optimiser, tensors["optimiser"])

    def codes(self, compute: Callable[[], Tensor]) -> Tensor:
        """The codes of the rows of the local fit, [rows, width]; computed once for each task."""
        if self._task.codes is None:
            self._task.codes = compute()
        return self._task.codes

    @torch.no_grad()
    def read_copy(self, slot: str, read: Callable[[PartyNetwork], Tensor]) -> Tensor:
        """The result of ``read``, [...], for the copy ``slot``; the current model does not change.

        Raises:
            NoCopy: there is no copy with the name ``slot``.
        """
        model, saved = self._slots[slot]
        present = arithmetic.snapshot(model.block)
        arithmetic.restore(model.block, saved)
        found = read(model)
        arithmetic.restore(model.block, present)
        return found

    def fit_step(self, embeddings: Tensor, codes: Tensor, scale: float) -> None:
        """One step of the local fit: lower the mean squared error of the embeddings of a batch.

        Args:
            embeddings: [batch, width], with their graph.
            codes: [batch, width], the targets of the embeddings.
            scale: factor of the learning rate.
        """
        mse_loss(embeddings, codes).backward()  # type: ignore[no-untyped-call]
        self._descend(scale)
        self._task.fitted += 1

    def _descend(self, scale: float = 1.0) -> None:
        """One optimiser step along the gradients of the last backward pass.

        ``scale`` is the factor of the learning rate of the rule.
        """
        rule = self._task.rule
        self._step(scale * rule.learning_rate if rule else 0.0)

    def _step(self, rate: float) -> None:
        """One optimiser step with the learning rate ``rate``."""
        if self._task.optimiser is None:
            raise LookupError("the current task takes no optimiser steps")
        step_with_rate(self._task.optimiser, rate)
        self._task.optimiser.zero_grad()

    def _hold(self, part: int) -> None:
        """Store the gradient of the last backward pass; from part 1 on, add to the stored one."""
        work, gradients = self._task, arithmetic.take_gradients(self.model.block)
        if part:
            work.held = tuple(a + b for a, b in zip(work.held, gradients, strict=True))
            return
        values = arithmetic.snapshot(self.model.block)
        work.change_square = arithmetic.squared_distance(values, work.mark) if work.mark else 0.0
        work.mark, work.held = values, gradients

    def report(self, slot: str | None = None) -> vfl_pb2.BlockReport:
        """Squared norms of the stored gradient, of the last change, and of the distance to a copy.

        The last change is the change of the parameters between the last two stored gradients. The
        distance is measured from the copy named ``slot``; without ``slot``, the distance is None.

        Raises:
            NoCopy: there is no copy with the name ``slot``.
        """
        held = arithmetic.squared_norm(self._task.held)
        distance = None if slot is None else self._distance_square(self._slots[slot][1])
        return vfl_pb2.BlockReport(
            held_square=held, change_square=self._task.change_square, distance_square=distance
        )

    def _distance_square(self, copy: Block) -> float | None:
        """The squared distance to a copy; None if its parameters have other shapes."""
        block = self.model.block
        if [each.shape for each in block] != [each.shape for each in copy]:
            return None
        return arithmetic.squared_distance(block, copy)

    def report_norms(
        self, slot: str | None = None, anchor: str | None = None, proximal: float = 0.0
    ) -> vfl_pb2.BlockReport:
        """The result of ``report``, extended by two squared norms.

        ``norm_square`` is the squared norm of the parameters. ``proximal_square`` is the squared
        norm of the sum of the stored gradient and FedORA's proximal gradient ρ(θ - θ₀), where θ₀ is
        the copy in the slot ``anchor``.
        """
        report = self.report(slot)
        report.norm_square = arithmetic.squared_norm(self.model.block)
        if anchor is not None:
            blocks = (self._task.held, self.model.block, self._slots[anchor][1])
            report.proximal_square = arithmetic.squared_norm(
                held + proximal * (now - start) for held, now, start in zip(*blocks, strict=True)
            )
        return report

    @property
    def _newton_block(self) -> NewtonBlock:
        if self._task.solver is None:
            raise LookupError("a Newton command needs a task, but no task was started")
        return self._task.solver

    def shrink(self, fresh: Sequence[Tensor], shares: Sequence[float]) -> None:
        """Move every parameter towards a fresh random value, and restart the current task.

        Args:
            fresh: fresh values, one tensor of any shape for each parameter.
            shares: how far each parameter moves, from 0 (not at all) to 1 (to the fresh value).
        """
        arithmetic.interpolate(self.model.block, fresh, shares)
        self._start_task(self._task.task, self._task.rule)

    def _primal(self, step: vfl_pb2.PrimalStep, retain: Block | None) -> None:
        """One primal sub-step, then its noise; ``retain`` is the gradient of L_r on a batch."""
        self._move(step, retain)
        if step.HasField("noise"):
            seed = noise_seed(self._agreement, self._name, step.noise.draw)
            perturb(self.model.block, step.noise.deviation, seed)

    def _move(self, step: vfl_pb2.PrimalStep, retain: Block | None) -> None:
        """One primal sub-step (FedORA, Eq. 34)."""
        block, descent, proximal = self.model.block, self._task.optimiser, self._proximal
        anchor = self._task.anchor if proximal else block
        terms = UnlearningTerms(self._task.held, self._multiplier(step), anchor)
        if descent is None:
            primal_step(block, retain, terms, primal=step.step_size, proximal=proximal)
            return
        directions = primal_direction(block, retain, terms, proximal)
        for parameter, direction in zip(block, directions, strict=True):
            parameter.grad = direction
        self._step(step.step_size)

    @property
    def _proximal(self) -> float:
        """ρ of FedORA; 0 without a proximal term."""
        return self._task.rule.proximal if self._task.rule else 0.0

    def _multiplier(self, step: vfl_pb2.PrimalStep) -> float | Sequence[Tensor]:
        """Ω of a primal step; with the literal dual, ascend it first in the first sub-step."""
        if step.WhichOneof("dual") == "multiplier":
            return step.multiplier
        terms, work = step.literal, self._task
        if terms.HasField("step_size"):  # the first sub-step of an iteration
            dual = work.dual or zero_literal_dual(self.model.block, terms.threshold, terms.max)
            work.dual = dual.ascend(work.held, terms.step_size)
        if work.dual is None:
            raise LookupError(
                "the vector of dual variables does not exist, because the first sub-step of the "
                "iteration did not run"
            )
        return work.dual.multipliers

    def _end_task(self) -> None:
        """End a task: delete its optimiser, stored gradient, anchor and dual."""
        if self._task.optimiser:
            self._ended[task_name(vfl_pb2.Place(task=self._task.task))] = None
        self._task = TaskState()

    def _start_task(self, task: vfl_pb2.Task, rule: UpdateRule | None) -> None:
        self._end_task()
        self.model.network.zero_grad()
        block = self.model.block
        self._task = TaskState(
            task=task,
            rule=rule,
            optimiser=build_optimiser(rule, block),
            solver=NewtonBlock(self._agreement.newton.weight, self._entropy),
        )
        if self._proximal:
            self._task.anchor = arithmetic.snapshot(block)


def _place(models: list[PartyNetwork], wanted: PartyNetwork) -> int:
    return next(place for place, model in enumerate(models) if model is wanted)


def _named(block: Block) -> Tensors:
    """A block as named tensors; numbers with leading zeros keep their order."""
    return {f"{place:04}": tensor for place, tensor in enumerate(block)}


def _block(named: Tensors, device: torch.device) -> Block:
    return tuple(named[name].to(device) for name in sorted(named))
