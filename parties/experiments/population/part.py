"""One population with one seed: its trained models, and what is measured of each method."""

import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from time import monotonic
from typing import Any, Final, Self

import numpy as np
import torch

from configs.agreement import VerticalAgreement
from configs.config_file import read_config
from models.ensemble import Ensemble
from parties.common.atomic_file import write_atomically
from parties.common.errors import PolicyError
from parties.common.shared_randomness import Index, derive_key, permutation
from parties.experiments.population.forget_sets import (
    ForgetSet,
    draw_forget_sets,
    draw_triggered,
)
from parties.experiments.population.measured import Floats, Measured
from parties.experiments.population.plan import (
    ORIGINAL,
    RETRAIN,
    TRAINING,
    Population,
    Study,
    StudyMethod,
)
from parties.experiments.population.pooled_data import PooledData, read_pooled_data
from parties.experiments.population.run import (
    run_population_method,
    run_requests,
    train_originals,
)
from parties.experiments.population.trained import TrainedPopulation
from parties.experiments.provenance import Provenance, RunningCode
from parties.vertical.engine.optimiser import embedding_passes
from parties.vertical.methods.registry import SCHEMA
from protocol import vfl_pb2
from unlearning.audit.forgetting import label_log_odds
from unlearning.calibration import confidence_factor, median_confidence

Describe = Callable[[str], None]
ORIGINALS, RETRAINS, TRIGGERED = "original", "retrain", "triggered"  # names of the trained models
SAMPLE: Final = 2000  # largest number of remaining rows on which predictions are compared


@dataclass(frozen=True, slots=True)
class StudyPlace:
    """Folders of a study: the folders of its config file, its data and its result files."""

    configs: Path  # the folder of the study's file
    data: Path | None
    out: Path
    code: RunningCode  # that the figures depend on


@dataclass(frozen=True, slots=True)
class PartPlan:
    """What determines the models of one part of a study."""

    population: Population
    seed: int
    early: tuple[float, ...]  # fractions of the training after which copies are kept
    printed: Mapping[str, Any]  # settings of FedORA as printed in the paper

    @classmethod
    def of(cls, study: Study, population: Population, seed: int) -> Self:
        """Return the plan of one population of a study, with one seed."""
        printed = study.paper_form_of(population)
        return cls(population, seed, tuple(map(float, study.early)), printed)


@dataclass(frozen=True, slots=True)
class PartInputs:
    """What a part reads from files, so that another machine can measure it.

    Attributes:
        agreement: the agreement of the population with the part's seed.
        text: text of the population's config file.
        pooled: the data, by the further changes of the settings.
        measured: the code that measures.
    """

    agreement: VerticalAgreement
    text: str
    pooled: Mapping[tuple[str, ...], PooledData]
    measured: Provenance


