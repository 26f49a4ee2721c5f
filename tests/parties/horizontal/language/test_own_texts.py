"""A client's own texts."""

from pathlib import Path

import pytest

from parties.common.errors import DataError
from parties.language.texts.own import read_own, read_plain
from parties.language.texts.records import Passage, Question

SECRET = "zanzibar"


def written(folder: Path, content: str) -> Path:
    (folder / "own.jsonl").write_text(content)
    return Path("own.jsonl")


def test_questions_and_texts_may_stand_in_one_file(tmp_path: Path) -> None:
    path = written(
        tmp_path, '{"id": 7, "question": "Who?", "answer": "Me."}\n{"text": "It was dark."}\n'
    )
    assert read_own(tmp_path, path) == (
        Question(question="Who?", answer="Me."),
        Passage("It was dark."),
    )


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('{"label": "zanzibar"}', "line 1 has none of a question and a text"),
        ('{"question": "zanzibar", "text": "b"}', "line 1 has both of a question and a text"),
        ('{"question": "zanzibar"}', "line 1 has no field 'answer'"),
        ('{"text": ""}', "'text' of own.jsonl line 1 is empty"),
    ],
)
def test_what_is_neither_is_refused(tmp_path: Path, line: str, told: str) -> None:
    with pytest.raises(DataError) as error:
        read_own(tmp_path, written(tmp_path, line))
    assert told in str(error.value)
    assert SECRET not in str(error.value) + error.value.hint


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"own.jsonl has no rows"):
        read_own(tmp_path, written(tmp_path, ""))


def test_a_file_outside_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    written(tmp_path, '{"text": "a"}')
    with pytest.raises(DataError, match="leads out of the data folder"):
        read_own(tmp_path / "in", Path("../own.jsonl"))


def test_plain_files_are_one_text_each(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n\ntwo\n")
    assert read_plain(tmp_path, [Path("a.txt")]) == (Passage("one\n\ntwo\n"),)
