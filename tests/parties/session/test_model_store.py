"""The store of a party's models, while two processes of the party use it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from parties.session.checkpoint import CheckpointContent
from parties.session.store.model_store import ModelStore, VersionFacts
from parties.session.store.sealing import KeyFile

RUN = bytes(16)
CONTENT = CheckpointContent({"values": 1}, {"group": {"name": torch.zeros(3)}})
FACTS = VersionFacts("training", "2026-11-24T00:00:00Z")


def store(folder: Path) -> ModelStore:
    """The store as one process has it."""
    return ModelStore(folder, "left", {"width": 4}, KeyFile(folder))


def test_reading_process_leaves_the_file_that_another_one_is_writing(tmp_path: Path) -> None:
    serving, reading = store(tmp_path), store(tmp_path)
    serving.write(1, RUN, CONTENT, FACTS)
    beside = serving.folder / ".000002.sealed.tmp"
    beside.touch()
    reading.require()
    assert [each.number for each in reading.files()] == [1]
    assert beside.exists()


@pytest.mark.parametrize("change", ["write", "prune"])
def test_writing_process_removes_unfinished_files(tmp_path: Path, change: str) -> None:
    serving = store(tmp_path)
    serving.write(1, RUN, CONTENT, FACTS)
    (serving.folder / ".000002.sealed.tmp").touch()
    if change == "write":
        serving.write(2, RUN, CONTENT)
    else:
        serving.prune(1)
    assert not list(serving.folder.glob(".*.tmp"))


def test_files_can_be_listed_while_another_process_erases_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file disappears between the reading of the folder and that of the file."""
    serving, reading = store(tmp_path), store(tmp_path)
    for number in (1, 2):
        serving.write(number, RUN, CONTENT, FACTS)
    listed = reading._facts

    def erased() -> Iterator[tuple[int, dict[str, object]]]:
        for each in listed():
            serving.erase(each[1]["number"])
            yield each

    monkeypatch.setattr(reading, "_facts", erased)
    assert [each.number for each in reading.files()] == [1, 2]
    assert store(tmp_path).files() == []
