"""TOFU as its authors publish it: 200 invented authors with 20 questions each (Maini et al. 2024).

One JSON object a line in ``SPLIT.json``, and ``idontknow.jsonl`` with one refusal a line.
``full`` is ``retain99`` and then ``forget01``, or ``retain95`` and ``forget05``, or ``retain90``
and ``forget10``; the hold-out splits are of authors outside ``full``.
"""

from dataclasses import dataclass
from pathlib import Path

from parties.common.errors import DataError, UsageProblem
from parties.language.texts.lines import Entry, json_lines, text_lines
from parties.language.texts.records import Question

ORIGIN = "https://huggingface.co/datasets/locuslab/TOFU"
QUESTIONS_EACH = 20  # of an author, in file order
RETAIN = {"forget01": "retain99", "forget05": "retain95", "forget10": "retain90"}
HOLDOUT = {"forget01": "holdout01", "forget05": "holdout05", "forget10": "holdout10"}
REFUSALS = 100  # lines of idontknow.jsonl
_PAIR = ("question", "answer")
_OPTIONS = ("option1", "option2", "option3", "option4")


@dataclass(frozen=True, slots=True)
class Form:
    """How a split is written: its published number of rows, and what each row has.

    Attributes:
        rows: how many there are.
        options: fields of a multiple-choice question.
        perturbed: how many false answers there are.
        paraphrased: fields with other words for the question and the answer.
    """

    rows: int
    options: tuple[str, ...] = ()
    perturbed: int = 0
    paraphrased: tuple[str, ...] = ()

    @property
    def fields(self) -> tuple[str, ...]:
        """All fields of a row."""
        false = ("perturbed_answer",) if self.perturbed else ()
        return (*_PAIR, *self.options, *self.paraphrased, *false)


def _measured(rows: int) -> Form:
    return Form(rows, perturbed=5, paraphrased=("paraphrased_question", "paraphrased_answer"))


SPLITS = {
    "full": Form(4000),
    **{"retain99": Form(3960), "retain95": Form(3800), "retain90": Form(3600)},
    **{"forget01": Form(40), "forget05": Form(200), "forget10": Form(400)},
    **{"holdout01": Form(40), "holdout05": Form(200), "holdout10": Form(400)},
    "forget01_perturbed": _measured(40),
    "forget05_perturbed": _measured(200),
    "forget10_perturbed": _measured(400),
    "retain_perturbed": _measured(400),
    "real_authors": Form(100, options=_OPTIONS),
    "world_facts": Form(117, options=_OPTIONS),
    "real_authors_perturbed": Form(100, perturbed=3),
    "world_facts_perturbed": Form(117, perturbed=3),
}


def read_split(folder: Path, split: str) -> tuple[Question, ...]:
    """The rows of ``folder/SPLIT.json`` in their order.

    Raises:
        UsageProblem: TOFU has no such split.
        DataError: the file is absent, or a line is not what this split has.
        ResourceError: the file is larger than is read.
    """
    if split not in SPLITS:
        raise UsageProblem(f"TOFU has no split {split!r}", f"it has {', '.join(SPLITS)}")
    form = SPLITS[split]
    rows = tuple(_row(entry, form) for entry in json_lines(folder, Path(f"{split}.json"), ORIGIN))
    if not rows:
        raise DataError(f"{split}.json has no rows", f"get it from {ORIGIN}")
    return rows


def read_refusals(folder: Path) -> tuple[str, ...]:
    """The lines of ``folder/idontknow.jsonl``: plain text for all that its name says.

    Raises:
        DataError: the file is absent, or a line is empty or no UTF-8.
        ResourceError: it is larger than is read.
    """
    return tuple(line for _, line in text_lines(folder, Path("idontknow.jsonl"), ORIGIN))


def refuse_partial(split: str, rows: int) -> None:
    """Refuse to call a part of a split the split.

    Raises:
        DataError: ``rows`` is not the published number.
    """
    published = SPLITS[split].rows
    if rows != published:
        raise DataError(
            f"{split}.json has {rows} rows here and {published} as published",
            f"get it from {ORIGIN} again, or bring it as your own file",
        )


def _row(entry: Entry, form: Form) -> Question:
    entry.refuse_others(form.fields)
    options = tuple(entry.text(option) for option in form.options)
    answer = entry.text("answer")
    if options and answer not in options:
        raise DataError(f"the answer of {entry.place} is none of its options")
    question, paraphrase = (entry.text(each) for each in form.paraphrased or ("question", "answer"))
    return Question(
        question=entry.text("question"),
        answer=answer,
        paraphrased_question=question if form.paraphrased else "",
        paraphrased_answer=paraphrase if form.paraphrased else "",
        perturbed_answers=(
            entry.texts("perturbed_answer", form.perturbed) if form.perturbed else ()
        ),
        options=options,
    )
