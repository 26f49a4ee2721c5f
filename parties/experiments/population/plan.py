"""Config of a forgetting study: its populations, and the methods that are audited on each."""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Final, Self

from pydantic import Field, ValidationError, model_validator

from configs.agreement import VerticalAgreement
from configs.errors import ConfigError
from configs.table import ConfigTable, Count, Fraction, Positive
from configs.unlearning import MethodSettings, table_name
from parties.vertical.methods.fedora_settings import PAPER

TRAINING: Final = "training"  # the way of a row of fresh models
PRIMAL_DUAL: Final = ("fedora",)  # ways with a dual
# The methods that every table must contain, and how each is recognised.
RIVALS: Final[Mapping[str, Callable[["StudyMethod"], bool]]] = {
    "short Retrain (way = 'short-retrain')": lambda row: row.way == "short-retrain",
    "fine-tuning from the early checkpoint (way = 'fine-tune', start = 'rewind')": lambda row: (
        row.way == "fine-tune" and row.settings.get("start") == "rewind"
    ),
    "local Retrain (way = 'retrain-local')": lambda row: row.way == "retrain-local",
}


class TriggerPopulation(ConfigTable):
    """Settings of the models that measure triggers: their rows to forget carry a trigger."""

    runs: Annotated[int, Field(ge=2)] = 8
    # Changes of settings of the population's config, in the form of --set; the first request must
    # have a backdoor.
    changes: tuple[str, ...]


class Population(ConfigTable):
    """Settings of a population: many models of one shipped config."""

    name: str
    config: str  # path, relative to the folder of this file
    runs: Annotated[int, Field(ge=32, multiple_of=2)]
    rows: Count | None = None  # number of training rows; None: all
    changes: tuple[str, ...] = ()  # of settings, in the form of --set
    rows_of: tuple[str, ...] = ()  # names of the methods to audit; empty: all methods
    without: tuple[str, ...] = ()  # names of methods not to audit
    trigger: TriggerPopulation | None = None  # None: no rate of triggers is measured


class SearchRange(ConfigTable):
    """The values of one setting that a search tries: a list, or a range on a logarithmic scale."""

    any: tuple[Any, ...] = ()  # a list of values; empty: the range
    low: Positive = 1.0  # smallest value of the range
    high: Positive = 1.0  # largest value of the range
    whole: bool = False  # whether values of the range are rounded to whole numbers
    # Whether values of the range are multiples of the learning rate of the training.
    of_training_rate: bool = False

    def value(self, at: float, training_rate: float) -> Any:
        """Return the value at the position ``at``, from 0 to 1."""
        if self.any:
            return self.any[min(int(at * len(self.any)), len(self.any) - 1)]
        found = self.low * (self.high / self.low) ** at
        if self.of_training_rate:
            found *= training_rate
        return round(found) if self.whole else float(f"{found:.3g}")


