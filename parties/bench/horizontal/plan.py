"""The list of horizontal experiments, and the runs that it stands for."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from pydantic import Field, ValidationError

from configs.errors import ConfigError
from configs.experiments import Changes, Title
from configs.federated_file import read_horizontal
from configs.problems import problem
from configs.table import Count, Table
from configs.toml_file import read_toml
from parties.bench.plan import Run, Scope, digest


class Experiment(Table):
    """One setting; all its methods are run in one run, so that they share the training."""

    name: Title
    config: str  # a file, from the folder of this list
    tables: Annotated[tuple[str, ...], Field(min_length=1)]  # that read it
    seeds: Count = 3  # 0, 1, ... to one less than this
    changes: Changes = ()


class HorizontalExperiments(Table):
    """The whole list.

    Attributes:
        always: what every run changes.
        quick: what --quick adds.
    """

    always: Changes = ()
    quick: Changes = ()
    experiment: Annotated[tuple[Experiment, ...], Field(min_length=1)]

    @property
    def tables(self) -> list[str]:
        """All that are read by somebody."""
        return sorted({table for each in self.experiment for table in each.tables})


def read_list(path: Path) -> HorizontalExperiments:
    """Read a list of experiments.

    Raises:
        ConfigError: all its problems, each with its place.
    """
    kind = HorizontalExperiments
    try:
        return kind.model_validate_json(json.dumps(read_toml(path, [])), strict=True)
    except ValidationError as error:
        found = [problem(kind, each, "") for each in error.errors(include_url=False)]
        raise ConfigError([f"{path}: {each}" for each in found[:20]]) from error


def horizontal_runs(listed: HorizontalExperiments, folder: Path, scope: Scope) -> list[Run]:
    """All runs of the experiments that feed a wanted table.

    Raises:
        ConfigError: a config does not take its changes.
    """
    chosen = [
        each
        for each in listed.experiment
        if (not scope.tables or set(each.tables) & set(scope.tables))
        and (not scope.only or each.name in scope.only)
    ]
    return [run for each in chosen for run in _of(each, listed, folder, scope)]


def _of(
    each: Experiment, listed: HorizontalExperiments, folder: Path, scope: Scope
) -> Iterator[Run]:
    path = folder / each.config
    for seed in range(1 if scope.quick else min(each.seeds, scope.seeds or each.seeds)):
        changes = (*listed.always, *each.changes, *(listed.quick if scope.quick else ()))
        named = (*_last(changes), f"seed={seed}")
        config = read_horizontal(path, named)
        yield Run(
            experiment=each.name,
            variant="",
            poisoned=False,
            seed=seed,
            config=path,
            changes=named,
            processes=False,
            gpu=False,
            agreement=config.agreement,
            digest=digest(config, processes=False),
        )


def _last(changes: Changes) -> Changes:
    """Each setting once, as it was changed last."""
    found = {change.partition("=")[0].strip(): change for change in changes}
    return tuple(found.values())
