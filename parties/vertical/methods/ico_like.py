"""ICO-like, a baseline: take an estimated contribution of D_u back, then correct on some of D_r."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, islice

from torch.nn.functional import cross_entropy

from parties.vertical.engine.batch import Answered, Batch, Use
from parties.vertical.engine.split_model import Federation
from parties.vertical.engine.train import DESCEND, SOUND, hold, validate
from parties.vertical.methods.method import ORIGINAL, Facts
from protocol import vfl_pb2
from unlearning.contribution import Contribution
from unlearning.guarantee import Guarantee

TASK = vfl_pb2.CORRECT


@dataclass(frozen=True, slots=True)
class Corrected:
    """How it went."""

    contribution: float  # what the gradient on D_u was multiplied by before it was added
    losses: list[float]  # of every correction step
    sound: bool  # else every party went back to the original
    answered: Answered  # the last gradients of D_u


@dataclass(frozen=True, slots=True)
class IcoLike:
    """One pass over D_u, then K steps of SGD; the clip is on the joint norm."""

    name: str = "ico-like"
    guarantee: Guarantee = Guarantee.HEURISTIC

    def run(self, federation: Federation) -> Facts:
        """Take back, then correct."""
        federation.restore(ORIGINAL, self.name, TASK)
        went = federation.once("ico-like", Corrected, lambda: correct(federation))
        figures = {"contribution": went.contribution, "losses": went.losses}
        return Facts(figures, stopped=None if went.sound else "not finite", answered=went.answered)


def correct(federation: Federation) -> Corrected:
    """Run it from the present model; at worst end there again."""
    plan = federation.agreement.unlearning.ico_like
    federation.party.watch.phase("ico-like", plan.steps + 1)
    federation.keep(SOUND, TASK)
    hold(federation, TASK)
    answered = federation.passes.answered
    factor = 0.0 if federation.diverged else _take_back(federation)
    losses = [] if federation.diverged else _descend(federation)
    if not federation.diverged:
        validate(federation, TASK)
    sound = not federation.diverged
    if not sound:
        federation.restore(SOUND, federation.stream, TASK)
    federation.drop(SOUND, TASK)
    return Corrected(factor, losses, sound, answered)


def _take_back(federation: Federation) -> float:
    """Add the contribution to all blocks; what the gradient was multiplied by."""
    plan, rows = federation.agreement.unlearning.ico_like, federation.rows
    share = len(rows.forgotten) / len(rows.learn)
    reports = [*federation.weigh(TASK), federation.half.weigh()]
    factor = Contribution(step=plan.step, share=share, limit=plan.limit).factor(
        sum(report.held_square for report in reports),
        sum(report.norm_square for report in reports),
    )
    federation.climb(factor, TASK)
    return factor


def _descend(federation: Federation) -> list[float]:
    """K steps on a fixed part of D_r; the losses."""
    losses: list[float] = []

    def descend(batch: Batch) -> Use:
        loss = cross_entropy(batch.logits, batch.labels)
        losses.append(loss.item())
        return Use(loss, DESCEND)

    federation.passes.sweep(TASK, _asks(federation), descend)
    return losses


def _asks(federation: Federation) -> Iterator[vfl_pb2.Ask]:
    """The K batches, epoch after epoch."""
    plan = federation.agreement
    steps, size = plan.unlearning.ico_like.steps, plan.training.batch
    epochs = (federation.passes.batches(vfl_pb2.PORTION, epoch, size) for epoch in count(1))
    yield from islice((ask for epoch in epochs for ask in epoch), steps)
