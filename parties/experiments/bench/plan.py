"""Planned runs of all experiments; a run has a config, changes to the config, and a seed."""

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Self, TypeAlias

from pydantic import Field, model_validator

from configs.agreement import VerticalAgreement
from configs.config_file import AnyConfig, FederatedConfig, canonical_agreement
from configs.experiments import (
    Changes,
    ExperimentEntry,
    Title,
    read_list,
)
from configs.federated import FederatedAgreement
from configs.table import ConfigTable, Count
from parties.report.record import VERSION

QUICK = "quick"  # name of the variant with short training


@dataclass(frozen=True, slots=True)
class Scope:
    """The requested tables, experiments and seeds."""

    tables: Collection[str] = ()  # tables to fill; empty: all
    only: Collection[str] = ()  # names of experiments to run; empty: all
    seeds: int | None = None  # largest number of seeds per experiment
    gpu: bool = False  # whether experiments that need a GPU are included
    # One seed and short training per experiment, to test the set-up; the results are not valid.
    quick: bool = False

    def includes(self, each: "Listed") -> bool:
        """Return whether the scope includes an experiment."""
        return bool(
            (not self.tables or set(each.tables) & set(self.tables))
            and (not self.only or each.name in self.only)
            and (self.gpu or not each.gpu)
        )

    def seeds_of(self, each: "Listed") -> int:
        """Return the number of seeds of an experiment."""
        return 1 if self.quick else min(each.seeds, self.seeds or each.seeds)


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """One run to execute: a config with changes and one seed."""

    experiment: str
    variant: str
    poisoned: bool  # whether D_u carries a backdoor; such a run is separate
    seed: int
    config: Path
    changes: tuple[str, ...]
    processes: bool
    gpu: bool
    agreement: VerticalAgreement | FederatedAgreement
    digest: str  # of agreement, settings and version; equal runs have equal digests

    @property
    def title(self) -> str:
        """Readable name of the run."""
        poisoned = ", poisoned" if self.poisoned else ""
        variant = f": {self.variant}" if self.variant else ""
        return f"{self.experiment}{variant}{poisoned}, seed {self.seed}"


@dataclass(frozen=True, slots=True)
class RunOf:
    """A run of an experiment whose config is not yet read."""

    experiment: "Listed"
    variant: str
    seed: int
    config: Path
    changes: tuple[str, ...]

    def planned(
        self,
        read: AnyConfig,
        *,
        poisoned: bool = False,
        processes: bool = False,
    ) -> PlannedRun:
        """Return the run with the config ``read``, which has the changes."""
        return PlannedRun(
            experiment=self.experiment.name,
            variant=self.variant,
            poisoned=poisoned,
            seed=self.seed,
            config=self.config,
            changes=self.changes,
            processes=processes,
            gpu=self.experiment.gpu,
            agreement=read.agreement,
            digest=run_digest(read, processes=processes),
        )


Values: TypeAlias = dict[str, float]  # by measure; a measure without a value is absent
Extract: TypeAlias = Callable[[PlannedRun, Mapping[str, Any]], dict[str, Values]]  # by method
FederatedReader: TypeAlias = Callable[[Path, Changes], FederatedConfig]


def run_digest(config: AnyConfig, *, processes: bool) -> str:
    """Return the name of a run's folder: a digest of all settings that determine the results.

    The digest covers the agreement, the party settings and the version of the record's format. The
    run's record has a separate digest of the code. If the runs of a result page have different
    digests of the code, the page says so.
    """
    settings = {name: each.canonical() for name, each in sorted(config.inline.items())}
    parts = [canonical_agreement(config.agreement), json.dumps(settings, sort_keys=True)]
    parts += [str(VERSION), "processes" if processes else "threads"]
    return sha256("\n".join(parts).encode()).hexdigest()[:24]


class FederatedExperiment(ConfigTable):
    """One experiment of a federated mode; all methods start from the same trained model."""

    name: Title
    config: str  # path, relative to the folder of this list
    tables: Annotated[tuple[str, ...], Field(min_length=1)]  # tables that read it
    seeds: Count = 3  # number of seeds: 0, 1, ...
    changes: Changes = ()
    # Names of variants with one run each; an empty name stands for the unchanged config.
    variants: tuple[Title, ...] = ("",)
    gpu: bool = False  # whether the experiment needs a GPU


Listed: TypeAlias = ExperimentEntry | FederatedExperiment  # an experiment of any mode


class FederatedExperiments(ConfigTable):
    """All experiments of one file."""

    always: Changes = ()  # changes to the config of every run
    quick: Changes = ()  # additional changes to every config, if ``--quick`` is set
    # Additional changes to the config, by name of the variant.
    variants: Mapping[Title, Changes] = Field(default_factory=dict)
    experiment: Annotated[tuple[FederatedExperiment, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _has_all_variants(self) -> Self:
        used = {name for each in self.experiment for name in each.variants if name}
        if unknown := used - set(self.variants):
            raise ValueError(f"experiments use undefined variants: {', '.join(sorted(unknown))}")
        return self

    @property
    def tables(self) -> list[str]:
        """Sorted names of the tables in which the experiments are shown."""
        return sorted({table for each in self.experiment for table in each.tables})


def read_federated_experiments(path: Path) -> FederatedExperiments:
    """Read a file of experiments.

    Raises:
        ConfigError: the file is invalid; the error lists every problem with its place.
    """
    return read_list(FederatedExperiments, path)


def plan_federated_runs(
    listed: FederatedExperiments, folder: Path, scope: Scope, read: FederatedReader
) -> list[PlannedRun]:
    """Return all runs of the experiments in ``scope``; ``read`` reads the configs in ``folder``.

    Raises:
        ConfigError: the changes to a config are invalid.
    """
    chosen = filter(scope.includes, listed.experiment)
    runs = (of for each in chosen for of in _federated_runs(each, listed, folder, scope))
    return [of.planned(read(of.config, of.changes)) for of in runs]


def _federated_runs(
    each: FederatedExperiment, listed: FederatedExperiments, folder: Path, scope: Scope
) -> Iterator[RunOf]:
    path = folder / each.config
    for variant, seed in product(each.variants, range(scope.seeds_of(each))):
        own = listed.variants[variant] if variant else ()
        quick = listed.quick if scope.quick else ()
        named = (*_last((*listed.always, *each.changes, *own, *quick)), f"seed={seed}")
        yield RunOf(each, variant, seed, path, named)


def _last(changes: Changes) -> Changes:
    """Return the last change of each setting."""
    found = {change.partition("=")[0].strip(): change for change in changes}
    return tuple(found.values())
