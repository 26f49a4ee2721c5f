"""Blocks of the client unlearning tables, and the papers' numbers."""

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Final

from pydantic import Field

from parties.experiments.bench.blocks import BlockList, TableBlock
from parties.experiments.bench.horizontal.extract import MEASURES
from parties.experiments.bench.results import TableRow
from parties.horizontal.registry import METHODS

PAPER = Path(__file__).with_name("papers.toml")
RETRAIN: Final = TableRow("Retrain", "", "retrain")


class HorizontalBlock(TableBlock):
    """One block of a client unlearning table; ``variants`` are method names of the config."""

    headings: ClassVar[Mapping[str, str]] = {word: title for word, (title, _) in MEASURES.items()}
    bench: ClassVar[str] = "horizontal"

    labels: Mapping[str, str] = Field(default_factory=dict)  # titles of methods without one

    @property
    def rows(self) -> tuple[TableRow, ...]:
        """The rows of the block: one row per method."""
        named = [TableRow(self._label(name), "", name) for name in self.variants]
        return (RETRAIN, TableRow("Original", "", "original"), *named)

    def reference(self, row: TableRow) -> TableRow:
        """Return the row of the method Retrain, with which every row is compared."""
        del row
        return RETRAIN

    def _label(self, name: str) -> str:
        return self.labels.get(name) or METHODS[name].label.title


class HorizontalBlocks(BlockList[HorizontalBlock]):
    """All blocks of the client unlearning tables."""


def read_horizontal_blocks(path: Path = PAPER) -> HorizontalBlocks:
    """Read the blocks of the client unlearning tables from a TOML file."""
    return HorizontalBlocks.read(path)
