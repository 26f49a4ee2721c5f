"""A list of experiments: configs, what is changed in them, and which tables read the results."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Self, TypeAlias

from pydantic import Field, ValidationError, model_validator

from configs.agreement import Request
from configs.errors import ConfigError
from configs.evaluation import Backdoor
from configs.problems import problem
from configs.table import Count, Fraction, Table
from configs.toml_file import read_toml

Title: TypeAlias = Annotated[str, Field(min_length=1, max_length=80)]
Changes: TypeAlias = tuple[str, ...]  # as --set takes them


class First(Table):
    """A request for the first classes after the very first, which is a backdoor's target."""

    classes: Count
    fraction: Fraction = 1.0


class Experiment(Table):
    """One setting: a config, the rows to forget, and the variants of unlearning that are run."""

    name: Title
    config: str  # a file, from the folder of this list
    tables: Annotated[tuple[str, ...], Field(min_length=1)]  # that read it
    variants: Annotated[tuple[Title, ...], Field(min_length=1)]
    seeds: Count = 5  # 0, 1, ... to one less than this
    poisoned: Count = 3  # at most so many of them once more with the backdoor
    request: Request | None = None  # rows to forget
    first: First | None = None  # the same for configs with many classes; neither: as in the config
    backdoor: Backdoor | None = None  # a second run, in which D_u is poisoned
    changes: Changes = ()
    gpu: bool = False  # made only where somebody asks for it
    processes: bool = False  # real parties over TLS, one run at a time: for figures of time

    @model_validator(mode="after")
    def _poisons_a_request(self) -> Self:
        if self.request and (self.first or self.request.backdoor):
            raise ValueError("request goes without first, and without a backdoor of its own")
        if self.backdoor and not (self.request or self.first):
            raise ValueError("backdoor poisons what request or first names")
        return self


Set: TypeAlias = Mapping[str, Changes]  # by config (its file's stem), and ``any`` for every one


class Experiments(Table):
    """The whole list.

    Attributes:
        always: what every run changes.
        variants: by name, what each changes; ``like`` names a variant whose changes come before.
    """

    always: Set = Field(default_factory=dict)
    variants: Mapping[Title, Set]
    experiment: Annotated[tuple[Experiment, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _known(self) -> Self:
        names = [each.name for each in self.experiment]
        if len(set(names)) < len(names):
            raise ValueError("two experiments bear one name")
        for each in self.experiment:
            for unknown in set(each.variants) - set(self.variants):
                raise ValueError(f"experiment {each.name!r} has an unknown variant {unknown!r}")
        for name, own in self.variants.items():
            for other in own.get("like", ()):
                if "like" in self.variants.get(other, {"like": ()}):
                    raise ValueError(
                        f"variant {name!r} is like {other!r}, which is none, or so too"
                    )
        return self

    def changes(self, experiment: Experiment, variant: str) -> Changes:
        """All changes of one variant of one experiment, in the order in which they are made.

        What changes a setting again takes the place of what did before.
        """
        own = self.variants[variant]
        models = [self.variants[name] for name in own.get("like", ())]
        stem = Path(experiment.config).stem
        sets = [self.always, *models, own]
        listed = [change for each in sets for key in ("any", stem) for change in each.get(key, ())]
        last = dict[str, str]()
        for change in (*listed, *experiment.changes):
            key = change.partition("=")[0].strip()
            last.pop(key, None)
            last[key] = change
        return tuple(last.values())


def read_experiments(path: Path) -> Experiments:
    """Read a list of experiments.

    Raises:
        ConfigError: all its problems, each with its place.
    """
    raw = read_toml(path, [])
    try:
        return Experiments.model_validate_json(json.dumps(raw), strict=True)
    except ValidationError as error:
        found = [problem(Experiments, each, "") for each in error.errors(include_url=False)]
        raise ConfigError([f"{path}: {each}" for each in found[:20]]) from error


def inline(value: Any) -> str:
    """A JSON value as TOML in one line, for ``--set``."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {inline(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(inline(each) for each in value) + "]"
    return json.dumps(value, ensure_ascii=False)
