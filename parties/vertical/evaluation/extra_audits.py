"""Trials: what the evaluation of a request does with the models beyond reading them out.

Each leaves the federation with some model; whoever comes next restores the one it needs.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from math import sqrt

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from configs.evaluation import Relearn
from parties.vertical.engine.batch import Batch, Use
from parties.vertical.engine.split_model import Federation
from parties.vertical.engine.train import DESCEND, accuracy
from parties.vertical.methods.method import ORIGINAL
from parties.vertical.methods.registry import PAIRED
from parties.vertical.training_run import train
from protocol import vfl_pb2
from unlearning.audit.membership import Outputs
from unlearning.audit.relearning import steps_until
from unlearning.audit.shadow import Shadow

_ATTACKED = {"forgotten": vfl_pb2.FORGOTTEN, "test": vfl_pb2.TEST}


@dataclass(frozen=True, slots=True)
class Trials:
    """What was found.

    Attributes:
        exchanged: party -> row set -> logits of the delivered model with the original's half there.
        distances: slot -> party -> distance from the paired Retrain; None for another shape.
        relearned: slot -> steps until D_u is known again, by order of its rows.
        shadows: models that learned halves of D_r.
        inverted: slot -> party -> how well its change from the original points to the only row.
    """

    exchanged: dict[str, dict[str, Tensor]] = field(default_factory=dict)
    distances: dict[str, dict[str, float | None]] = field(default_factory=dict)
    relearned: dict[str, list[int]] = field(default_factory=dict)
    shadows: list[Shadow] = field(default_factory=list)
    inverted: dict[str, dict[str, dict[str, float]]] = field(default_factory=dict)


def trials(federation: Federation, chosen: str) -> Trials:
    """All that the agreement asks for; ``chosen`` names the slot of the delivered model.

    The slots of the original and of the paired Retrain are there as well.
    """
    plan = federation.agreement.evaluation
    if not {ORIGINAL, chosen, PAIRED} <= set(federation.half.slots):
        return Trials(shadows=_shadows(federation, plan.shadows))  # no copies to exchange or weigh
    apart = _distances(federation, [ORIGINAL, chosen])
    halves = _exchanged(federation, chosen) if plan.completeness else {}
    relearned = _relearned(federation, plan.relearn, [chosen, PAIRED]) if plan.relearn else {}
    inverted = _inverted(federation, [chosen, PAIRED])
    return Trials(halves, apart, relearned, _shadows(federation, plan.shadows), inverted)


def _distances(federation: Federation, slots: list[str]) -> dict[str, dict[str, float | None]]:
    """Distances of parameters, from the Retrain that began where the original did.

    Two models that began elsewhere are far from each other whatever they know.
    """
    federation.restore(PAIRED, ORIGINAL, vfl_pb2.EVALUATE)

    def work() -> dict[str, dict[str, float | None]]:
        return {slot: distances(federation, slot) for slot in slots}

    return federation.once("distances of parameters", dict, work, durable=False)


def distances(federation: Federation, slot: str) -> dict[str, float | None]:
    """Every party's distance |θ - copy| of its half; None where their shapes differ."""
    weigh = vfl_pb2.Arrange(weigh=vfl_pb2.Weigh(slot=slot))
    return {
        name: sqrt(report.slot_square) if report.HasField("slot_square") else None
        for name, report in federation.everybody(vfl_pb2.EVALUATE, weigh).items()
    }


def _exchanged(federation: Federation, chosen: str) -> dict[str, dict[str, Tensor]]:
    """The delivered model with one party's half of the original's at a time."""
    federation.restore(chosen, ORIGINAL, vfl_pb2.EVALUATE)
    found = {}
    for name in (*federation.agreement.passive, federation.party.name):
        exchange(federation, name, ORIGINAL)
        read = partial(_read, federation)
        found[name] = federation.once(f"{name} exchanged", dict[str, Tensor], read, durable=False)
        exchange(federation, name, chosen)
    return found


