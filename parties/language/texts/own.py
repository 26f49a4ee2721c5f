"""A client's own texts: JSON lines with question and answer, or with text."""

from collections.abc import Sequence
from pathlib import Path

from parties.common.errors import DataError
from parties.language.texts.lines import Entry, json_lines, whole_text
from parties.language.texts.records import Passage, Question


def read_own(folder: Path, path: Path) -> tuple[Question | Passage, ...]:
    """The rows of a file of JSON lines; fields other than question, answer and text are not read.

    Raises:
        DataError: the file is absent or empty, or a line has neither a question with its answer
            nor a text, or has both.
        ResourceError: the file is larger than is read.
    """
    rows = tuple(_row(entry) for entry in json_lines(folder, path))
    if not rows:
        raise DataError(f"{path} has no rows", "one JSON object a line")
    return rows


def read_plain(folder: Path, paths: Sequence[Path]) -> tuple[Passage, ...]:
    """Plain UTF-8 files, each one text; raises like ``read_own``."""
    return tuple(Passage(whole_text(folder, path)) for path in paths)


def _row(entry: Entry) -> Question | Passage:
    asked, told = {"question", "answer"} & set(entry.fields), "text" in entry.fields
    if bool(asked) == told:
        raise DataError(
            f"{entry.place} has {'both' if told else 'none'} of a question and a text",
            'write {"question": ..., "answer": ...} or {"text": ...}',
        )
    if told:
        return Passage(entry.text("text"))
    return Question(question=entry.text("question"), answer=entry.text("answer"))
