"""N models in one process, as an unlearning method sees them; no message is sent."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, TypeVar, cast

import numpy as np
import torch
from torch import Tensor

from configs.agreement import VerticalAgreement
from configs.unlearning import MethodSettings
from models.arithmetic import all_finite
from models.ensemble import Ensemble, broadcast_per_model, squared_norm_per_model
from parties.common.errors import PolicyError
from parties.common.progress import ProgressReporter
from parties.common.shared_randomness import Index, derive_key, permutation
from parties.experiments.population.forget_sets import ForgetSet
from parties.experiments.population.trained import TrainedPopulation
from parties.requests.driver import NOT_FINITE, Method, carry_out
from parties.vertical.engine.local_model import EARLY_CHECKPOINT, ORIGINAL, noise_seed
from parties.vertical.engine.optimiser import (
    UpdateRule,
    build_optimiser,
    flat_then_cosine,
    step_with_rate,
)
from parties.vertical.engine.party_state import LocalFit, code_seed
from parties.vertical.engine.rows import (
    Batches,
    RowSets,
    Sample,
    ordered_requests,
    shuffled_requests,
)
from parties.vertical.methods.fedora_settings import FedoraSettings
from parties.vertical.methods.local_start import TOP, LocalStart
from parties.vertical.methods.method import MethodResult
from parties.vertical.methods.registry import METHODS
from parties.vertical.methods.run import (
    CLASSES,
    PLAIN,
    Act,
    Batch,
    Norms,
    ShrinkShares,
    Votes,
    train_epoch,
)
from protocol import vfl_pb2
from unlearning.primal_dual import perturb

T = TypeVar("T")
Settings = TypeVar("Settings", bound=MethodSettings)
PASS_ROWS = 1024  # rows of each model in one batch of a pass


class PopulationRun:
    """N models of one population, each with its own D_u; all take the same number of steps.

    Attributes:
        models: the present models.
        sets: the row sets of each model.
        agreement: the agreement of all models.
        labels: the labels of all common rows, ``[common_rows]``.
        learned_labels: the same, because no request of a study corrects labels.
        rows_embedded: the number of rows of each model whose embeddings would cross the network,
            once for each time.
    """

    stops_early = False
    sent_gradients = None
    target = CLASSES

    def __init__(self, trained: TrainedPopulation, early: float | None = None) -> None:
        """Start with the original models.

        ``early`` is the fraction of the training after which the early checkpoint was kept; None
        without a checkpoint.

        Raises:
            ValueError: the models have row sets of different sizes.
        """
        for part in (vfl_pb2.RETAIN, vfl_pb2.FORGOTTEN):
            if len({len(sets.select(part)) for sets in trained.sets}) > 1:
                raise ValueError(
                    "the models have different numbers of training rows; all models of a "
                    "population need the same number of rows"
                )
        self._trained, self._pooled = trained, trained.pooled
        self.agreement, self.labels = trained.pooled.agreement, trained.pooled.labels
        self.learned_labels = self.labels
        self.models = trained.original.copy()
        self.sets: Sequence[RowSets] = trained.sets
        self._copies = {ORIGINAL: trained.original}
        if early is not None:
            self._copies[EARLY_CHECKPOINT] = trained.early[early]
        self.rows_embedded = 0
        self._good = trained.original.copy()
        self._rule: UpdateRule = PLAIN
        self._optimiser: torch.optim.Optimizer | None = None
        self._top_optimiser: torch.optim.Optimizer | None = None
        self._codes: dict[str, Tensor] = {}  # of the local fit, by party, ``[N, rows, width]``
        self._anchor: list[Tensor] = []
        self._held: list[Tensor] = []
        self._mark: list[Tensor] = []
        self._change = torch.zeros(len(trained.sets), dtype=torch.float64)
        self._batches = [Batches(sets, "") for sets in trained.sets]
        self.progress = ProgressReporter("population", lambda _: None)

    def weights_of(self, rows: Index) -> Tensor | None:  # noqa: ARG002  refused by the study
        """None: all weights of the common ``rows``, [rows], in the loss are 1."""
        return None

    @property
    def finite(self) -> bool:
        """Whether all parameters are finite."""
        return all_finite(self.models.with_prefix())

    def settings(self, kind: type[Settings]) -> Settings:
        """Return the agreed table of settings of the type ``kind``."""
        return self.agreement.unlearning.of(kind)

    # --- journal: a study repeats a whole method after a crash -----------------------------------

    def once(self, _name: str, _kind: type[T], work: Callable[[], T]) -> T:
        """Return the result of ``work``."""
        return work()

    def recorded(self, _name: str, _kind: type[T]) -> T | None:
        """Return None: nothing is recorded."""
        return None

    def record(self, _name: str, _value: object) -> None:
        """Record nothing."""

    def verify(self) -> None:
        """Do nothing: ``finite`` looks at all parameters."""

    # --- copies ----------------------------------------------------------------------------------

    def keep_good(self, which: Sequence[bool] | None) -> None:
        """Keep a copy of the models ``which``, or of all models."""
        for number in range(len(self.models)):
            if which is None or which[number]:
                self._good.copy_model(self.models, number)

    def restore_good(self) -> None:
        """Restore the last good state of each model."""
        self._use(self._good.copy())

    def drop_good(self) -> None:
        """Keep the copy: no memory must be freed."""

    def keep(self, slot: str) -> None:
        """Keep a copy of all models in ``slot``."""
        self._copies[slot] = self.models.copy()

    def start(
        self, slot: str, stream: str, rule: UpdateRule = PLAIN, sample: Sample | None = None
    ) -> None:
        """Restore the copy with the name ``slot`` of all models."""
        self._rule = rule
        self._use(self._copies[slot].copy())
        self._use_stream(stream, sample)

    def initialise(
        self, stream: str, _rows: vfl_pb2.Rows, rule: UpdateRule, sample: Sample | None = None
    ) -> None:
        """Start with fresh models; the preprocessing of a population is the same for all models."""
        self._rule = rule
        self._use(self._pooled.fresh(self._trained.streams(stream)))
        self._use_stream(stream, sample)

    def shrink(self, shares: ShrinkShares, stream: str) -> None:
        """Move all parameters towards fresh values of the stream, and start the rule again."""
        fresh = self._pooled.fresh(self._trained.streams(stream))
        self.models.blend(fresh, shares.bottom, "bottoms.")
        self.models.blend(fresh, shares.top, "top.")
        self._use(self.models)

    def change_rule(self, rule: UpdateRule) -> None:
        """Continue with the present parameters and batch order, by another update rule."""
        self._rule = rule
        self._use(self.models)

    def fit_bottoms(self, rows: vfl_pb2.Rows, fit: LocalFit, epoch: int) -> None:
        """Carry out one epoch of the local fit of all bottom models of all models."""
        if not self._codes:
            trained = fit.codes == "trained"
            self._codes = self._trained_codes(rows) if trained else self._all_codes(rows, fit)
        chosen = np.stack([sets.select(rows) for sets in self.sets])
        bottoms, count = self.models.with_prefix("bottoms."), self.row_count(rows)
        first, whole = (epoch - 1) * fit.steps_of_epoch(count), fit.steps(count)
        for step, request in enumerate(self.epoch_requests(rows, epoch, fit.batch), first):
            found = np.stack([each.rows_of(request) for each in self._batches])
            pairs = zip(chosen, found, strict=True)
            places = torch.from_numpy(np.stack([np.searchsorted(*pair) for pair in pairs]))
            features = self._pooled.batch(torch.from_numpy(found))
            loss = torch.zeros(())
            for name, batch in zip(self._pooled.inputs, features, strict=True):
                codes = self._codes[name]
                targets = codes.gather(1, places[..., None].expand(-1, -1, codes.shape[2]))
                errors = (self.models.part(f"bottoms.{name}", batch) - targets).square()
                loss = loss + errors.mean(dim=(1, 2)).sum()
            rate = flat_then_cosine(step, whole) * self._rule.learning_rate
            _take_step(self._optimiser, rate, loss, bottoms)

    def _all_codes(self, rows: vfl_pb2.Rows, fit: LocalFit) -> dict[str, Tensor]:
        """The codes of each party for each model's rows, ``[N, rows, width]``."""
        found, agreed = {}, self.agreement
        for name, values in self._pooled.inputs.items():
            found[name] = torch.stack(
                [
                    fit.code(
                        values[torch.from_numpy(sets.select(rows))],
                        agreed.parties[name],
                        code_seed(agreed, batches.stream, name),
                    )
                    for sets, batches in zip(self.sets, self._batches, strict=True)
                ]
            )
        return found

    @torch.no_grad()
    def _trained_codes(self, rows: vfl_pb2.Rows) -> dict[str, Tensor]:
        """The original models' embeddings of each party, for each model's rows."""
        chosen = torch.from_numpy(np.stack([sets.select(rows) for sets in self.sets]))
        features = zip(self._pooled.inputs, self._pooled.batch(chosen), strict=True)
        original = self._copies[ORIGINAL]
        return {name: original.part(f"bottoms.{name}", batch) for name, batch in features}

    def _use(self, models: Ensemble) -> None:
        self.models, self._codes = models, {}
        self._optimiser = build_optimiser(self._rule, models.with_prefix())
        self._top_optimiser = None
        self._anchor = [each.detach().clone() for each in models.with_prefix()]

    def _use_stream(self, stream: str, sample: Sample | None) -> None:
        self.sets = [replace(each, sample=sample) for each in self._trained.sets]
        pairs = zip(self.sets, self._trained.streams(stream), strict=True)
        self._batches = [Batches(sets, own) for sets, own in pairs]

    # --- passes over rows ------------------------------------------------------------------------

    def row_count(self, rows: vfl_pb2.Rows) -> int:
        """Return the number of rows of a row set, which is the same for all models."""
        return len(self.sets[0].select(rows))

    def pass_requests(self, rows: vfl_pb2.Rows) -> Iterator[vfl_pb2.BatchRequest]:
        """Yield the requests of one pass over a row set, in index order."""
        yield from ordered_requests(rows, self.row_count(rows), PASS_ROWS)

    def epoch_requests(
        self, rows: vfl_pb2.Rows, epoch: int, size: int
    ) -> Iterator[vfl_pb2.BatchRequest]:
        """Yield the requests of one shuffled epoch, with ``size`` rows of each model a batch."""
        yield from shuffled_requests(rows, self.row_count(rows), epoch, size)

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
        """Carry out one shuffled epoch, or its first ``steps``.

        With ``only_top``, train only the top models.
        """
        chosen = self.models.with_prefix("top.") if only_top else self.models.with_prefix()
        if only_top and self._top_optimiser is None:
            self._top_optimiser = build_optimiser(self._rule, chosen)
        optimiser = self._top_optimiser if only_top else self._optimiser
        embedded = self.rows_embedded
        for request in islice(self.epoch_requests(rows, epoch, size), steps):
            self._step(request, act, chosen, optimiser)
        if only_top:  # the embeddings cross once, before the first epoch
            self.rows_embedded = embedded + (self.row_count(rows) if epoch == 1 else 0)

    def run_batches(
        self, requests: Iterable[vfl_pb2.BatchRequest], act: Act, absent: Collection[str] = ()
    ) -> None:
        """Carry out one step for each request.

        Raises:
            PolicyError: a party is absent, but a population has all parties.
        """
        _refuse_absent(absent)
        for request in requests:
            self._step(request, act, self.models.with_prefix(), self._optimiser)

    def _step(
        self,
        request: vfl_pb2.BatchRequest,
        act: Act,
        chosen: list[Tensor],
        optimiser: torch.optim.Optimizer | None,
    ) -> None:
        """Carry out one batch of all models."""
        rows = torch.from_numpy(np.stack([each.rows_of(request) for each in self._batches]))
        logits = self.models(self._pooled.batch(rows))
        self.rows_embedded += rows.shape[1]
        loss = act(Batch(request, rows, logits, self.labels[rows], self.norms))
        use = loss.use_of(0)
        match use.WhichOneof("use"):
            case "descend" if optimiser is not None:
                scale = use.descend.scale if use.descend.HasField("scale") else 1.0
                rate = scale * self._rule.learning_rate
                _take_step(optimiser, rate, loss.values.sum(), chosen)
            case "hold":
                self._hold(self._gradients(loss.values), request.index)
            case "primal_step":
                steps = [loss.use_of(n).primal_step for n in range(len(self.models))]
                self._primal(steps, self._gradients(loss.values))
            case other:
                raise LookupError(f"a population cannot use a gradient for {other!r}")

    def _gradients(self, values: Tensor) -> list[Tensor]:
        """Return each model's gradient of its own entry of ``values``, ``[N]``."""
        return list(torch.autograd.grad(values.sum(), self.models.with_prefix()))

    def _hold(self, gradients: list[Tensor], part: int) -> None:
        """Hold a gradient; from part 1 on, add it to the held gradient."""
        if part and self._held:
            self._held = [a + b for a, b in zip(self._held, gradients, strict=True)]
            return
        present = [each.detach().clone() for each in self.models.with_prefix()]
        if self._mark:
            moved = [a - b for a, b in zip(present, self._mark, strict=True)]
            self._change = squared_norm_per_model(moved)
        self._mark, self._held = present, gradients

    # --- steps -----------------------------------------------------------------------------------

    def norms(self, _anchor: str | None = None, _proximal: float = 0.0) -> list[Norms]:
        """Return the norms of every model; the proximal term is not measured."""
        held = squared_norm_per_model(self._held)
        parameters = squared_norm_per_model(self.models.with_prefix())
        return [
            Norms(float(g), float(change), float(theta))
            for g, change, theta in zip(held, self._change, parameters, strict=True)
        ]

    def ascend(self, factors: Sequence[float]) -> None:
        """Add to the parameters of each model its held gradient, times its factor."""
        self.models.add(self._held, torch.tensor(factors, dtype=torch.float64))

    def primal_step(self, steps: Sequence[vfl_pb2.PrimalStep]) -> None:
        """Take a primal step of each model, without retained rows."""
        self._primal(steps, None)

    @torch.no_grad()
    def _primal(self, steps: Sequence[vfl_pb2.PrimalStep], retain: Sequence[Tensor] | None) -> None:
        duals = torch.tensor([each.multiplier for each in steps])
        rates = torch.tensor([each.step_size for each in steps])
        self._move(duals, rates, retain)
        if steps[0].HasField("noise"):
            self._perturb([each.noise for each in steps])

    def _move(self, duals: Tensor, rates: Tensor, retain: Sequence[Tensor] | None) -> None:
        """Take the primal step of each model, ``duals`` and ``rates`` ``[N]``."""
        directions, proximal = [], self._rule.proximal
        blocks = zip(self.models.with_prefix(), self._held, self._anchor, strict=True)
        for place, (theta, g_u, start) in enumerate(blocks):
            # FedORA Eq 27/34, with a separate dual variable for every model.
            direction = proximal * (theta - start) - broadcast_per_model(duals, g_u) * g_u
            directions.append(direction if retain is None else direction + retain[place])
        if self._optimiser is None:
            self.models.add(directions, -rates)
            return
        for theta, direction in zip(self.models.with_prefix(), directions, strict=True):
            theta.grad = direction
        for group in self._optimiser.param_groups:
            group["lr"] = float(rates[0])
        self._optimiser.step()

    def _perturb(self, noise: Sequence[vfl_pb2.PrimalNoise]) -> None:
        """Add the noise of a primal step that each party adds to its part of each model."""
        active = self.agreement.active
        for name in self.agreement.parties:
            block = self.models.with_prefix(f"bottoms.{name}.")
            block += self.models.with_prefix("top.") if name == active else []
            for number, each in enumerate(noise):
                part = [theta[number] for theta in block]
                perturb(part, each.deviation, noise_seed(self.agreement, name, each.draw))

    # --- outputs ---------------------------------------------------------------------------------

    def streams(self, purpose: str) -> list[str]:
        """Return the name of each model's random stream for ``purpose``."""
        return self._trained.streams(purpose)

    @torch.no_grad()
    def embeddings(self, rows: vfl_pb2.Rows, most: int | None = None) -> Tensor:
        """Return each model's embeddings of a row set in index order, ``[N, rows, width]``.

        With ``most``, only the first ``most`` rows.
        """
        chosen = torch.from_numpy(np.stack([sets.select(rows)[:most] for sets in self.sets]))
        self.rows_embedded += chosen.shape[1]
        parts = []
        for part in torch.split(chosen, PASS_ROWS, dim=1):
            pairs = zip(self._pooled.inputs, self._pooled.batch(part), strict=True)
            own = [self.models.part(f"bottoms.{name}", batch) for name, batch in pairs]
            parts.append(torch.cat(own, dim=2))
        return torch.cat(parts, dim=1)

    @torch.no_grad()
    def logits(self, rows: vfl_pb2.Rows, most: int | None = None) -> list[Tensor]:
        """Return each model's logits on a row set in index order, ``[rows, classes]`` each.

        With ``most``, only the first ``most`` rows.
        """
        chosen = torch.from_numpy(np.stack([sets.select(rows)[:most] for sets in self.sets]))
        self.rows_embedded += chosen.shape[1]
        parts = [
            self.models(self._pooled.batch(part)) for part in torch.split(chosen, PASS_ROWS, dim=1)
        ]
        return list(torch.cat(parts, dim=1))

    def votes(self, rows: vfl_pb2.Rows, absent: Collection[str] = ()) -> list[Votes]:
        """Return the votes of all parties together, on a row set in index order.

        Raises:
            PolicyError: a party is absent, but a population has all parties.
        """
        _refuse_absent(absent)
        zeros = torch.zeros(len(self.agreement.labels.classes))
        return [Votes(each, {"all": each}, zeros.to(each.dtype)) for each in self.logits(rows)]

    def scale_logits(self, factors: Sequence[float]) -> None:
        """Multiply the logits of each model by its factor, in the last layer of its top model."""
        names = [name for name in self.models.parameters if name.startswith("top.")]
        last = max(int(name.split(".")[2]) for name in names)
        numbers = torch.tensor(factors, dtype=torch.float64)
        self.models.scale(numbers, f"top.perceptron.{last}.")


