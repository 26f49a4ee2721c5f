"""The paper's tables and figures as blocks: what each shows, and the paper's own numbers."""

from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Final, Self

from pydantic import Field, model_validator

from configs.table import Table
from configs.toml_file import read_toml
from parties.experiments.bench.results import Row

PAPER = Path(__file__).with_name("paper.toml")
MEASURES: Final = {  # the words of the blocks, and their headings
    "test": "test accuracy",
    "remaining": "test accuracy, classes that remain",
    "unlearning": "unlearning accuracy",
    "mia": "MIA-ASR",
    "backdoor": "BD-ASR",
    "backdoor-base": "BD base rate",
    "js": "JS ratio",
    "seconds": "seconds in all",
    "round": "seconds a round",
}
RETRAIN: Final = Row("Retrain", "full", "retrain")
VOTES: Final = Row("Retrain (sum of votes)", "votes", "retrain")
STANDARD: Final = (
    RETRAIN,
    Row("Original", "full", "original"),
    Row("GA", "full", "gradient-ascent"),
    Row("GA (long)", "paper", "gradient-ascent"),
    Row("ICO-like", "full", "ico-like"),
    Row("Fine-tune", "full", "fine-tune"),
    Row("Relabel", "full", "relabel"),
    Row("Top-only", "full", "top-only"),
    Row("Shrink-perturb", "full", "shrink-perturb"),
    Row("FedORA (paper)", "paper", "fedora"),
    Row("FedORA (default)", "full", "fedora"),
    VOTES,
    Row("CVFU", "votes", "cvfu"),
)


class Setting(Table):
    """One setting of one table, of any paper.

    Attributes:
        experiment: whose runs it shows.
        gpu: it needs one, so as a rule its runs are not there.
        variants: a row each, below Retrain's and the trivial ones; none: the standard rows.
        axis: of a curve over variants, whose numbers are ``points``.
        paper: by row, the paper's numbers in the order of ``measures``; an own word for a number
            that stands in a figure only is left out.
    """

    headings: ClassVar[Mapping[str, str]]  # of all measures that there are
    bench: ClassVar[str]  # the command

    table: str
    title: str
    experiment: str
    gpu: bool = False
    measures: Annotated[tuple[str, ...], Field(min_length=1)]
    variants: tuple[str, ...] = ()
    axis: str = ""
    points: tuple[float, ...] = ()
    note: str = ""
    paper: Mapping[str, tuple[float, ...]] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if unknown := set(self.measures) - set(self.headings):
            raise ValueError(f"unknown measures {', '.join(sorted(unknown))}")
        if any(len(numbers) != len(self.measures) for numbers in self.paper.values()):
            raise ValueError("paper needs a number for each measure")
        if self.points and len(self.points) != len(self.variants):
            raise ValueError("points needs a number for each variant")
        return self

    @property
    def command(self) -> str:
        """What makes its runs."""
        wide = " --gpu" if self.gpu else ""
        return f"vfl bench {self.bench} --data DIR{wide} --only '{self.experiment}'"

    @property
    @abstractmethod
    def rows(self) -> tuple[Row, ...]:
        """Its rows, in order."""

    @abstractmethod
    def reference(self, row: Row) -> Row:
        """The Retrain that ``row`` is compared with: of the same system."""


class Block(Setting):
    """One setting of FedORA's tables; its variants are FedORA's."""

    headings: ClassVar[Mapping[str, str]] = MEASURES
    bench: ClassVar[str] = "fedora"

    @property
    def rows(self) -> tuple[Row, ...]:
        """See ``Setting``."""
        if not self.variants:
            return STANDARD
        first = self.variants[0]
        return (
            Row("Retrain", first, "retrain"),
            Row("Original", first, "original"),
            Row("Fine-tune", first, "fine-tune"),
            Row("Relabel", first, "relabel"),
            Row("Top-only", first, "top-only"),
            Row("Shrink-perturb", first, "shrink-perturb"),
            *(Row(variant, variant, "fedora") for variant in self.variants),
        )

    def reference(self, row: Row) -> Row:
        """See ``Setting``."""
        if self.variants:
            return self.rows[0]
        return VOTES if row.variant == VOTES.variant else RETRAIN


class Blocks(Table):
    """All blocks, in the paper's order."""

    source: str
    block: Annotated[tuple[Block, ...], Field(min_length=1)]


def read_blocks(path: Path = PAPER) -> Blocks:
    """Read the data file."""
    return Blocks.model_validate(tuples(read_toml(path, [])))


def tuples(value: object) -> object:
    """TOML's lists as tuples, all the way down."""
    if isinstance(value, dict):
        return {key: tuples(each) for key, each in value.items()}
    return tuple(tuples(each) for each in value) if isinstance(value, list) else value
