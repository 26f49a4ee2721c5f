"""Reader of a client's own texts: JSON lines with a question and an answer, or with a text."""

from collections.abc import Sequence
from pathlib import Path

from parties.common.errors import DataError
from parties.language.texts.records import Passage, QuestionAnswer
from parties.language.texts.text_files import JsonEntry, read_json_lines, read_whole_text


def read_own_texts(folder: Path, path: Path) -> tuple[QuestionAnswer | Passage, ...]:
    """Return the rows of a JSON lines file; fields other than question, answer, text are ignored.

    Raises:
        DataError: the file is missing or empty, or a line does not contain exactly one of the two:
            a question with its answer, or a text.
        ResourceError: the file exceeds the size limit.
    """
    rows = tuple(_row(entry) for entry in read_json_lines(folder, path))
    if not rows:
        raise DataError(f"{path} has no rows", "write one JSON object per line")
    return rows


def read_plain_texts(folder: Path, paths: Sequence[Path]) -> tuple[Passage, ...]:
    """Return one passage for each plain UTF-8 file.

    Raises:
        DataError: a file is missing, empty or not UTF-8.
        ResourceError: a file exceeds the size limit.
    """
    return tuple(Passage(read_whole_text(folder, path)) for path in paths)


def _row(entry: JsonEntry) -> QuestionAnswer | Passage:
    has_question, has_text = {"question", "answer"} & set(entry.fields), "text" in entry.fields
    if bool(has_question) == has_text:
        found = "both a question and a text" if has_text else "neither a question nor a text"
        raise DataError(
            f"{entry.place} has {found}",
            'write {"question": ..., "answer": ...} or {"text": ...}',
        )
    if has_text:
        return Passage(entry.text("text"))
    return QuestionAnswer(question=entry.text("question"), answer=entry.text("answer"))