class StudyMethod(ConfigTable):
    """One row of the result tables: an unlearning method, or a training, with its settings."""

    name: str
    way: str  # name of the method; "training": fresh models, trained on the remaining rows
    paper: bool = False  # FedORA as in the paper, with the settings of ``paper_form``
    settings: dict[str, Any] = Field(default_factory=dict)  # settings that differ
    # Whether the row starts from the defaults of its method, not from the population's config.
    from_defaults: bool = False
    requests: Count = 1  # number of requests, one after another, into which D_u is divided
    # Ranges of the settings that a search chooses, by name; empty: nothing is searched.
    search: dict[str, SearchRange] = Field(default_factory=dict)
    dual_off_of: str | None = None  # the row of which this row is a copy without the dual
    ablation_of: str | None = None  # the row of which this row is a copy with other settings

    @property
    def needs_dual_off(self) -> bool:
        """Whether a table with this row needs it without its dual, too: not so for ablations."""
        return self.dual_off_of is None and self.ablation_of is None

    def agreement(
        self, agreed: VerticalAgreement, printed: Mapping[str, Any] = MappingProxyType({})
    ) -> VerticalAgreement:
        """Return the agreement with this row's settings; ``printed`` has those of the paper.

        Raises:
            ConfigError: the settings are invalid.
        """
        changed = ({**PAPER, **printed} if self.paper else {}) | self.settings
        if not changed and not self.from_defaults:
            return agreed
        if self.way == TRAINING:
            return agreed.model_copy(update={"training": self._valid(agreed.training, changed)})
        table = table_name(self.way)
        plan = getattr(agreed.unlearning, table)
        own = self._valid(plan, changed, {} if self.from_defaults else plan.model_dump())
        if isinstance(own, MethodSettings):
            own = own.within(agreed)
        unlearning = agreed.unlearning.model_copy(update={table: own})
        return agreed.model_copy(update={"unlearning": unlearning})

    def _valid(
        self, plan: ConfigTable, changed: Mapping[str, Any], start: Mapping[str, Any] | None = None
    ) -> ConfigTable:
        """The settings ``changed`` in a table; the others are of ``start``, or else of ``plan``."""
        others = plan.model_dump() if start is None else start
        try:
            return type(plan).model_validate({**others, **changed})
        except ValidationError as error:
            raise ConfigError(f"row {self.name!r} of the study is invalid: {error}") from error

    def drawn(self, position: Sequence[float], training_rate: float) -> dict[str, Any]:
        """Return the settings at a position of the search, ``[settings]`` from 0 to 1."""
        return {
            name: each.value(at, training_rate)
            for (name, each), at in zip(sorted(self.search.items()), position, strict=True)
        }

    def with_settings(self, found: Mapping[str, Any]) -> "StudyMethod":
        """Return the row with ``found`` in addition to its own settings."""
        return self.model_copy(update={"settings": self.settings | dict(found)})


# The rows of a table that are no methods: the trained models, and models that were retrained.
ORIGINAL: Final = StudyMethod(name="original", way="original")
RETRAIN: Final = StudyMethod(name="retrain", way="retrain")


class SearchPlan(ConfigTable):
    """How the settings of every method are chosen: one rule for all methods and populations."""

    # Seeds of the models of the search; the tables are made with other seeds.
    seeds: Annotated[tuple[int, ...], Field(min_length=1)] = (100, 101)
    trials: Count = 20  # settings that are tried for each method; the first trial is the default
    runs: Annotated[int, Field(ge=32, multiple_of=2)] = 32  # models of each seed
    # Largest loss of accuracy on validation rows, compared with the Retrain models.
    utility: Positive = 0.01


class Study(ConfigTable):
    """A whole study."""

    first: Annotated[int, Field(ge=0)] = 0  # seed
    # Fractions of the training after which early checkpoints are kept.
    early: tuple[Fraction, ...] = (0.2,)
    search: SearchPlan = SearchPlan()
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
        for each in self.population:
            self._require_rivals(each)
        return self

    def _require_rivals(self, population: Population) -> None:
        """Refuse a table without the cheap exact methods, or without a method's dual off."""
        rows = self.rows(population)
        # A top model that adds votes has no parameters to fit after a local start.
        votes = any('kind="sum"' in each for each in population.changes)
        lacking = [
            name
            for name, has in RIVALS.items()
            if not any(map(has, rows)) and not (votes and "retrain-local" in name)
        ]
        names = {row.name for row in rows}
        off = {row.dual_off_of for row in rows}
        lacking += [
            f"{row.name} with its dual off (a row with dual_off_of = {row.name!r})"
            for row in rows
            if row.way in PRIMAL_DUAL and row.needs_dual_off and row.name not in off
        ]
        if lacking:
            raise ValueError(
                f"population {population.name!r} lacks rows that every table needs: "
                f"{'; '.join(lacking)}"
            )
        for unknown in {*off, *(row.ablation_of for row in rows)} - names - {None}:
            raise ValueError(f"a row is like the row {unknown!r}, but no such row is defined")

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
        return [row for row in self.row if row.name not in population.without]


def read_study(path: Path) -> Study:
    """Read a study from a TOML file.

    Raises:
        ConfigError: the file is invalid.
    """
    try:
        return Study.model_validate(tomllib.loads(path.read_text(encoding="utf-8")), strict=False)
    except (OSError, ValueError, ValidationError) as error:
        raise ConfigError(f"{path} is not a valid study: {error}") from error
