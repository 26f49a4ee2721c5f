"""MUSE (Shi et al. 2024): what is known word for word, what is known, and who can tell.

What is absent is named when the benchmark is opened; knowmem is needed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from torch import Tensor

from configs.language import TextEvaluation
from parties.language.engine.base_model import Room
from parties.language.evaluation.benchmarks.asking import Step, quiet, said, token_log_probs
from parties.language.evaluation.benchmarks.reading import Asked, Reader
from parties.language.texts.encoding import Encoded
from parties.language.texts.muse import read_privacy, read_questions, read_verbatim
from unlearning.audit.language.muse import (
    knowledge_memory,
    leak_auc,
    min_k_scores,
    verbatim_memory,
)

GOES_ON, ANSWER = 128, 32  # tokens of a continuation, and of an answer
ENDS = ("\n\n", "\nQuestion", "Question:")  # MUSE's program: an answer ends before these
ASKED, SEEN = ("forget_qa", "retain_qa"), ("forget", "holdout")


@dataclass(frozen=True, slots=True, repr=False)
class Muse:
    """See ``Benchmark``; in tokens.

    Attributes:
        questions: forget and retain.
        verbatim: None where its files are not there.
        texts: forget and holdout, or nothing.
        forgotten: see ``Questions``: texts, or where there are none the questions on them.
    """

    known_as: ClassVar[str] = "knowledge"

    questions: dict[str, Asked]
    verbatim: Asked | None
    texts: dict[str, list[Encoded]]
    forgotten: Sequence[Encoded]
    plan: TextEvaluation

    @classmethod
    def read(cls, folder: Path, plan: TextEvaluation, reader: Reader) -> "Muse":
        """From its files.

        Raises:
            DataError: one is absent, not what it should be, or longer than the base takes.
        """
        questions, asked = {}, {}
        for part in ASKED:
            asked[part] = read_questions(folder, part)[: plan.rows]
            shown = [(e.question, e.answer) for e in read_questions(folder, f"{part}_icl")]
            questions[part] = reader.asked(f"knowmem/{part}", asked[part], ANSWER, shown)
        texts, verbatim = {}, None
        if (folder / "privleak").is_dir() or (folder / "privleak_first50").is_dir():
            texts = {part: read_privacy(folder, part)[: plan.rows] for part in SEEN}
        else:
            reader.lacks("privleak/", "PrivLeak")
        if (folder / "verbmem").is_dir():
            begun = read_verbatim(folder)[: plan.rows]
            verbatim = reader.begun("verbmem/forget", begun, GOES_ON)
        else:
            reader.lacks("verbmem/", "verbatim memory")
        if texts:
            forgotten = reader.pieces(texts["forget"])
        else:
            pairs = [(each.question, each.answer) for each in asked["forget_qa"]]
            forgotten = reader.answers("knowmem/forget_qa", pairs)
        openings = {part: reader.openings(each) for part, each in texts.items()}
        return cls(questions, verbatim, openings, forgotten, plan)

    def marks(self, room: Room, step: Step) -> dict[str, Any]:
        """See ``Questions``."""
        told: dict[str, Any] = {
            "forget_knowledge": self._knowledge(room, "forget_qa", step),
            "retain_knowledge": self._knowledge(room, "retain_qa", step),
            "questions": len(self.questions["forget_qa"].prompts),
        }
        if self.verbatim is not None:
            prompts, size = self.verbatim.prompts, self.plan.batch
            found = said(room, prompts, GOES_ON, size, step)
            told["verbatim_memory"] = verbatim_memory(found, self.verbatim.truths)
        if self.texts:
            forgotten, holdout = (_min_k(room, self.texts[part], step) for part in SEEN)
            told["leak_auc"] = leak_auc(forgotten, holdout)
            told["leak_texts"] = len(forgotten)
        return told

    def known(self, room: Room) -> float:
        """See ``Questions``: ROUGE of the answers about what was forgotten."""
        return self._knowledge(room, "forget_qa", quiet)

    def _knowledge(self, room: Room, part: str, step: Step) -> float:
        asked = self.questions[part]
        answers = said(room, asked.prompts, ANSWER, self.plan.batch, step)
        return knowledge_memory([answered(each) for each in answers], asked.truths)


def answered(text: str) -> str:
    """What was said before the next question, which a model makes up after examples."""
    for end in ENDS:
        text = text.partition(end)[0]
    return text


def _min_k(room: Room, texts: Sequence[Encoded], step: Step) -> Tensor:
    """Min-K % of every text, one at a time: they are as long as the base takes."""
    log_p, mask, _ = token_log_probs(room, texts, 1, step)
    return min_k_scores(log_p, mask)