def _take_step(
    optimiser: torch.optim.Optimizer | None, rate: float, loss: Tensor, chosen: Sequence[Tensor]
) -> None:
    """One step along the gradient of ``loss``, a sum over models, of the ``chosen`` parameters."""
    if optimiser is None:
        raise LookupError("the present update rule takes no optimiser steps")
    optimiser.zero_grad()
    loss.backward(inputs=chosen)  # type: ignore[no-untyped-call]
    step_with_rate(optimiser, rate)


def _refuse_absent(absent: Collection[str]) -> None:
    if absent:
        raise PolicyError(
            "in a population all parties take part", "remove 'offline' from the settings"
        )


def train_originals(
    draw: ForgetSet, purpose: str, rows: vfl_pb2.Rows, early: Collection[float] = ()
) -> TrainedPopulation:
    """Train every run from scratch on ``rows``: TRAIN_ROWS, or RETAIN for Retrain models.

    Copies of the models are kept after each fraction ``early`` of the epochs.
    """
    names = [str(run) for run in range(draw.runs)]
    plan = draw.pooled.agreement.training
    fresh = draw.pooled.fresh([f"{purpose} {name}" for name in names])
    sets = [draw.rows(run) for run in range(draw.runs)]
    untrained = TrainedPopulation(draw.pooled, sets, names, fresh, {})
    run = PopulationRun(untrained)
    if plan.start == "local":
        models, without_joint = _train_with_local_start(run, rows, purpose)
        kept = dict.fromkeys(early, without_joint)
        return replace(untrained, original=models, early=kept)
    run.start(ORIGINAL, purpose, UpdateRule.like_training(plan, plan.learning_rate))
    kept = {}
    for epoch in range(1, plan.epochs + 1):
        train_epoch(run, rows, epoch)
        due = [each for each in early if epoch == max(1, round(each * plan.epochs))]
        kept |= {each: run.models.copy() for each in due}
    return TrainedPopulation(draw.pooled, sets, names, run.models, kept)


