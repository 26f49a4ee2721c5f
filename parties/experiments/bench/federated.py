"""A list of experiments with a server and clients, and the runs that it stands for."""

import json
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, ValidationError, model_validator

from configs.errors import ConfigError
from configs.experiments import Changes, Title
from configs.federated_file import read_federated
from configs.problems import problem
from configs.table import Count, Table
from configs.toml_file import read_toml
from parties.experiments.bench.plan import Run, Scope, digest


class Experiment(Table):
    """One setting; all its methods are run in one run, so that they share the training.

    Attributes:
        variants: of the list's; a run each. None: one run as it is.
        gpu: made only where somebody asks for it.
    """

    name: Title
    config: str  # a file, from the folder of this list
    tables: Annotated[tuple[str, ...], Field(min_length=1)]  # that read it
    seeds: Count = 3  # 0, 1, ... to one less than this
    changes: Changes = ()
    variants: tuple[Title, ...] = ("",)
    gpu: bool = False


class FederatedExperiments(Table):
    """The whole list.

    Attributes:
        always: what every run changes.
        quick: what --quick adds.
        variants: what each of them changes.
    """

    always: Changes = ()
    quick: Changes = ()
    variants: Mapping[Title, Changes] = Field(default_factory=dict)
    experiment: Annotated[tuple[Experiment, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _has_all_variants(self) -> Self:
        asked = {name for each in self.experiment for name in each.variants if name}
        if unknown := asked - set(self.variants):
            raise ValueError(f"no variant {', '.join(sorted(unknown))}")
        return self

    @property
    def tables(self) -> list[str]:
        """All that are read by somebody."""
        return sorted({table for each in self.experiment for table in each.tables})


def read_list(path: Path) -> FederatedExperiments:
    """Read a list of experiments.

    Raises:
        ConfigError: all its problems, each with its place.
    """
    kind = FederatedExperiments
    try:
        return kind.model_validate_json(json.dumps(read_toml(path, [])), strict=True)
    except ValidationError as error:
        found = [problem(kind, each, "") for each in error.errors(include_url=False)]
        raise ConfigError([f"{path}: {each}" for each in found[:20]]) from error


def federated_runs(listed: FederatedExperiments, folder: Path, scope: Scope) -> list[Run]:
    """All runs of the experiments that feed a wanted table.

    Raises:
        ConfigError: a config does not take its changes.
    """
    chosen = [
        each
        for each in listed.experiment
        if (not scope.tables or set(each.tables) & set(scope.tables))
        and (not scope.only or each.name in scope.only)
        and (scope.gpu or not each.gpu)
    ]
    return [run for each in chosen for run in _of(each, listed, folder, scope)]


def _of(
    each: Experiment, listed: FederatedExperiments, folder: Path, scope: Scope
) -> Iterator[Run]:
    path = folder / each.config
    seeds = 1 if scope.quick else min(each.seeds, scope.seeds or each.seeds)
    for variant, seed in product(each.variants, range(seeds)):
        own = listed.variants[variant] if variant else ()
        quick = listed.quick if scope.quick else ()
        named = (*_last((*listed.always, *each.changes, *own, *quick)), f"seed={seed}")
        config = read_federated(path, named)
        yield Run(
            experiment=each.name,
            variant=variant,
            poisoned=False,
            seed=seed,
            config=path,
            changes=named,
            processes=False,
            gpu=each.gpu,
            agreement=config.agreement,
            digest=digest(config, processes=False),
        )


def _last(changes: Changes) -> Changes:
    """Each setting once, as it was changed last."""
    found = {change.partition("=")[0].strip(): change for change in changes}
    return tuple(found.values())
