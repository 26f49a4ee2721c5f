"""Gradient ascent, a baseline: climb the loss on D_u until it is that of a uniform guess."""

from dataclasses import dataclass

from parties.vertical.engine.batch import Answered
from parties.vertical.engine.split_model import Federation
from parties.vertical.engine.train import SOUND, hold, validate
from parties.vertical.methods.method import ORIGINAL, Facts
from protocol import vfl_pb2
from unlearning.ascent import clip_factor, knows_nothing
from unlearning.guarantee import Guarantee


@dataclass(frozen=True, slots=True)
class Ascended:
    """How the ascent went."""

    losses: list[float]  # mean cross entropy on D_u
    answered: Answered  # the last gradients of the first step


@dataclass(frozen=True, slots=True)
class GradientAscent:
    """Every party climbs with its own block; the clip is on the joint norm."""

    name: str = "gradient-ascent"
    guarantee: Guarantee = Guarantee.HEURISTIC

    def run(self, federation: Federation) -> Facts:
        """Climb; at worst end at the last model that was sound."""
        federation.restore(ORIGINAL, ORIGINAL, vfl_pb2.ASCEND)
        went = federation.once("ascent", Ascended, lambda: ascend(federation))
        return Facts({"losses": went.losses}, answered=went.answered)


def ascend(federation: Federation) -> Ascended:
    """Climb the loss on D_u from the present model."""
    plan = federation.agreement.unlearning.ascent
    federation.party.watch.phase("gradient ascent", plan.steps)
    losses: list[float] = []
    answered = Answered(federation.rows.forgotten[:0], {})
    federation.keep(SOUND, vfl_pb2.ASCEND)
    for _ in range(plan.steps):
        loss = hold(federation, vfl_pb2.ASCEND)
        if federation.diverged:
            break
        answered = answered if losses else federation.passes.answered
        losses.append(loss)
        if knows_nothing(loss, len(federation.agreement.labels.classes)):
            break
        federation.keep(SOUND, vfl_pb2.ASCEND)  # this pass has shown that it is
        reports = [*federation.weigh(vfl_pb2.ASCEND), federation.half.report()]
        factor = clip_factor(sum(report.held_square for report in reports), plan.clip)
        federation.climb(plan.learning_rate * factor, vfl_pb2.ASCEND)
    validate(federation, vfl_pb2.ASCEND)
    if federation.diverged:
        federation.restore(SOUND, federation.stream, vfl_pb2.ASCEND)
    federation.drop(SOUND, vfl_pb2.ASCEND)
    return Ascended(losses, answered)
