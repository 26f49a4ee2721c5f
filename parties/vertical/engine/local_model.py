"""One party's half of the split model: its network, optimiser, kept copies and held gradient."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from configs.agreement import Agreement
from models import arithmetic
from parties.common.device import device_of
from parties.common.json_codec import Tensors
from parties.session.checkpoint import Content
from parties.vertical.engine.optimiser import load_momenta, momenta, optimiser
from parties.vertical.engine.solver import Solver
from parties.vertical.engine.task_state import Block, Copies, Model, Work
from protocol import vfl_pb2
from protocol.envelope import task_name
from protocol.errors import RemoteProtocolError
from unlearning.ascent import ascent_step
from unlearning.primal_dual import LiteralDual, Pull, free_of_charge, primal_direction, primal_step

EARLY = "early copy"  # of the model, at which FedORA may begin
NEXT = "next early copy"  # takes its place once a request is done
_ANCHORED = (vfl_pb2.UNLEARN, vfl_pb2.CVFU)  # tasks with primal steps


class Half:
    """The state of one party's half; every change to it is one of these methods.

    Attributes:
        members: the copies that together are the model, where shards vote; empty for one model.
    """

    def __init__(self, agreement: Agreement, entropy: Callable[[int], bytes]) -> None:
        """Begin without a model; ``entropy`` gives secret random bytes."""
        self._agreement, self._entropy = agreement, entropy
        self.members: tuple[str, ...] = ()
        self._model: Model | None = None
        self._slots = Copies()
        self._work = Work()
        self._ended: dict[str, None] = {}  # tasks whose optimiser is gone, in their order

    @property
    def model(self) -> Model:
        """The present model; only ``fresh`` and ``restore`` bring one."""
        if self._model is None:
            raise LookupError("no model yet")
        return self._model

    @property
    def models(self) -> list[Model]:
        """The present model and those of the kept copies, each once."""
        found = [self._model] if self._model else []
        for model, _ in self._slots.values():
            if not any(model is known for known in found):
                found.append(model)
        return found

    @property
    def slots(self) -> list[str]:
        """The names of the kept copies, oldest first."""
        return list(self._slots)

    def copy(self, slot: str) -> Block:
        """The parameters of a kept copy; raises ``NoCopy`` where there is none."""
        return self._slots[slot][1]

    def fresh(self, model: Model, task: vfl_pb2.Task) -> None:
        """Take a new model and begin a task with it."""
        self._model, self.members = model, ()
        self._begin(task)

    def arrange(self, arrange: vfl_pb2.Arrange, task: vfl_pb2.Task) -> vfl_pb2.Report | None:
        """Carry out an arrangement other than ``fresh``.

        Raises:
            NoCopy: there is no such copy.
            LookupError: there is no model yet.
            RemoteProtocolError: it arranges nothing.
        """
        match arrange.WhichOneof("action"):
            case "restore":
                self._restore(arrange.restore.slot, task)
            case "keep":
                copy = arithmetic.snapshot(self.model.block)
                self._slots[arrange.keep.slot] = (self.model, copy)
            case "drop":
                self._slots.pop(arrange.drop.slot, None)
            case "newton":
                return self._solver.obey(arrange.newton, self.model.block, self._work.held)
            case "assemble":
                self._assemble(tuple(arrange.assemble.slots))
            case "primal":
                self._primal(arrange.primal, None)
            case "climb":
                ascent_step(self.model.block, self._work.held, arrange.climb.step_size)
            case _:
                return self._asked(arrange)
        return None

    def _asked(self, arrange: vfl_pb2.Arrange) -> vfl_pb2.Report:
        """What an arrangement wants to know that changes nothing."""
        match arrange.WhichOneof("action"):
            case "weigh":
                return self.weigh(arrange.weigh.slot or None, arrange.weigh.anchor or None)
            case "digest":
                return vfl_pb2.Report(digest=arithmetic.digest(self._slots[arrange.digest.slot][1]))
        raise RemoteProtocolError("arranges nothing")

    def use(self, gradient: vfl_pb2.Gradient, part: int) -> None:
        """Do with the gradients that a backward pass left what the order says.

        Raises:
            RemoteProtocolError: the order does not say what they are for.
        """
        match gradient.WhichOneof("use"):
            case "descend":
                self._descend()
            case "hold":
                self._hold(part)
            case "primal":
                self._primal(gradient.primal, arithmetic.take_gradients(self.model.block))
            case "add":
                self._hold(1)
            case "accumulate":
                pass  # they stay where the backward pass left them
            case _:
                raise RemoteProtocolError("sent a gradient without saying what it is for")

    def _assemble(self, slots: tuple[str, ...]) -> None:
        """Let copies vote; raises ``NoCopy`` where one is not there."""
        for slot in slots:
            self._slots[slot]
        self.members = slots

    def voters(self) -> list[nn.Module]:
        """The networks of the members, with the parameters that were kept."""
        found = []
        for slot in self.members:
            model, saved = self._slots[slot]
            arithmetic.restore(model.block, saved)
            found.append(model.network)
        return found

    def _restore(self, slot: str, task: vfl_pb2.Task) -> None:
        """Go back to a copy and begin a task."""
        self._model, saved = self._slots[slot]
        arithmetic.restore(self.model.block, saved)
        self._begin(task)

    def purge(self, untouched: Sequence[str] = ()) -> list[str]:
        """Drop everything that remembers earlier rows; says what there was.

        A copy that was kept while unlearning, to begin the next request at, stays, and so do those
        ``untouched``, which never learned from these rows.
        """
        self._end()
        stays = [slot for slot in (*self.members, *untouched) if slot in self._slots]
        kept = Copies((slot, self._slots[slot]) for slot in stays)
        if NEXT in self._slots:
            kept[EARLY] = self._slots.pop(NEXT)
        gone = [f"copy {slot!r} of the model" for slot in sorted(self._slots.keys() - stays)]
        gone += [f"optimiser state of {task}" for task in self._ended]
        gone.append("held gradients, anchor and dual of the unlearning")
        self._slots = kept
        self._ended.clear()
        return gone

    def content(self) -> Content:
        """All of it, for a checkpoint; a network that several copies share is written once."""
        models, work = self.models, self._work
        values = {
            "fitted": [model.inputs and model.inputs.fitted.statistics() for model in models],
            "slots": {name: _place(models, kept) for name, (kept, _) in self._slots.items()},
            "task": work.task,
            "moved": work.moved,
            "dual": work.dual and [work.dual.threshold, work.dual.cap],
            "ended": list(self._ended),
            "members": list(self.members),
        }
        networks = {f"network {i}": each.network.state_dict() for i, each in enumerate(models)}
        copies = {f"copy {name}": _named(block) for name, (_, block) in self._slots.items()}
        blocks = {"anchor": work.anchor, "held": work.held, "mark": work.mark}
        blocks |= {"prices": work.dual.prices} if work.dual else {}
        parts = {f"work {name}": _named(block) for name, block in blocks.items()}
        return Content(values, networks | copies | parts | {"optimiser": momenta(work.optimiser)})

    def load(self, content: Content, model: Callable[[object], Model]) -> None:
        """Take the state that ``content`` holds; ``model`` builds a model from its statistics."""
        values, tensors = content.values, content.tensors
        models = [model(statistics) for statistics in values["fitted"]]
        for i, each in enumerate(models):
            each.network.load_state_dict(tensors[f"network {i}"])
        self._model = models[0] if models else None
        device = device_of(models[0].network) if models else torch.device("cpu")
        self._slots = Copies(
            (name, (models[place], _block(tensors[f"copy {name}"], device)))
            for name, place in values["slots"].items()
        )
        self._ended = dict.fromkeys(values["ended"])
        self.members = tuple(values["members"])
        if values["task"]:
            self._begin(values["task"])
        work = self._work
        work.anchor, work.held, work.mark = (
            _block(tensors[f"work {name}"], device) for name in ("anchor", "held", "mark")
        )
        work.moved = values["moved"]
        if values["dual"]:
            threshold, cap = values["dual"]
            prices = _block(tensors["work prices"], device)
            work.dual = LiteralDual(threshold=threshold, cap=cap, prices=prices)
        load_momenta(work.optimiser, tensors["optimiser"])

    def _descend(self) -> None:
        """One step of the optimiser along the gradients that the last backward pass left."""
        if self._work.optimiser is None:
            raise LookupError("this task has no optimiser")
        self._work.optimiser.step()
        self._work.optimiser.zero_grad()

    def _hold(self, part: int) -> None:
        """Keep the gradient of the last backward pass as g_u; part 0 begins a new one."""
        work, gradients = self._work, arithmetic.take_gradients(self.model.block)
        if part:
            work.held = tuple(a + b for a, b in zip(work.held, gradients, strict=True))
            return
        present = arithmetic.snapshot(self.model.block)
        work.moved = arithmetic.squared_distance(present, work.mark) if work.mark else 0.0
        work.mark, work.held = present, gradients

    def report(self, slot: str | None = None) -> vfl_pb2.Report:
        """The squared norms of the held gradient, of the change since, and of that from a copy.

        Raises:
            NoCopy: there is no such copy.
        """
        held = arithmetic.squared_norm(self._work.held)
        away = None if slot is None else self._away(self._slots[slot][1])
        return vfl_pb2.Report(held_square=held, moved_square=self._work.moved, slot_square=away)

    def _away(self, copy: Block) -> float | None:
        """The squared distance to a copy; None where preprocessing gave it another shape."""
        block = self.model.block
        if [each.shape for each in block] != [each.shape for each in copy]:
            return None
        return arithmetic.squared_distance(block, copy)

    def weigh(self, slot: str | None = None, anchor: str | None = None) -> vfl_pb2.Report:
        """The report, the parameters' norm, and the held gradient with FedORA's pull to a copy."""
        report = self.report(slot)
        report.norm_square = arithmetic.squared_norm(self.model.block)
        if anchor is not None:
            proximal = self._agreement.unlearning.fedora.proximal
            blocks = (self._work.held, self.model.block, self._slots[anchor][1])
            report.pulled_square = arithmetic.squared_norm(
                held + proximal * (now - start) for held, now, start in zip(*blocks, strict=True)
            )
        return report

    @property
    def _solver(self) -> Solver:
        if self._work.solver is None:
            raise LookupError("no task has begun")
        return self._work.solver

    def shrink(self, fresh: Sequence[Tensor], shares: Sequence[float]) -> None:
        """Move every parameter towards its fresh value, and begin the task anew from there."""
        arithmetic.mix(self.model.block, fresh, shares)
        self._begin(self._work.task)

    def _primal(self, order: vfl_pb2.Primal, retain: Block | None) -> None:
        """One primal sub-step (FedORA, Eq. 34); ``retain`` is the gradient of L_r on a batch."""
        pull = Pull(self._work.held, self._price(order), self._work.anchor)
        block, descent, proximal = self.model.block, self._work.optimiser, self._proximal
        if descent is None:
            primal_step(block, retain, pull, primal=order.step_size, proximal=proximal)
            return
        directions = primal_direction(block, retain, pull, proximal)
        for parameter, direction in zip(block, directions, strict=True):
            parameter.grad = direction
        for group in descent.param_groups:
            group["lr"] = order.step_size
        self._descend()

    @property
    def _proximal(self) -> float:
        """ρ of FedORA; other tasks do not hold on to where they began."""
        plan = self._agreement.unlearning.fedora
        return plan.proximal if self._work.task == vfl_pb2.UNLEARN else 0.0

    def _price(self, order: vfl_pb2.Primal) -> float | Sequence[Tensor]:
        if order.WhichOneof("dual") == "price":
            return order.price
        terms, work = order.literal, self._work
        if terms.HasField("step_size"):  # the first sub-step of an iteration
            dual = work.dual or free_of_charge(self.model.block, terms.threshold, terms.cap)
            work.dual = dual.ascend(work.held, terms.step_size)
        if work.dual is None:
            raise LookupError("no literal dual has begun")
        return work.dual.prices

    def _end(self) -> None:
        """Leave a task: its optimiser, held gradients, anchor and dual are gone."""
        if self._work.optimiser:
            self._ended[task_name(vfl_pb2.Place(task=self._work.task))] = None
        self._work = Work()

    def _begin(self, task: vfl_pb2.Task) -> None:
        self._end()
        self.model.network.zero_grad()
        block = self.model.block
        self._work = Work(
            task=task,
            optimiser=optimiser(self._agreement, task, block),
            solver=Solver(self._agreement.newton.weight, self._entropy),
        )
        if task in _ANCHORED:
            self._work.anchor = arithmetic.snapshot(block)


def _place(models: list[Model], wanted: Model) -> int:
    return next(place for place, model in enumerate(models) if model is wanted)


def _named(block: Block) -> Tensors:
    """A block as named tensors; numbers with leading zeros keep their order."""
    return {f"{place:04}": tensor for place, tensor in enumerate(block)}


def _block(named: Tensors, device: torch.device) -> Block:
    return tuple(named[name].to(device) for name in sorted(named))