def exchange(federation: Federation, party: str, slot: str) -> None:
    """Have one party alone go back to a copy; the others keep their halves."""
    restore = vfl_pb2.Restore(slot=slot, stream=federation.stream)
    federation.have(party, vfl_pb2.EVALUATE, vfl_pb2.Arrange(restore=restore))


def _read(federation: Federation) -> dict[str, Tensor]:
    return {part: federation.logits(rows) for part, rows in _ATTACKED.items()}


def _relearned(federation: Federation, plan: Relearn, slots: list[str]) -> dict[str, list[int]]:
    federation.restore(ORIGINAL, ORIGINAL, vfl_pb2.EVALUATE)
    goal = federation.once(
        "the original on D_u", float, lambda: accuracy(federation, vfl_pb2.FORGOTTEN), durable=False
    )
    return {
        slot: [_steps(federation, plan, slot, order, goal) for order in range(1, plan.orders + 1)]
        for slot in dict.fromkeys(slots)
    }


def _steps(federation: Federation, plan: Relearn, slot: str, order: int, goal: float) -> int:
    """Steps that one model takes with one order of the rows."""
    federation.restore(slot, f"relearn-{order}", vfl_pb2.RELEARN)
    federation.party.watch.phase(f"{slot} learns again, order {order}", plan.cap)

    def work() -> int:
        return steps_until(_climb(federation, plan), goal, plan.cap)

    return federation.once(f"{slot} learns again, order {order}", int, work)


def _climb(federation: Federation, plan: Relearn) -> Iterator[float]:
    """The accuracy on D_u before each step; it ends where numbers are no longer finite."""
    epoch = 0
    while True:
        epoch += 1
        for ask in federation.passes.batches(vfl_pb2.FORGOTTEN, epoch, plan.batch):
            right = accuracy(federation, vfl_pb2.FORGOTTEN, vfl_pb2.RELEARN)
            if federation.diverged:
                return
            yield right
            federation.passes.sweep(vfl_pb2.RELEARN, [ask], _descend)


def _descend(batch: Batch) -> Use:
    return Use(cross_entropy(batch.logits, batch.labels), DESCEND)


def _inverted(federation: Federation, slots: list[str]) -> dict[str, dict[str, dict[str, float]]]:
    """For a request of one row: what the parties' halves would give away, if published."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    if len(federation.rows.forgotten) != 1:
        return found
    for slot in slots:
        federation.restore(slot, ORIGINAL, vfl_pb2.EVALUATE)
        work = partial(inversions, federation, ORIGINAL)
        found[slot] = federation.once(f"{slot} inverted", dict, work, durable=False)
    return found


def inversions(federation: Federation, slot: str) -> dict[str, dict[str, float]]:
    """What the change from a copy tells about the only row of D_u, where parties can say."""
    invert = vfl_pb2.Arrange(invert=vfl_pb2.Invert(slot=slot))
    return {
        name: {"cosine": report.cosine, "rank": report.rank}
        for name, report in federation.everybody(vfl_pb2.EVALUATE, invert).items()
        if report.HasField("rank")
    }


def _shadows(federation: Federation, count: int) -> list[Shadow]:
    """Models of the same pipeline, each on a half of D_r of its own."""
    found = []
    for number in range(1, count + 1):
        stream = f"shadow-{number}"
        train(federation, vfl_pb2.HALF, stream, stream)
        members, others = (
            _outputs(federation, rows, f"{stream} on {name}")
            for name, rows in (("its half", vfl_pb2.HALF), ("the other", vfl_pb2.OTHER_HALF))
        )
        found.append(Shadow(members, others))
    return found


def _outputs(federation: Federation, rows: vfl_pb2.Rows, name: str) -> Outputs:
    read = partial(federation.logits, rows)
    labels = federation.labels[torch.from_numpy(federation.rows.of(rows))]
    return Outputs(federation.once(name, Tensor, read), labels)
