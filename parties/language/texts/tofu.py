"""Reader of TOFU's original files: 200 fictitious authors, 20 questions each (Maini et al. 2024).

A split is the file ``SPLIT.json`` with one JSON object per line. ``full`` is ``retain99`` followed
by ``forget01``, ``retain95`` followed by ``forget05``, or ``retain90`` followed by ``forget10``.
The hold-out splits are about authors that are not in ``full``.
"""

from dataclasses import dataclass
from pathlib import Path

from parties.common.errors import DataError, UsageProblem
from parties.language.texts.records import QuestionAnswer
from parties.language.texts.text_files import JsonEntry, read_json_lines

ORIGIN = "https://huggingface.co/datasets/locuslab/TOFU"
QUESTIONS_EACH = 20  # questions of an author; an author's questions stand together in a file
RETAIN_SPLIT = {"forget01": "retain99", "forget05": "retain95", "forget10": "retain90"}
_PAIR = ("question", "answer")
_OPTIONS = ("option1", "option2", "option3", "option4")


@dataclass(frozen=True, slots=True)
class SplitFormat:
    """Fields of the rows of a split."""

    # Names of the fields with the options of a multiple-choice question.
    options: tuple[str, ...] = ()
    perturbed: int = 0  # number of false answers per row
    # Names of the fields with the paraphrased question and answer.
    paraphrased: tuple[str, ...] = ()

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of all fields of a row."""
        false = ("perturbed_answer",) if self.perturbed else ()
        return (*_PAIR, *self.options, *self.paraphrased, *false)


_PLAIN = SplitFormat()
_MEASURED = SplitFormat(perturbed=5, paraphrased=("paraphrased_question", "paraphrased_answer"))
_CHOICE = SplitFormat(options=_OPTIONS)
SPLITS = {
    "full": _PLAIN,
    **{"retain99": _PLAIN, "retain95": _PLAIN, "retain90": _PLAIN},
    **{"forget01": _PLAIN, "forget05": _PLAIN, "forget10": _PLAIN},
    **{"holdout01": _PLAIN, "holdout05": _PLAIN, "holdout10": _PLAIN},
    "forget01_perturbed": _MEASURED,
    "forget05_perturbed": _MEASURED,
    "forget10_perturbed": _MEASURED,
    "retain_perturbed": _MEASURED,
    "real_authors": _CHOICE,
    "world_facts": _CHOICE,
    "real_authors_perturbed": SplitFormat(perturbed=3),
    "world_facts_perturbed": SplitFormat(perturbed=3),
}


def read_tofu_split(folder: Path, split: str) -> tuple[QuestionAnswer, ...]:
    """Return the rows of ``folder/SPLIT.json`` in file order.

    Raises:
        UsageProblem: TOFU has no split with this name.
        DataError: the file is missing or empty, or a line does not have the split's fields.
        ResourceError: the file exceeds the size limit.
    """
    if split not in SPLITS:
        raise UsageProblem(f"TOFU has no split {split!r}", f"choose one of {', '.join(SPLITS)}")
    form = SPLITS[split]
    entries = read_json_lines(folder, Path(f"{split}.json"), ORIGIN)
    rows = tuple(_row(entry, form) for entry in entries)
    if not rows:
        raise DataError(f"{split}.json has no rows", f"download the file from {ORIGIN}")
    return rows


def _row(entry: JsonEntry, form: SplitFormat) -> QuestionAnswer:
    entry.refuse_others(form.fields)
    options = tuple(entry.text(option) for option in form.options)
    answer = entry.text("answer")
    if options and answer not in options:
        raise DataError(f"the answer of {entry.place} is not one of the options")
    question, paraphrase = (entry.text(each) for each in form.paraphrased or ("question", "answer"))
    return QuestionAnswer(
        question=entry.text("question"),
        answer=answer,
        paraphrased_question=question if form.paraphrased else "",
        paraphrased_answer=paraphrase if form.paraphrased else "",
        perturbed_answers=(
            entry.texts("perturbed_answer", form.perturbed) if form.perturbed else ()
        ),
        options=options,
    )
