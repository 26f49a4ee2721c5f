"""The registry of data sources: it is complete, and a source needs no other file of the product."""

import importlib
import inspect
import pkgutil
from pathlib import Path
from typing import Annotated, Literal, get_args

import numpy as np
from pydantic import Field

from configs.config_file import validate_table
from configs.keys import keys_at
from configs.table import PathText
from parties.data import sources
from parties.data.data_frame import data_frame
from parties.data.party_settings import RowPartySettings, VerticalPartySettings
from parties.data.sources.records import Records, class_indices, row_ids
from parties.data.sources.registry import Data
from parties.data.sources.source import DataSettings, ReadOptions
from parties.data.sources.table import numeric_table
from parties.doctor.source import check_file_heads
from tests.parties.data.sources.reading import held

REGISTERED = get_args(get_args(Data)[0])


class Words(DataSettings):
    """A source of this test: lines of a length, a word and a class."""

    kind: Literal["words"]
    path: PathText
    label: bool = False

    def read(self, options: ReadOptions) -> Records:
        """Read the lengths of the words, and their classes."""
        lines = [line.split() for line in (options.folder / self.path).read_text().splitlines()]
        numbers = np.arange(len(lines))
        return Records(
            files=((self.path.name, len(lines)),),
            unit="row",
            numbers=numbers,
            ids=row_ids(self.path.name, numbers),
            table=numeric_table(("length",), np.array([[len(word)] for word, _ in lines])),
            labels=class_indices([name for _, name in lines], options.classes),
        )


class WordPartySettings(RowPartySettings):
    """Settings of a party whose registry has one source more."""

    data: Annotated[Data | Words, Field(discriminator="kind")]


def test_every_source_is_registered() -> None:
    names = [each.name for each in pkgutil.iter_modules(sources.__path__)]
    modules = [importlib.import_module(f"{sources.__name__}.{name}") for name in names]
    found = {
        each for module in modules for each in vars(module).values()
        if inspect.isclass(each) and issubclass(each, DataSettings) and "kind" in each.model_fields
    }  # fmt: skip
    assert found == set(REGISTERED)


def test_the_schema_knows_the_keys_of_every_source() -> None:
    for each in REGISTERED:
        (kind,) = get_args(each.model_fields["kind"].annotation)
        assert keys_at(VerticalPartySettings, ["data", kind]) == sorted(each.model_fields)


def test_a_new_source_is_validated_checked_and_read(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("tree 0\nriver 1\n")
    raw = {"data": {"kind": "words", "path": "words.txt", "label": True}}
    data = validate_table(WordPartySettings, raw, tmp_path, "").data
    holding = held(tmp_path, data, active=True)
    assert holding.table is not None
    assert data_frame(holding.table)["length"].tolist() == [4, 5]
    assert holding.labels is not None
    assert holding.labels.tolist() == [0, 1]
    (finding,) = check_file_heads(data, tmp_path)  # type: ignore[arg-type]
    assert (finding.code, "words.txt" in finding.message) == (0, True)
