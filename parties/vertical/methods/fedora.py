"""FedORA between the parties: the active party keeps the dual and the step sizes (Alg. 1, 2).

Letters of the paper: S_u = mean forgetting score on D_u, g_u = its gradient, γ = threshold,
Ω = price, τ and σ = primal and dual step size, L_r = loss on retained rows, ρ = proximal weight.
"""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import chain, islice
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from parties.vertical.engine.batch import Answered, Batch, Use
from parties.vertical.engine.local_model import EARLY, NEXT
from parties.vertical.engine.split_model import Federation
from parties.vertical.engine.train import HOLD, SOUND, right
from parties.vertical.methods.calibrate import calibrate
from parties.vertical.methods.form import form, step_sizes
from parties.vertical.methods.iteration import Iteration, Unlearned, Walk
from parties.vertical.methods.kkt import ANCHOR, kkt_report
from parties.vertical.methods.method import ORIGINAL, Facts
from parties.vertical.methods.shrink_perturb import shrink_of
from parties.vertical.methods.threshold import Threshold, held_out_level, threshold
from parties.vertical.methods.top_only import FRESH_TOP
from protocol import vfl_pb2
from unlearning.guarantee import Guarantee
from unlearning.objectives import forgetting_scores
from unlearning.primal_dual import Dual, extrapolated, retain_steps
from unlearning.stopping import Limits, Progress, decide
from unlearning.thresholds import no_pressure

WENT_BACK = (
    "all went back to the last sound model, which may still know the rows; a smaller "
    "unlearning.fedora.primal_step or more iterations may help"
)
START = "start of fedora"  # the stream that draws what a start of its own is fresh with


@dataclass(frozen=True, slots=True)
class Start:
    """What FedORA starts from: γ, and the original's accuracy on the validation rows."""

    threshold: Threshold
    accuracy: float
    original: Tensor  # logits on the validation rows


@dataclass(frozen=True, slots=True)
class FedOra:
    """Forgets until the score on D_u reaches γ, while the rows that stay hold on."""

    name: str = "fedora"
    guarantee: Guarantee = Guarantee.HEURISTIC

    def run(self, federation: Federation) -> Facts:
        """Find γ, then iterate."""
        start = federation.once("start of fedora", Start, lambda: _start(federation))
        federation.restore(ORIGINAL, ORIGINAL, vfl_pb2.UNLEARN)
        went = unlearn(federation, start.threshold.gamma, start.accuracy)
        factor = calibrate(federation, start.original)
        return Facts(
            form(federation.agreement.unlearning.fedora) | {"calibration": factor},
            iterations=[asdict(each) for each in went.iterations],
            stopped=went.decision.value,
            threshold=replace(start.threshold, gamma=went.gamma),
            answered=went.answered,
            audit=partial(_audit, federation, went.gamma, went.price),
        )


def _audit(federation: Federation, gamma: float, price: float | None) -> dict[str, Any]:
    """The KKT report, which is no part of the cost: nothing is learned from it."""
    return {"kkt": kkt_report(federation, gamma, price)}


def _start(federation: Federation) -> Start:
    read = partial(federation.logits, vfl_pb2.VALIDATION)
    original = federation.once("original on validation rows", Tensor, read, durable=False)
    return Start(threshold(federation, original), _utility(federation, original), original)


def _utility(federation: Federation, logits: Tensor) -> float:
    """Accuracy on the validation rows of classes that stay, from all their ``logits``.

    Of a class that goes altogether no row may count: to be wrong there is the aim.
    """
    rows, labels = federation.rows, federation.labels
    truth = labels[rows.validation]
    stays = torch.isin(truth, torch.unique(labels[rows.retain]))
    kept = stays if bool(stays.any()) else torch.ones_like(stays)
    return right(logits[kept], truth[kept])


def unlearn(federation: Federation, gamma: float, accuracy: float) -> Unlearned:
    """Run FedORA on the present model; ``accuracy`` is the model's own on validation rows."""
    return _Run(federation, gamma, accuracy).run()


