"""The papers' tables as blocks: what each shows, and the papers' own numbers."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Final

from pydantic import Field

from configs.table import Table
from configs.toml_file import read_toml
from parties.experiments.bench.blocks import Setting, tuples
from parties.experiments.bench.horizontal.extract import MEASURES
from parties.experiments.bench.results import Row
from parties.report.horizontal.labels import METHODS

PAPER = Path(__file__).with_name("papers.toml")
RETRAIN: Final = Row("Retrain", "", "retrain")


class HorizontalBlock(Setting):
    """One setting of one table; ``variants`` are methods by their names in the config."""

    headings: ClassVar[Mapping[str, str]] = {word: title for word, (title, _) in MEASURES.items()}
    bench: ClassVar[str] = "horizontal"

    labels: Mapping[str, str] = Field(default_factory=dict)  # of methods that have no title yet

    @property
    def rows(self) -> tuple[Row, ...]:
        """See ``Setting``."""
        named = [Row(self._label(name), "", name) for name in self.variants]
        return (RETRAIN, Row("Original", "", "original"), *named)

    def reference(self, row: Row) -> Row:
        """See ``Setting``."""
        del row
        return RETRAIN

    def _label(self, name: str) -> str:
        return self.labels.get(name) or METHODS.get(name, (name, ""))[0]


class HorizontalBlocks(Table):
    """All blocks."""

    source: str
    block: Annotated[tuple[HorizontalBlock, ...], Field(min_length=1)]


def read_blocks(path: Path = PAPER) -> HorizontalBlocks:
    """Read the data file."""
    return HorizontalBlocks.model_validate(tuples(read_toml(path, [])))
