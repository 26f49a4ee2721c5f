"""Learning the convex head: the parties walk Newton steps to the optimum on some rows together.

Every party holds its block of the parameters and of all vectors; what crosses are the votes A_k p_k
of the direction, what the Hessian does to their sum, and one number a party for an inner product.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from parties.common.errors import Diverged
from parties.vertical.engine.batch import Batch, Use
from parties.vertical.engine.split_model import Federation
from parties.vertical.engine.train import HOLD, Epoch, validate
from protocol import vfl_pb2
from unlearning.certificate import distance_bound, noise_scale
from unlearning.newton import Effort, Step, newton_step, quadratic


@dataclass(frozen=True, slots=True)
class Walk:
    """One run of the solver; with ``keeps`` every step's point stays as a copy of its name."""

    name: str
    task: vfl_pb2.Task
    rows: vfl_pb2.Rows
    bound: float  # B at which it ends
    keeps: bool = False


@dataclass(frozen=True, slots=True)
class Walked:
    """One Newton step, and where it ended; the first of a walk is where it began."""

    step: Step
    bound: float  # B
    epoch: Epoch


class Head:
    """All blocks of the head, as the solver asks them; see ``unlearning.newton.Parties``."""

    def __init__(self, federation: Federation, walk: Walk) -> None:
        self._federation, self._walk = federation, walk
        self._count = len(federation.rows.of(walk.rows))
        self._probabilities: list[Tensor] = []
        self.loss = 0.0  # mean cross entropy where the gradient was taken

    def gradient(self) -> float:
        """Differentiate F where the parties stand: ‖∇F‖²."""
        self._probabilities, self.loss = [], 0.0

        def act(batch: Batch) -> Use:
            self._probabilities.append(torch.softmax(batch.logits.detach(), dim=1))
            loss = cross_entropy(batch.logits, batch.labels, reduction="sum") / self._count
            self.loss += loss.item()
            return Use(loss, HOLD)

        return sum(report.held_square for report in self._pass(act))

    def begin(self) -> None:
        """Take the present point; after a crash its gradient is not known any more."""
        if not self._probabilities:
            self.gradient()
        self._order(vfl_pb2.Newton(begin=vfl_pb2.Begin()))

    def product(self) -> float:
        """Multiply p by H: pᵀ H p."""

        def act(batch: Batch) -> Use:
            probabilities = self._probabilities[batch.ask.index]
            return Use(quadratic(probabilities, batch.logits) / self._count, HOLD)

        return sum(report.inner for report in self._pass(act))

    def advance(self, length: float) -> float:
        """Go along p: ‖r‖²."""
        reports = self._order(vfl_pb2.Newton(advance=vfl_pb2.Advance(length=length)))
        return sum(report.residual_square for report in reports)

    def turn(self, momentum: float) -> None:
        """Take the next p."""
        self._order(vfl_pb2.Newton(turn=vfl_pb2.Turn(momentum=momentum)))

    def move(self, length: float) -> None:
        """Stand at the point plus a part of x."""
        self._order(vfl_pb2.Newton(move=vfl_pb2.Move(length=length)))

    def _pass(self, act: Callable[[Batch], Use]) -> list[vfl_pb2.Report]:
        federation, walk = self._federation, self._walk
        federation.passes.sweep(walk.task, federation.passes.parts(walk.rows), act)
        if federation.diverged:
            raise Diverged(f"the votes of {walk.name} are no longer finite", "raise newton.weight")
        return self._order(vfl_pb2.Newton(regularise=vfl_pb2.Regularise()))

    def _order(self, order: vfl_pb2.Newton) -> list[vfl_pb2.Report]:
        arrange = vfl_pb2.Arrange(newton=order)
        return list(self._federation.everybody(self._walk.task, arrange).values())


def walk_to_optimum(federation: Federation, walk: Walk) -> list[Walked]:
    """Walk until the certified distance is at most ``walk.bound``, or the effort is spent.

    Raises:
        Diverged: the votes are no longer finite.
    """
    plan, head = federation.agreement.newton, Head(federation, walk)
    federation.party.watch.phase(walk.name)
    start = partial(_start, federation, head)
    walked = [federation.once(f"{walk.name}, start", Walked, start)]
    if walk.keeps:
        federation.keep(f"{walk.name}, step 0", walk.task)
    while walked[-1].bound > walk.bound and len(walked) <= plan.steps and walked[-1].step.moves:
        left = plan.products - sum(each.step.products for each in walked)
        if left <= 0:
            break
        effort, number = Effort(tolerance=plan.tolerance, products=left), len(walked)
        step = partial(_step, federation, head, walked[-1], effort)
        walked.append(federation.once(f"{walk.name}, step {number}", Walked, step))
        if walk.keeps:
            federation.keep(f"{walk.name}, step {number}", walk.task)
    return walked


def _start(federation: Federation, head: Head) -> Walked:
    norm = head.gradient() ** 0.5
    return _walked(federation, head, Step(norm, 0, 1, 1.0), 0)


def _step(federation: Federation, head: Head, last: Walked, effort: Effort) -> Walked:
    step = newton_step(head, last.step.gradient_norm, effort)
    return _walked(federation, head, step, last.epoch.epoch + 1)


def _walked(federation: Federation, head: Head, step: Step, number: int) -> Walked:
    bound = distance_bound(step.gradient_norm, federation.agreement.newton.weight)
    return Walked(step, bound, Epoch(number, head.loss, *validate(federation)))


def distance(federation: Federation, slot: str) -> float:
    """How far all parameters together are from a copy, in the Euclidean norm."""
    weigh = vfl_pb2.Arrange(weigh=vfl_pb2.Weigh(slot=slot))
    reports = federation.everybody(vfl_pb2.EVALUATE, weigh).values()
    return math.sqrt(sum(report.slot_square for report in reports))


def noise(federation: Federation) -> float | None:
    """σ of the noise on every model that is released; None where there is none."""
    plan = federation.agreement.newton
    if plan.release is None:
        return None
    return plan.bound * noise_scale(plan.release.epsilon, plan.release.delta)


def release(federation: Federation, walk: Walk, reached: float) -> bool:
    """Add the agreed noise where the distance B that was ``reached`` allows it; whether it did."""
    sigma = noise(federation)
    if sigma is None or reached > federation.agreement.newton.bound:
        return False

    def blur() -> bool:
        blurred = vfl_pb2.Newton(blur=vfl_pb2.Blur(sigma=sigma))
        federation.everybody(walk.task, vfl_pb2.Arrange(newton=blurred))
        return True

    return federation.once(f"{walk.name}, noise", bool, blur)