class _Run:
    """One run of FedORA and what it keeps between iterations."""

    def __init__(self, federation: Federation, gamma: float, accuracy: float) -> None:
        self._federation, self._plan = federation, federation.agreement.unlearning.fedora
        cap = self._plan.price_cap if self._plan.score else 0.0
        self._highest, classes = gamma, len(federation.agreement.labels.classes)
        if self._plan.policy == "present":  # until the first look
            gamma = no_pressure(classes, self._plan.weight)
        self._dual = Dual(threshold=gamma, cap=cap)
        self._steps = step_sizes(self._plan, federation.agreement.training)
        floor = accuracy - self._plan.utility_loss
        self._limits = Limits(
            iterations=self._plan.iterations,
            utility_floor=max(0.0, floor),
            slack=self._plan.tolerance,
            still=self._plan.tolerance,
        )
        retained = len(federation.rows.retain)
        self._batch = self._plan.batch or federation.agreement.training.batch
        self._per_epoch = math.ceil(retained / self._batch)
        share = self._plan.retain_share
        self._sub_steps = retain_steps(share, retained, self._batch) if share else 0
        self._iterations: list[Iteration] = []
        self._answered = Answered(federation.rows.forgotten[:0], {})
        self._asked = 0  # batches of D_r so far
        self._sound = self._plan.start == "original"

    def run(self) -> Unlearned:
        """Iterate until ``decide`` says stop; at worst end at the last model that passed a look."""
        federation = self._federation
        federation.party.watch.phase("fedora", self._plan.iterations * (self._sub_steps + 1))
        federation.keep(SOUND, vfl_pb2.UNLEARN)
        self._begin()
        if self._plan.proximal:
            federation.keep(ANCHOR, vfl_pb2.UNLEARN)
        early = math.ceil(self._plan.early * self._plan.iterations)
        for k in range(self._plan.iterations):
            walk = federation.once(f"fedora, iteration {k + 1}", Walk, partial(self._walk, k))
            self._arrive(walk)
            if self._plan.start == "early" and k + 1 == early:
                federation.keep(NEXT, vfl_pb2.UNLEARN)
            if walk.looked and walk.sound:
                federation.keep(SOUND, vfl_pb2.UNLEARN)
            if walk.decision.stops:
                break
        if walk.decision.rolls_back:
            federation.restore(SOUND, federation.stream, vfl_pb2.UNLEARN)
            said = f"FedORA ended with {walk.decision.value!r}"
            federation.party.watch.warn(f"{said}: {WENT_BACK}")
        if self._plan.start == "early" and k + 1 < early:
            federation.keep(NEXT, vfl_pb2.UNLEARN)  # the next request begins somewhere, too
        federation.drop(SOUND, vfl_pb2.UNLEARN)
        gamma = self._dual.threshold
        return Unlearned(self._iterations, walk.decision, self._answered, gamma)

    def _begin(self) -> None:
        """Move to where the first iteration starts, which is θ₀ of the proximal term as well."""
        match self._plan.start:
            case "early":
                federation = self._federation
                federation.restore(EARLY, federation.stream, vfl_pb2.UNLEARN)
            case "fresh-top":
                self._federation.shrink(FRESH_TOP, START, vfl_pb2.UNLEARN)
            case "shrink":
                how = shrink_of(self._plan.shrink, self._plan.shrink_top)
                self._federation.shrink(how, START, vfl_pb2.UNLEARN)

    def _walk(self, k: int) -> Walk:
        """One iteration, and a look at the validation rows where one is due."""
        progress = self._iterate(k)
        decision = decide(progress, self._limits)
        last = decision.stops or (k + 1) % self._plan.check_every == 0
        looked = progress.finite and last
        if looked:
            seen = self._look(progress)
            decision = decide(seen, self._limits)
            self._sound = not decision.rolls_back and self._is_useful(seen)
        return Walk(
            dual=self._dual,
            steps=self._steps,
            asked=self._asked,
            iterations=len(self._iterations),
            newest=self._iterations[-2:],
            decision=decision,
            looked=looked,
            sound=self._sound,
            answered=None if k else self._answered,
        )

    def _arrive(self, walk: Walk) -> None:
        """Stand where ``walk`` ended, whether it was walked now or before a crash."""
        self._dual, self._steps, self._asked = walk.dual, walk.steps, walk.asked
        self._sound = walk.sound
        self._answered = walk.answered or self._answered
        older = self._iterations[: walk.iterations - len(walk.newest)]
        self._iterations = [*older, *walk.newest]

    def _iterate(self, k: int) -> Progress:
        """One outer iteration: hold g_u on all of D_u, ascend the dual, walk the sub-steps."""
        federation, score, losses = self._federation, [0.0], list[float]()

        def act(batch: Batch) -> Use:
            if batch.ask.rows == vfl_pb2.FORGOTTEN:
                return self._hold(batch, score)
            first = not losses
            if first:
                self._ascend(k, score[0], batch.reports)
            loss = cross_entropy(batch.logits, batch.labels)
            order = self._order(k, len(losses))
            losses.append(loss.item())
            return Use(loss, vfl_pb2.Gradient(primal=order))

        federation.passes.sweep(
            vfl_pb2.UNLEARN, chain(self._forget_asks(k), self._retain_asks()), act
        )
        if not self._sub_steps and not federation.diverged:  # δ = 0
            self._ascend(k, score[0], federation.weigh(vfl_pb2.UNLEARN))
            federation.primal(self._order(k, 0), vfl_pb2.UNLEARN)
        return self._progress(k, score[0], losses)

    def _forget_asks(self, k: int) -> Iterator[vfl_pb2.Ask]:
        """All of D_u, or a fresh mini-batch of it."""
        size = self._plan.score_rows
        if size is None or size >= len(self._federation.rows.forgotten):
            yield from self._federation.passes.parts(vfl_pb2.FORGOTTEN)
        else:
            yield from islice(self._federation.passes.batches(vfl_pb2.FORGOTTEN, k + 1, size), 1)

    def _retain_asks(self) -> Iterator[vfl_pb2.Ask]:
        """The next sub-steps' batches; they go through D_r epoch after epoch."""
        for _ in range(self._sub_steps):
            epoch, index = divmod(self._asked, self._per_epoch)
            self._asked += 1
            yield vfl_pb2.Ask(
                rows=vfl_pb2.RETAIN,
                order=vfl_pb2.SHUFFLED,
                epoch=epoch + 1,
                size=self._batch,
                index=index,
            )

    def _hold(self, batch: Batch, score: list[float]) -> Use:
        """Hold the gradient of S_u, a mean over all of D_u or over the mini-batch."""
        whole = batch.ask.order == vfl_pb2.BY_INDEX
        count = len(self._federation.rows.forgotten) if whole else len(batch.rows)
        mean = forgetting_scores(batch.logits, self._plan.weight).sum() / count
        score[0] += mean.item()
        return Use(mean, HOLD)

    def _ascend(self, k: int, score: float, reports: list[vfl_pb2.Report]) -> None:
        """Dual ascent and step sizes from the norms of all blocks (Eq. 20, 30-33)."""
        reports = [*reports, self._federation.half.report()]
        if k == 0:
            self._answered = self._federation.passes.answered
        else:
            moved = sum(report.moved_square for report in reports)
            self._iterations[-1] = replace(self._iterations[-1], change=math.sqrt(moved))
            self._steps = self._steps.adapt(moved)
        held = sum(report.held_square for report in reports)
        self._steps = self._steps.meet(held)
        before = self._iterations[-1].forgetting if self._iterations else None
        ahead = extrapolated(score, before) if self._plan.extrapolate else score
        self._dual = self._dual.ascend(ahead, self._steps.dual)
        bound = self._steps.dual_bound
        self._iterations.append(
            Iteration(
                iteration=k,
                forgetting=score,
                price=self._dual.price if self._plan.dual == "scalar" else None,
                threshold=self._dual.threshold,
                primal_step=self._order(k, 0).step_size,
                dual_step=self._steps.dual,
                dual_bound=bound if math.isfinite(bound) else None,
                gradient_norm=math.sqrt(held),
                retain_loss=None,
            )
        )

    def _order(self, k: int, place: int) -> vfl_pb2.Primal:
        """τ of one sub-step, and Ω or what a party needs to move its own Ω."""
        step, count = self._steps.primal, max(1, self._sub_steps)
        if self._plan.anneal:
            step *= self._plan.anneal.factor((k * count + place) / (self._plan.iterations * count))
        if self._plan.dual == "scalar":
            return vfl_pb2.Primal(step_size=step, price=self._dual.price)
        literal = vfl_pb2.LiteralDual(
            step_size=None if place else self._steps.dual,
            threshold=self._dual.threshold,
            cap=self._plan.price_cap,
        )
        return vfl_pb2.Primal(step_size=step, literal=literal)

    def _progress(self, k: int, score: float, losses: list[float]) -> Progress:
        """What ``decide`` needs to know of an iteration."""
        finite = not self._federation.diverged and all(map(math.isfinite, [score, *losses]))
        change = self._iterations[-2].change if len(self._iterations) > 1 else None
        if finite and losses:
            mean = sum(losses) / len(losses)
            self._iterations[-1] = replace(self._iterations[-1], retain_loss=mean)
        shortfall = self._dual.threshold - score
        return Progress(iteration=k, finite=finite, shortfall=shortfall, change=change or 0.0)

    def _look(self, progress: Progress) -> Progress:
        """Look at the validation rows, which also shows whether all numbers are still finite."""
        federation = self._federation
        logits = federation.logits(vfl_pb2.VALIDATION, vfl_pb2.UNLEARN)
        accuracy = _utility(federation, logits)
        self._iterations[-1] = replace(self._iterations[-1], validation_accuracy=accuracy)
        finite = not federation.diverged
        if finite and self._plan.policy == "present":
            level = min(self._highest, held_out_level(federation, logits))
            self._dual = replace(self._dual, threshold=level)
        return replace(progress, finite=finite, utility=accuracy, recovering=not self._sound)

    def _is_useful(self, progress: Progress) -> bool:
        return progress.utility is not None and progress.utility >= self._limits.utility_floor
