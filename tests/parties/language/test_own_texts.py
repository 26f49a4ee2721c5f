"""Files with a client's own texts."""

from pathlib import Path

import pytest

from parties.common.errors import DataError
from parties.language.texts.own_texts import read_own_texts, read_plain_texts
from parties.language.texts.records import Passage, QuestionAnswer

SECRET = "zanzibar"


def write_rows(folder: Path, content: str) -> Path:
    (folder / "own.jsonl").write_text(content)
    return Path("own.jsonl")


def test_one_file_may_have_questions_and_texts(tmp_path: Path) -> None:
    path = write_rows(
        tmp_path, '{"id": 7, "question": "Who?", "answer": "Me."}\n{"text": "It was dark."}\n'
    )
    assert read_own_texts(tmp_path, path) == (
        QuestionAnswer(question="Who?", answer="Me."),
        Passage("It was dark."),
    )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"label": "zanzibar"}', "line 1 has neither a question nor a text"),
        ('{"question": "zanzibar", "text": "b"}', "line 1 has both a question and a text"),
        ('{"question": "zanzibar"}', "line 1 has no field 'answer'"),
        ('{"text": ""}', "'text' of own.jsonl line 1 is empty"),
    ],
)
def test_rows_with_neither_or_both_are_refused(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(DataError) as error:
        read_own_texts(tmp_path, write_rows(tmp_path, line))
    assert message in str(error.value)
    assert SECRET not in str(error.value) + error.value.hint


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"own.jsonl has no rows"):
        read_own_texts(tmp_path, write_rows(tmp_path, ""))


def test_a_file_outside_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    write_rows(tmp_path, '{"text": "a"}')
    with pytest.raises(DataError, match="is outside the data folder"):
        read_own_texts(tmp_path / "in", Path("../own.jsonl"))


def test_plain_files_are_one_text_each(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n\ntwo\n")
    assert read_plain_texts(tmp_path, [Path("a.txt")]) == (Passage("one\n\ntwo\n"),)
