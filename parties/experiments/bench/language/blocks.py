"""Blocks of the Oblivionis tables, and the paper's numbers."""

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from parties.experiments.bench.blocks import BlockList, TableBlock
from parties.experiments.bench.language.extract import MEASURES
from parties.experiments.bench.results import TableRow

PAPER = Path(__file__).with_name("paper.toml")
METHODS = {
    "original": "Finetune",  # the paper's name of the model before unlearning
    "retrain": "Retrain",
    "grad-ascent": "GradAscent",
    "grad-diff": "GradDiff",
    "npo": "NPO",
    "simnpo": "SimNPO",
    "rmu": "RMU",
    "primal-dual": "Primal-dual",
    "fine-tune": "Fine-tune (more rounds)",
    "npo-fedavgm": "NPO by FedAvgM",
    "grad-diff-fedavgm": "GradDiff by FedAvgM",
}


class LanguageBlock(TableBlock):
    """One block of a table; ``variants`` are aggregation rules, each shown with all methods."""

    headings: ClassVar[Mapping[str, str]] = {word: title for word, (title, _) in MEASURES.items()}
    bench: ClassVar[str] = "language"

    @property
    def rows(self) -> tuple[TableRow, ...]:
        """The rows of the block: one row per aggregation rule and method."""
        return tuple(
            TableRow(_label(rule, name), rule, name) for rule in self.variants for name in METHODS
        )

    def reference(self, row: TableRow) -> TableRow:
        """Return the row of the method Retrain with the same aggregation rule as ``row``."""
        return TableRow(_label(row.variant, "retrain"), row.variant, "retrain")


def _label(rule: str, method: str) -> str:
    return f"{rule}, {METHODS[method]}"


class LanguageBlocks(BlockList[LanguageBlock]):
    """All blocks of the Oblivionis tables."""


def read_language_blocks(path: Path = PAPER) -> LanguageBlocks:
    """Read the blocks of the Oblivionis tables from a TOML file."""
    return LanguageBlocks.read(path)
