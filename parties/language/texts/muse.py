"""MUSE as its authors publish it: texts to forget, and questions on them (Shi et al. 2024).

``folder`` is that of one corpus, News or Books. In it lie ``knowmem/`` (questions), ``verbmem/``
(texts and how they go on), ``privleak/`` (texts seen, forgotten and never seen) and ``raw/`` (the
corpus itself). A published half of privleak is in ``privleak_first50/``.

Of the corpus ``forget`` is to be forgotten; ``retain2`` stays, and ``retain_qa`` asks about it;
``retain1`` stays, too: MUSE gives it to whoever unlearns, and asks about it nowhere.
"""

from pathlib import Path

from parties.common.errors import DataError, UsageProblem
from parties.language.texts.lines import Entry, checked, json_array, whole_text
from parties.language.texts.records import Continuation, Passage, Question

ORIGIN = "https://huggingface.co/muse-bench"
QUESTIONS = ("forget_qa", "retain_qa", "forget_qa_icl", "retain_qa_icl")
SEEN = ("forget", "retain", "holdout")
RAW = ("forget", "retain1", "retain2", "holdout")


def read_questions(folder: Path, part: str) -> tuple[Question, ...]:
    """``knowmem/PART.json``; the parts ``_icl`` are the examples put before a question.

    Raises:
        UsageProblem: there is no such part.
        DataError: the file is absent, or an entry is no question with its answer.
        ResourceError: the file is larger than is read.
    """
    entries = _objects(folder, _path("knowmem", part, QUESTIONS), ("question", "answer"))
    return tuple(
        Question(question=entry.text("question"), answer=entry.text("answer")) for entry in entries
    )


def read_verbatim(folder: Path) -> tuple[Continuation, ...]:
    """``verbmem/forget.json``: how texts begin and go on; raises like ``read_questions``."""
    entries = _objects(folder, Path("verbmem", "forget.json"), ("prompt", "gt"))
    return tuple(
        Continuation(prompt=entry.text("prompt"), continuation=entry.text("gt"))
        for entry in entries
    )


def read_privacy(folder: Path, part: str) -> tuple[Passage, ...]:
    """``privleak/PART.json``, or the published half of it; raises like ``read_questions``.

    Members and non-members must be as many: take all parts from the same folder of texts.
    """
    whole = _path("privleak", part, SEEN)
    half = Path("privleak_first50", whole.name)
    return _passages(
        folder, half if (folder / half).is_file() and not _is(folder, whole) else whole
    )


def read_raw(folder: Path, part: str) -> tuple[Passage, ...]:
    """``raw/PART.json``, an array of texts, or ``raw/PART.txt``, one text.

    Raises like ``read_questions``.
    """
    path = _path("raw", part, RAW)
    text = path.with_suffix(".txt")
    if _is(folder, text) and not _is(folder, path):
        return (Passage(whole_text(folder, text, ORIGIN)),)
    return _passages(folder, path)


def read_retained(folder: Path) -> tuple[Passage, ...]:
    """All that stays: ``raw/retain2``, and ``raw/retain1`` where it is there.

    Raises like ``read_questions``; without retain2 ``retain_qa`` would ask about texts that nobody
    learned.
    """
    stays = read_raw(folder, "retain2")
    calibrators = Path("raw", "retain1.json")
    if _is(folder, calibrators) or _is(folder, calibrators.with_suffix(".txt")):
        stays += read_raw(folder, "retain1")
    return stays


def _is(folder: Path, path: Path) -> bool:
    return (folder / path).is_file()


def _path(kind: str, part: str, parts: tuple[str, ...]) -> Path:
    if part not in parts:
        raise UsageProblem(f"MUSE has no {kind} part {part!r}", f"it has {', '.join(parts)}")
    return Path(kind, f"{part}.json")


def _passages(folder: Path, path: Path) -> tuple[Passage, ...]:
    entries = json_array(folder, path, ORIGIN)
    return tuple(Passage(checked(found, place)) for place, found in entries)


def _objects(folder: Path, path: Path, fields: tuple[str, ...]) -> list[Entry]:
    entries = []
    for place, found in json_array(folder, path, ORIGIN):
        if not isinstance(found, dict):
            raise DataError(f"{place} is no JSON object", f"with the fields {', '.join(fields)}")
        entry = Entry(place, found)
        entry.refuse_others(fields)
        entries.append(entry)
    return entries
