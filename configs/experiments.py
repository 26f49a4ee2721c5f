"""Lists of experiments: the config, the changed settings and the tables of each experiment."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Self, TypeAlias, TypeVar

from pydantic import Field, ValidationError, model_validator

from configs.agreement import RowRequest
from configs.errors import ConfigError
from configs.evaluation import BackdoorSettings
from configs.messages import issue_message
from configs.table import ConfigTable, Count, Fraction
from configs.toml_file import read_toml

T = TypeVar("T", bound=ConfigTable)
Title: TypeAlias = Annotated[str, Field(min_length=1, max_length=80)]
Changes: TypeAlias = tuple[str, ...]  # overrides in the form of --set


class FirstClasses(ConfigTable):
    """A request to forget the first classes after class 0, which is the target of backdoors."""

    classes: Count  # number of classes
    fraction: Fraction = 1.0  # fraction of the training rows of these classes


class ExperimentEntry(ConfigTable):
    """One experiment: a config, the rows to forget, and the variants of unlearning to run."""

    name: Title
    config: str  # path of the config, relative to the folder of this list
    tables: Annotated[tuple[str, ...], Field(min_length=1)]  # tables with this experiment
    variants: Annotated[tuple[Title, ...], Field(min_length=1)]  # variants to run
    seeds: Count = 5  # number N of seeds; the seeds are 0, 1, ..., N - 1
    poisoned: Count = 3  # largest number of seeds that are run again with the backdoor
    request: RowRequest | None = None  # rows to forget; absent: see first
    first: FirstClasses | None = (
        None  # classes to forget; without request and first: as in the config
    )
    backdoor: BackdoorSettings | None = (
        None  # backdoor of a second run, in the forgotten rows; absent: no such run
    )
    changes: Changes = ()  # overrides of the config's settings
    gpu: bool = False  # whether the experiment needs a GPU; it is then run only with --gpu
    # Whether parties are real processes over TLS, one run at a time, for measurements of time.
    processes: bool = False

    @model_validator(mode="after")
    def _backdoor_has_rows(self) -> Self:
        if self.request and (self.first or self.request.backdoor):
            raise ValueError(
                "an experiment with the key 'request' cannot have the key 'first' or the key "
                "'request.backdoor': remove 'first', and set the experiment's key 'backdoor' "
                "instead of 'request.backdoor'"
            )
        if self.backdoor and not (self.request or self.first):
            raise ValueError(
                "the key 'backdoor' needs rows to poison: set the key 'request' or the key 'first'"
            )
        return self


ChangesByConfig: TypeAlias = Mapping[
    str, Changes
]  # by config (stem of its file); ``any``: every config


class ExperimentList(ConfigTable):
    """A list of experiments."""

    always: ChangesByConfig = Field(default_factory=dict)  # overrides of every run
    # Overrides per variant; ``like`` names variants whose overrides are applied first.
    variants: Mapping[Title, ChangesByConfig]
    experiment: Annotated[tuple[ExperimentEntry, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _names_are_known(self) -> Self:
        names = [each.name for each in self.experiment]
        if len(set(names)) < len(names):
            raise ValueError("two experiments have the same name: rename one of them")
        for each in self.experiment:
            for unknown in set(each.variants) - set(self.variants):
                raise ValueError(
                    f"experiment {each.name!r} names the unknown variant {unknown!r}: define it "
                    "in [variants]"
                )
        for name, own in self.variants.items():
            for other in own.get("like", ()):
                if "like" in self.variants.get(other, {"like": ()}):
                    raise ValueError(
                        f"variant {name!r}: the key 'like' names {other!r}, but no variant in "
                        "[variants] has this name, or the variant with this name also has the key "
                        "'like': name a variant in [variants] that does not have the key 'like'"
                    )
        return self

    def changes(self, experiment: ExperimentEntry, variant: str) -> Changes:
        """Return the overrides of a variant in an experiment, in the order in which they apply.

        A later override of a setting replaces an earlier one.
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


def read_experiments(path: Path) -> ExperimentList:
    """Read the list of experiments ``path``.

    Raises:
        ConfigError: the file is not a valid config; the message lists up to 20 problems.
    """
    return read_list(ExperimentList, path)


def read_list(kind: type[T], path: Path) -> T:
    """Read a list of experiments of the type ``kind``.

    Raises:
        ConfigError: the file is not a valid config; the message lists up to 20 problems.
    """
    raw = read_toml(path, [])
    try:
        return kind.model_validate_json(json.dumps(raw), strict=True)
    except ValidationError as error:
        found = [issue_message(kind, each, "") for each in error.errors(include_url=False)]
        raise ConfigError([f"{path}: {each}" for each in found[:20]]) from error


def inline_toml(value: Any) -> str:
    """Return a JSON value as one line of TOML, the format of a value in the option ``--set``."""
    if isinstance(value, dict):
        pairs = (f"{_toml_key(key)} = {inline_toml(each)}" for key, each in value.items())
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(inline_toml(each) for each in value) + "]"
    return json.dumps(value, ensure_ascii=False)


def _toml_key(key: str) -> str:
    """Return a key of TOML, in quotes if it needs them."""
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else json.dumps(key, ensure_ascii=False)
