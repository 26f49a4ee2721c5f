"""Config of a forgetting study: its populations, and the methods that are audited on each."""

import math
import tomllib
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, ValidationError, model_validator

from configs.agreement import VerticalAgreement
from configs.errors import ConfigError
from configs.table import ConfigTable, Count
from configs.unlearning import table_name
from parties.vertical.methods.fedora import AdaptiveStepSettings, FedoraSettings

# FedORA as in the paper: from the original, with adaptive plain steps and without calibration.
PAPER: dict[str, Any] = {
    "start": "original",
    "primal": "plain",
    "anneal": None,
    "adaptive": AdaptiveStepSettings(),
    "calibrate": False,
}


class Population(ConfigTable):
    """Settings of a population: many models of one shipped config."""

    name: str
    config: str  # path, relative to the folder of this file
    runs: Annotated[int, Field(ge=32, multiple_of=2)]
    rows: Count | None = None  # number of training rows; None: all
    changes: tuple[str, ...] = ()  # of settings, in the form of --set
    rows_of: tuple[str, ...] = ()  # names of the only methods to audit; empty: all others
    without: tuple[str, ...] = ()  # names of methods not to audit


class StudyMethod(ConfigTable):
    """One row of the result tables: an unlearning method with its settings."""

    name: str
    way: str  # name of the method
    paper: bool = False  # FedORA as in the paper, with the settings of ``paper_form``
    plan: dict[str, Any] = Field(default_factory=dict)  # settings of FedORA that differ
    settings: dict[str, Any] = Field(default_factory=dict)  # settings of any other method
    as_long: bool = False  # as many epochs over D_r as FedORA, at the learning rate of training

    def form(self, agreed: FedoraSettings, printed: dict[str, Any]) -> FedoraSettings:
        """Return the FedORA settings of this row; ``printed`` has the settings of the paper."""
        base = agreed.model_dump() | (PAPER | printed if self.paper else {})
        return FedoraSettings.model_validate(base | self.plan)

    def agreement(self, agreed: VerticalAgreement) -> VerticalAgreement:
        """Return the agreement with this row's settings of a method other than FedORA.

        Raises:
            ConfigError: the settings are invalid.
        """
        table, fedora = table_name(self.way), agreed.unlearning.of(FedoraSettings)
        long = {}
        if self.as_long:
            epochs = math.ceil(fedora.iterations * fedora.retain_share)
            long = {"epochs": epochs, "learning_rate": agreed.training.learning_rate}
        if not (long or self.settings):
            return agreed
        plan = getattr(agreed.unlearning, table)
        try:
            own = type(plan).model_validate(plan.model_dump() | long | self.settings)
        except ValidationError as error:
            raise ConfigError(f"row {self.name!r} of the study is invalid: {error}") from error
        changed = agreed.unlearning.model_copy(update={table: own})
        return agreed.model_copy(update={"unlearning": changed})


class Study(ConfigTable):
    """A whole study."""

    first: Annotated[int, Field(ge=0)] = 0  # seed
    population: tuple[Population, ...]
    row: tuple[StudyMethod, ...]
    paper_form: dict[str, dict[str, Any]] = Field(default_factory=dict)  # by population

    @model_validator(mode="after")
    def _known(self) -> Self:
        names = {row.name for row in self.row}
        for each in self.population:
            for unknown in {*each.rows_of, *each.without} - names:
                raise ValueError(
                    f"population {each.name!r} names the row {unknown!r}, but no such row is "
                    "defined"
                )
        for unknown in set(self.paper_form) - {each.name for each in self.population}:
            raise ValueError(
                f"the table paper_form names the population {unknown!r}, but no such population is "
                "defined"
            )
        return self

    def chosen(self, names: tuple[str, ...]) -> tuple[Population, ...]:
        """Return the populations with these ``names``; all populations if ``names`` is empty.

        Raises:
            ConfigError: a name is unknown.
        """
        known = {each.name: each for each in self.population}
        for unknown in set(names) - set(known):
            raise ConfigError(
                f"there is no population {unknown!r}", f"choose from {', '.join(known)}"
            )
        return tuple(known[name] for name in names) or self.population

    def paper_form_of(self, population: Population) -> dict[str, Any]:
        """Return the settings of FedORA as printed in the paper, for a population."""
        return self.paper_form.get(population.name, {})

    def rows(self, population: Population) -> list[StudyMethod]:
        """Return the methods that are audited on a population."""
        if population.rows_of:
            return [row for row in self.row if row.name in population.rows_of]
        kept = {name for each in self.population for name in each.rows_of} | {*population.without}
        return [row for row in self.row if row.name not in kept]


def read_study(path: Path) -> Study:
    """Read a study from a TOML file.

    Raises:
        ConfigError: the file is invalid.
    """
    try:
        return Study.model_validate(tomllib.loads(path.read_text(encoding="utf-8")), strict=False)
    except (OSError, ValueError, ValidationError) as error:
        raise ConfigError(f"{path} is not a valid study: {error}") from error