class StudyPart:
    """One population with one seed; models are trained only if a measurement is missing."""

    def __init__(
        self,
        plan: PartPlan,
        place: StudyPlace,
        describe: Describe,
        inputs: PartInputs | None = None,
    ) -> None:
        """Use the files of earlier runs in ``place.out``; ``inputs`` replace config and data."""
        self.plan, self._place, self._describe = plan, place, describe
        self._inputs = inputs
        if inputs is None:
            config = place.configs / plan.population.config
            self.agreement = read_config(config, SCHEMA, self._changes(())).agreement
            self._text = config.read_text()
        else:
            self.agreement, self._text = inputs.agreement, inputs.text
        population = plan.population.model_dump(
            mode="json", exclude={"name", "rows_of", "without", "trigger"}
        )
        settings = [population, self._text, plan.seed, plan.early]
        self.folder = place.out / _digest(settings)

    def read_inputs(self) -> PartInputs:
        """Read what another machine needs to measure this part."""
        trigger = self.plan.population.trigger
        every: dict[tuple[str, ...], PooledData] = {(): self._pooled}
        if trigger is not None:
            every[tuple(trigger.changes)] = self._read(trigger.changes)
        return PartInputs(self.agreement, self._text, every, self._place.code.started)

    def model_files(self) -> dict[str, bytes]:
        """The files with trained models that exist: content by name."""
        paths = [self._models_path(name) for name in (ORIGINALS, RETRAINS, TRIGGERED)]
        return {each.name: each.read_bytes() for each in paths if each.exists()}

    def path(self, row: StudyMethod) -> Path:
        """Return the path of the file with what is measured of a method."""
        printed = dict(self.plan.printed) if row.paper else {}
        settings = row.model_dump(mode="json", include={"way", "paper", "settings"})
        settings |= {"from_defaults": True} if row.from_defaults else {}
        settings |= {"requests": row.requests} if row.requests > 1 else {}
        return self.folder / f"{_digest([settings, printed, self._trigger_settings])}.npz"

    def measured(self, row: StudyMethod) -> Measured:
        """Return what is measured of a method, from its file or computed.

        If a model diverged, the fact ``failure`` says why, and nothing is measured.
        """
        path = self.path(row)
        if not path.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            self._describe(f"{self.name}: {row.name}")
            found = self._measure(row)
            found.with_facts(provenance=asdict(self._provenance())).save(path)
        return Measured.load(path)

    @property
    def name(self) -> str:
        """The name of the part in messages."""
        return f"{self.plan.population.name}, seed {self.plan.seed}"

    @cached_property
    def learned(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Whether each run was trained on each row of the pool, ``[runs, pool]``."""
        return self._sets.learned

    # --- models ----------------------------------------------------------------------------------

    @cached_property
    def _pooled(self) -> PooledData:
        return self._read(())

    def _read(self, changes: Sequence[str]) -> PooledData:
        if self._inputs is not None:
            return self._inputs.pooled[tuple(changes)]
        population = self.plan.population
        config = self._place.configs / population.config
        return read_pooled_data(config, self._place.data, self._changes(changes), population.rows)

    def _changes(self, further: Sequence[str]) -> tuple[str, ...]:
        return (f"seed={self.plan.seed}", *self.plan.population.changes, *further)

    @cached_property
    def _sets(self) -> ForgetSet:
        request = self._pooled.agreement.unlearn[0]
        if request.corrects:
            raise PolicyError(
                "a study audits requests to forget rows, and this one corrects labels",
                "remove corrects = true from the request of the population",
            )
        return draw_forget_sets(self._pooled, request, self.plan.population.runs)

    @cached_property
    def _triggered(self) -> ForgetSet | None:
        plan = self.plan.population.trigger
        return None if plan is None else draw_triggered(self._read(plan.changes), plan.runs)

    @cached_property
    def _originals(self) -> TrainedPopulation:
        return self._train(self._sets, ORIGINALS, vfl_pb2.TRAIN_ROWS, self.plan.early)

    @cached_property
    def _retrains(self) -> Ensemble:
        return self._train(self._sets, RETRAINS, vfl_pb2.RETAIN).original

    @cached_property
    def _trigger_originals(self) -> TrainedPopulation:
        if self._triggered is None:
            raise LookupError("the population measures no trigger")
        return self._train(self._triggered, TRIGGERED, vfl_pb2.TRAIN_ROWS, self.plan.early)

    def _train(
        self, sets: ForgetSet, purpose: str, rows: vfl_pb2.Rows, early: Sequence[float] = ()
    ) -> TrainedPopulation:
        """Train models, or read them from the file of an earlier run."""
        path = self._models_path(purpose)
        if path.exists():
            return _load_models(path, sets)
        self._describe(f"{self.name}: training {sets.runs} models ({purpose})")
        trained = train_originals(sets, purpose, rows, early)
        _save_models(path, trained)
        return trained

    def _models_path(self, purpose: str) -> Path:
        """Return the file of the models; the folder's name does not depend on the trigger."""
        name = f"{purpose}-{_digest(self._trigger_settings)}" if purpose == TRIGGERED else purpose
        return self.folder / f"{name}.npz"

    @property
    def _trigger_settings(self) -> dict[str, Any] | None:
        trigger = self.plan.population.trigger
        return None if trigger is None else trigger.model_dump(mode="json")

    def _models(self, row: StudyMethod, sets: ForgetSet, trained: TrainedPopulation) -> "_Result":
        """Return the models after a method, and its cost."""
        agreed = row.agreement(sets.pooled.agreement, self.plan.printed)
        full = embedding_passes(sets.pooled.agreement) * len(sets.retain)
        if row.way == ORIGINAL.way:
            return _Result(trained.original, 0.0)
        if row.way == RETRAIN.way and sets is self._sets:
            return _Result(self._retrains, 1.0)
        if row.way in (RETRAIN.way, TRAINING):
            changed = replace(sets, pooled=replace(sets.pooled, agreement=agreed))
            models = train_originals(changed, row.name, vfl_pb2.RETAIN).original
            return _Result(models, embedding_passes(agreed) * len(sets.retain) / full)
        if row.requests == 1:
            done = run_population_method(trained, row.way, agreed)
        else:
            done = run_requests(trained, row.way, agreed, row.requests)
        return _Result(done.models, done.rows_embedded / full, done.constraint)

    # --- measurements ----------------------------------------------------------------------------

    def _measure(self, row: StudyMethod) -> Measured:
        facts = {
            "row": row.model_dump(mode="json", include={"name", "way", "settings"}),
            "training_rows": len(self._sets.rows(0).train),
            "failure": None,
        }
        originals, began = self._originals, monotonic()
        try:
            result = self._models(row, self._sets, originals)
            facts |= {"seconds": monotonic() - began, "rows_of_retrain": result.share}
            facts |= {"constraint": result.constraint}
            return self._audited(result.models, self._trigger_rates(row), facts)
        except ValueError as error:
            facts |= {"seconds": monotonic() - began, "failure": str(error)}
            return Measured.nothing(facts)

    def _provenance(self) -> Provenance:
        known = self._inputs
        return self._place.code.provenance() if known is None else known.measured

    def _audited(self, models: Ensemble, triggered: Floats, facts: dict[str, Any]) -> Measured:
        pooled, sets = self._sets.pooled, self._sets
        logits = pooled.logits(models, sets.pool)
        labels, factors = pooled.labels[sets.pool], self._factors(models)
        return Measured(
            confidences=label_log_odds(logits, labels).numpy(),
            calibrated=label_log_odds(logits * factors.view(-1, 1, 1), labels).numpy(),
            test=accuracies(pooled, models, pooled.rows.test),
            validation=accuracies(pooled, models, pooled.rows.validation),
            changed=self._changed(models),
            planted=self._planted(logits.argmax(dim=2).numpy(), labels.numpy()),
            triggered=triggered,
            facts=facts,
        )

    def _factors(self, models: Ensemble) -> torch.Tensor:
        """Return the factor of each model's logits that gives it the confidence of Retrain."""
        pooled = self._sets.pooled
        found = pooled.logits(models, pooled.rows.validation)
        return torch.tensor([confidence_factor(each, self._confidence) for each in found])

    @cached_property
    def _confidence(self) -> float:
        """The mean over the Retrain models of their median confidence on validation rows."""
        pooled = self._sets.pooled
        found = pooled.logits(self._retrains, pooled.rows.validation)
        return float(np.mean([median_confidence(each) for each in found]))

    def _changed(self, models: Ensemble) -> Floats:
        before, after = (self._classes(each) for each in (self._originals.original, models))
        changed: Floats = (before != after).mean(axis=1)
        return changed

    def _classes(self, models: Ensemble) -> np.ndarray[Any, np.dtype[np.int64]]:
        found: np.ndarray[Any, np.dtype[np.int64]] = (
            self._pooled.logits(models, self._remaining).argmax(dim=2).numpy()
        )
        return found

    @cached_property
    def _remaining(self) -> Index:
        """A sample of the rows of D_r."""
        retain = self._sets.retain
        order = permutation(derive_key(self.plan.seed, "remaining rows"), len(retain))
        return np.sort(retain[order[:SAMPLE]])

    def _planted(
        self,
        predicted: np.ndarray[Any, np.dtype[np.int64]],
        labels: np.ndarray[Any, np.dtype[np.int64]],
    ) -> Floats:
        """Return the rate of planted labels on the canaries that each model forgot, ``[runs]``."""
        if not self._pooled.agreement.unlearn[0].canaries:
            return np.empty(0)
        hits, learned = predicted == labels, self._sets.learned
        rates: Floats = (hits & learned).sum(axis=1) / learned.sum(axis=1)
        return rates

    def _trigger_rates(self, row: StudyMethod) -> Floats:
        """Return the excess success rate of the trigger of each model, ``[trigger runs]``."""
        sets = self._triggered
        if sets is None or sets.pooled.trigger is None:
            return np.empty(0)
        models = self._models(row, sets, self._trigger_originals).models
        trigger, pooled = sets.pooled.trigger, sets.pooled
        labels = pooled.labels.numpy()
        rows = pooled.rows.test[labels[pooled.rows.test] != trigger.target]
        stamped = replace(pooled, inputs={**pooled.inputs, trigger.party: trigger.stamped})
        with_it, without = (
            (each.logits(models, rows).argmax(dim=2) == trigger.target).double().mean(dim=1)
            for each in (stamped, pooled)
        )
        return (with_it - without).numpy()


@dataclass(frozen=True, slots=True)
class _Result:
    """The models after a method."""

    models: Ensemble
    share: float  # rows whose embeddings crossed, as a share of those of Retrain
    constraint: dict[str, Any] | None = None  # how FedORA used its constraint


def accuracies(pooled: PooledData, models: Ensemble, rows: Index) -> Floats:
    """Return the accuracy of every model on ``rows``, ``[N]``."""
    right = pooled.logits(models, rows).argmax(dim=2) == pooled.labels[rows]
    found: Floats = right.double().mean(dim=1).numpy()
    return found


def _digest(values: object) -> str:
    return sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]


def _save_models(path: Path, trained: TrainedPopulation) -> None:
    copies = {"": trained.original} | {f"{share}/": each for share, each in trained.early.items()}
    arrays = {
        f"{prefix}{name}": value.detach().numpy()
        for prefix, models in copies.items()
        for name, value in models.parameters.items()
    }
    content = io.BytesIO()
    np.savez(content, allow_pickle=False, **arrays)
    write_atomically(path, content.getvalue())


def _load_models(path: Path, sets: ForgetSet) -> TrainedPopulation:
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: torch.from_numpy(file[name]) for name in file.files}
    names = [str(run) for run in range(sets.runs)]
    shape = sets.pooled.fresh(["shape"])

    def models(prefix: str) -> Ensemble:
        return shape.like({name: arrays[f"{prefix}{name}"] for name in shape.parameters})

    shares = {name.split("/")[0] for name in arrays if "/" in name}
    early = {float(each): models(f"{each}/") for each in shares}
    rows = [sets.rows(run) for run in range(sets.runs)]
    return TrainedPopulation(sets.pooled, rows, names, models(""), early)
