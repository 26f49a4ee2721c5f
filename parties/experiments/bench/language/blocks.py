"""Oblivionis' tables as blocks: what each shows, and the paper's own numbers."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field

from configs.table import Table
from configs.toml_file import read_toml
from parties.experiments.bench.blocks import Setting, tuples
from parties.experiments.bench.language.extract import MEASURES
from parties.experiments.bench.results import Row

PAPER = Path(__file__).with_name("paper.toml")
METHODS = {
    "original": "Finetune",  # the paper's word for the model before unlearning
    "retrain": "Retrain",
    "grad-ascent": "GradAscent",
    "grad-diff": "GradDiff",
    "npo": "NPO",
    "simnpo": "SimNPO",
    "rmu": "RMU",
    "primal-dual": "Primal-dual",
    "fine-tune": "Going on",
    "npo-fedavgm": "NPO by FedAvgM",
    "grad-diff-fedavgm": "GradDiff by FedAvgM",
}


class LanguageBlock(Setting):
    """One setting of one table; ``variants`` are rules of the server, with all methods each."""

    headings: ClassVar[Mapping[str, str]] = {word: title for word, (title, _) in MEASURES.items()}
    bench: ClassVar[str] = "language"

    @property
    def rows(self) -> tuple[Row, ...]:
        """See ``Setting``."""
        return tuple(
            Row(_label(rule, name), rule, name) for rule in self.variants for name in METHODS
        )

    def reference(self, row: Row) -> Row:
        """See ``Setting``."""
        return Row(_label(row.variant, "retrain"), row.variant, "retrain")


def _label(rule: str, method: str) -> str:
    return f"{rule}, {METHODS[method]}"


class LanguageBlocks(Table):
    """All blocks."""

    source: str
    block: Annotated[tuple[LanguageBlock, ...], Field(min_length=1)]


def read_blocks(path: Path = PAPER) -> LanguageBlocks:
    """Read the data file."""
    return LanguageBlocks.model_validate(tuples(read_toml(path, [])))
