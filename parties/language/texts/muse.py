"""Reader of MUSE's original files: texts to forget, and questions about them (Shi et al. 2024).

``folder`` is the folder of one corpus, News or Books. The subfolders of ``folder`` are ``knowmem/``
(questions), ``verbmem/`` (texts with their continuations), ``privleak/`` (texts for membership
inference) and ``raw/`` (the corpus itself). The published excerpt of privleak is in
``privleak_first50/``.

The part ``forget`` of the corpus contains the texts to forget. The part ``retain2`` contains
retained texts, and the questions in ``retain_qa`` are about ``retain2``. The part ``retain1``
contains further retained texts; MUSE uses ``retain1`` for unlearning only, and no question is about
these texts.
"""

from pathlib import Path

from parties.common.errors import DataError, UsageProblem
from parties.language.texts.records import Continuation, Passage, QuestionAnswer
from parties.language.texts.text_files import (
    JsonEntry,
    read_json_array,
    read_whole_text,
    require_text,
)

ORIGIN = "https://huggingface.co/muse-bench"
QUESTION_PARTS = ("forget_qa", "retain_qa", "forget_qa_icl", "retain_qa_icl")
MEMBERSHIP_PARTS = ("forget", "retain", "holdout")
CORPUS_PARTS = ("forget", "retain1", "retain2", "holdout")


def read_muse_questions(folder: Path, part: str) -> tuple[QuestionAnswer, ...]:
    """Return the questions in ``knowmem/PART.json``.

    A part whose name ends in ``_icl`` contains examples; prompts contain these examples before the
    question.

    Raises:
        UsageProblem: MUSE has no part with this name.
        DataError: the file is missing, or an entry is not a question with its answer.
        ResourceError: the file exceeds the size limit.
    """
    entries = _objects(folder, _path("knowmem", part, QUESTION_PARTS), ("question", "answer"))
    return tuple(
        QuestionAnswer(question=entry.text("question"), answer=entry.text("answer"))
        for entry in entries
    )


def read_muse_continuations(folder: Path) -> tuple[Continuation, ...]:
    """Return the texts in ``verbmem/forget.json`` as beginnings with continuations.

    Raises:
        DataError: the file is missing, or an entry has no beginning or no continuation.
        ResourceError: the file exceeds the size limit.
    """
    entries = _objects(folder, Path("verbmem", "forget.json"), ("prompt", "gt"))
    return tuple(
        Continuation(prompt=entry.text("prompt"), continuation=entry.text("gt"))
        for entry in entries
    )


def read_muse_membership(folder: Path, part: str) -> tuple[Passage, ...]:
    """Return the texts for membership inference from ``privleak/PART.json`` or from its excerpt.

    The test for membership inference needs equal numbers of members and non-members. The excerpt
    contains fewer texts than the whole part. Therefore the folder must contain either the whole
    files of all parts, or the excerpts of all parts.

    Raises:
        UsageProblem: MUSE has no part with this name.
        DataError: the file is missing, or an entry is not a text.
        ResourceError: the file exceeds the size limit.
    """
    whole = _path("privleak", part, MEMBERSHIP_PARTS)
    excerpt = Path("privleak_first50", whole.name)
    return _passages(
        folder, excerpt if _exists(folder, excerpt) and not _exists(folder, whole) else whole
    )


def read_muse_corpus(folder: Path, part: str) -> tuple[Passage, ...]:
    """Return a part of the corpus: the array ``raw/PART.json``, or the text ``raw/PART.txt``.

    Raises:
        UsageProblem: MUSE has no part with this name.
        DataError: the file is missing, or an entry is not a text.
        ResourceError: the file exceeds the size limit.
    """
    path = _path("raw", part, CORPUS_PARTS)
    text = path.with_suffix(".txt")
    if _exists(folder, text) and not _exists(folder, path):
        return (Passage(read_whole_text(folder, text, ORIGIN)),)
    return _passages(folder, path)


def read_muse_retained(folder: Path) -> tuple[Passage, ...]:
    """Return all retained texts: ``raw/retain2``, and ``raw/retain1`` if the file exists.

    ``retain2`` is required, because the questions in ``retain_qa`` are about ``retain2``.

    Raises:
        DataError: the file of retain2 is missing, or an entry is not a text.
        ResourceError: a file exceeds the size limit.
    """
    texts = read_muse_corpus(folder, "retain2")
    path = Path("raw", "retain1.json")
    if _exists(folder, path) or _exists(folder, path.with_suffix(".txt")):
        texts += read_muse_corpus(folder, "retain1")
    return texts


def _exists(folder: Path, path: Path) -> bool:
    return (folder / path).is_file()


def _path(kind: str, part: str, parts: tuple[str, ...]) -> Path:
    if part not in parts:
        raise UsageProblem(
            f"MUSE's folder {kind!r} has no part {part!r}", f"choose one of {', '.join(parts)}"
        )
    return Path(kind, f"{part}.json")


def _passages(folder: Path, path: Path) -> tuple[Passage, ...]:
    entries = read_json_array(folder, path, ORIGIN)
    return tuple(Passage(require_text(found, place)) for place, found in entries)


def _objects(folder: Path, path: Path, fields: tuple[str, ...]) -> list[JsonEntry]:
    entries = []
    for place, found in read_json_array(folder, path, ORIGIN):
        if not isinstance(found, dict):
            raise DataError(
                f"{place} is not a JSON object", f"write an object with {', '.join(fields)}"
            )
        entry = JsonEntry(place, found)
        entry.refuse_others(fields)
        entries.append(entry)
    return entries
