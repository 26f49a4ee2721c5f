"""Blocks of the result tables: rows and measures of each block, and the paper's numbers."""

from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Final, Generic, Self, TypeVar

from pydantic import Field, model_validator

from configs.table import ConfigTable
from configs.toml_file import read_toml
from parties.experiments.bench.results import TableRow

B = TypeVar("B", bound="TableBlock")
PAPER = Path(__file__).with_name("paper.toml")
MEASURES: Final = {  # name in the blocks: heading
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
RETRAIN: Final = TableRow("Retrain", "full", "retrain")
VOTES: Final = TableRow("Retrain (sum of votes)", "votes", "retrain")
STANDARD: Final = (
    RETRAIN,
    TableRow("Original", "full", "original"),
    TableRow("GA", "full", "gradient-ascent"),
    TableRow("GA (long)", "paper", "gradient-ascent"),
    TableRow("ICO-like", "full", "ico-like"),
    TableRow("Fine-tune", "full", "fine-tune"),
    TableRow("Relabel", "full", "relabel"),
    TableRow("Top-only", "full", "top-only"),
    TableRow("Shrink-perturb", "full", "shrink-perturb"),
    TableRow("FedORA (paper)", "paper", "fedora"),
    TableRow("FedORA (default)", "full", "fedora"),
    VOTES,
    TableRow("CVFU", "votes", "cvfu"),
)


class TableBlock(ConfigTable):
    """One block of a result table: the results of one experiment, by row and measure."""

    headings: ClassVar[Mapping[str, str]]  # of all measures
    bench: ClassVar[str]  # name of the command

    table: str
    title: str
    experiment: str  # name of the experiment whose runs fill the block
    gpu: bool = False  # whether the runs of the block need a GPU
    measures: Annotated[tuple[str, ...], Field(min_length=1)]
    # Names of the variants that the block compares; empty: no variants.
    variants: tuple[str, ...] = ()
    axis: str = ""  # label of the x axis, if the block is a curve over variants
    points: tuple[float, ...] = ()  # x values of the curve, one per variant
    note: str = ""
    # The paper's numbers by row, in the order of ``measures``.
    paper: Mapping[str, tuple[float, ...]] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if unknown := set(self.measures) - set(self.headings):
            raise ValueError(
                f"unknown measures {', '.join(sorted(unknown))}; "
                f"choose from {', '.join(self.headings)}"
            )
        if any(len(numbers) != len(self.measures) for numbers in self.paper.values()):
            raise ValueError(
                "a row of 'paper' has more or fewer numbers than expected; expected one number for "
                "each measure"
            )
        if self.points and len(self.points) != len(self.variants):
            raise ValueError(
                "'points' has more or fewer numbers than expected; expected one number for each "
                "variant"
            )
        return self

    @property
    def command(self) -> str:
        """The command that produces the block's runs."""
        wide = " --gpu" if self.gpu else ""
        return f'vfl bench {self.bench} --data DIR{wide} --only "{self.experiment}"'

    @property
    @abstractmethod
    def rows(self) -> tuple[TableRow, ...]:
        """The rows of the block, from top to bottom."""

    @abstractmethod
    def reference(self, row: TableRow) -> TableRow:
        """Return the Retrain row with which ``row`` is compared."""


class BlockList(ConfigTable, Generic[B]):
    """All blocks of a benchmark's tables, and the source of the paper's numbers."""

    source: str
    block: Annotated[tuple[B, ...], Field(min_length=1)]

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read the blocks from a TOML file."""
        return cls.model_validate(_lists_to_tuples(read_toml(path, [])))


class FedoraBlock(TableBlock):
    """One block of the FedORA tables; ``variants`` are named settings of the method FedORA."""

    headings: ClassVar[Mapping[str, str]] = MEASURES
    bench: ClassVar[str] = "fedora"

    @property
    def rows(self) -> tuple[TableRow, ...]:
        """Rows of all methods; if ``variants`` is set: Retrain, some baselines and the variants."""
        if not self.variants:
            return STANDARD
        first = self.variants[0]
        return (
            TableRow("Retrain", first, "retrain"),
            TableRow("Original", first, "original"),
            TableRow("Fine-tune", first, "fine-tune"),
            TableRow("Relabel", first, "relabel"),
            TableRow("Top-only", first, "top-only"),
            TableRow("Shrink-perturb", first, "shrink-perturb"),
            *(TableRow(variant, variant, "fedora") for variant in self.variants),
        )

    def reference(self, row: TableRow) -> TableRow:
        """Return the Retrain row with which ``row`` is compared; CVFU has its own Retrain row."""
        if self.variants:
            return self.rows[0]
        return VOTES if row.variant == VOTES.variant else RETRAIN


class FedoraBlocks(BlockList[FedoraBlock]):
    """All blocks of the FedORA tables, in the paper's order."""


def read_fedora_blocks(path: Path = PAPER) -> FedoraBlocks:
    """Read the blocks of the FedORA tables from a TOML file."""
    return FedoraBlocks.read(path)


def _lists_to_tuples(value: object) -> object:
    """Return ``value`` with every list replaced by a tuple, at any depth."""
    if isinstance(value, dict):
        return {key: _lists_to_tuples(each) for key, each in value.items()}
    return tuple(_lists_to_tuples(each) for each in value) if isinstance(value, list) else value