def _train_with_local_start(
    run: PopulationRun, rows: vfl_pb2.Rows, stream: str
) -> tuple[Ensemble, Ensemble]:
    """Train with a local start; return the models, and their copies before the joint epochs."""
    training = LocalStart(run, run.agreement.training.local, rows, stream)
    training.begin()
    early = run.models
    for number in range(training.epochs):
        training.epoch(number)
        if training.ends(TOP, number):
            early = run.models.copy()
    return run.models, early


def with_agreement(trained: TrainedPopulation, agreement: VerticalAgreement) -> TrainedPopulation:
    """Return the same models and rows, with the settings of another agreement."""
    return replace(trained, pooled=replace(trained.pooled, agreement=agreement))


@dataclass(frozen=True, slots=True)
class UnlearnedPopulation:
    """The models after a method."""

    models: Ensemble
    # Number of rows of each model whose embeddings would cross the network, once for each time.
    rows_embedded: int
    constraint: dict[str, Any] | None = None  # how FedORA used its constraint; None: not FedORA


def run_population_method(
    trained: TrainedPopulation, way: str, agreement: VerticalAgreement | None = None
) -> UnlearnedPopulation:
    """Return the models after one method; ``agreement`` has other settings of the method.

    Raises:
        PolicyError: a population does not support these settings of FedORA.
        ValueError: the parameters of a model are not finite.
    """
    agreed = agreement or trained.pooled.agreement
    if way == "fedora":
        require_supported(agreed.unlearning.of(FedoraSettings))
    method = cast("Method[PopulationRun, Any, MethodResult]", METHODS[way])
    early = method.needs(agreed).early_checkpoint
    run = PopulationRun(with_agreement(trained, agreed), early)
    result = carry_out(method, run)
    if result.stopped == NOT_FINITE:
        raise ValueError("the parameters of a model are not finite")
    return UnlearnedPopulation(run.models, run.rows_embedded, result.figures.get("constraint"))


def run_requests(
    trained: TrainedPopulation, way: str, agreement: VerticalAgreement, requests: int
) -> UnlearnedPopulation:
    """Return the models after D_u was forgotten in ``requests`` parts, one after another.

    Each part is a request of its own: it starts from the model of the request before, and rows of
    later requests still belong to D_r.

    Raises:
        PolicyError: the method starts from an early checkpoint, which later requests do not have.
        ValueError: as for ``run_population_method``.
    """
    if METHODS[way].needs(agreement).early_checkpoint is not None:
        raise PolicyError(
            f"{way} starts from an early checkpoint, which a population keeps for one request",
            "set requests = 1, or settings without an early checkpoint",
        )
    parts = [
        _parts(sets, requests, name) for sets, name in zip(trained.sets, trained.names, strict=True)
    ]
    models, embedded, found, used = trained.original, 0, list(trained.sets), Counter[str]()
    for number in range(requests):
        found = [
            replace(each, forgotten=own[number]) for each, own in zip(found, parts, strict=True)
        ]
        names = [f"{name} request {number}".strip() for name in trained.names]
        present = replace(trained, sets=found, names=names, original=models, early={})
        done = run_population_method(present, way, agreement)
        models, embedded = done.models, embedded + done.rows_embedded
        used.update(done.constraint or {})
        found = [replace(each, train=each.retain) for each in found]
    return UnlearnedPopulation(models, embedded, dict(used) or None)


def _parts(sets: RowSets, count: int, name: str) -> list[Index]:
    """Return D_u of a model in ``count`` random parts of nearly equal size, each ascending."""
    order = permutation(derive_key(sets.seed, "requests", name), len(sets.forgotten))
    return [np.sort(sets.forgotten[part]) for part in np.array_split(order, count)]


def require_supported(plan: FedoraSettings) -> None:
    """Refuse settings with a different step size, or a different vector of duals, per model.

    Raises:
        PolicyError: a population does not support these settings.
    """
    if plan.dual == "literal" or (plan.adaptive and plan.primal == "optimiser"):
        raise PolicyError(
            "a population does not support these settings of FedORA",
            "set dual = 'scalar'; with primal = 'optimiser', also set adaptive = false",
        )
