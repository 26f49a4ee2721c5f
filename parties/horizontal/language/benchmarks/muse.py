"""MUSE (Shi et al. 2024): what is known word for word, what is known, and who can tell.

A texts file that is absent is named when the benchmark is opened.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from configs.language import TextEvaluation
from parties.horizontal.language.benchmarks.asking import Step, said, token_log_probs
from parties.horizontal.language.room import Room
from parties.horizontal.language.texts.encoding import Encoded
from parties.horizontal.language.texts.muse import read_privacy, read_questions, read_verbatim
from parties.horizontal.language.texts.records import Continuation, Passage, Question
from unlearning.audit.language.muse import (
    knowledge_memory,
    leak_auc,
    min_k_scores,
    verbatim_memory,
)

GOES_ON, ANSWER = 128, 32  # tokens of a continuation, and of an answer


@dataclass(frozen=True, slots=True, repr=False)
class Muse:
    """See ``Benchmark``."""

    verbatim: tuple[Continuation, ...]
    questions: dict[str, tuple[Question, ...]]  # forget and retain, and their examples
    texts: dict[str, tuple[Passage, ...]]  # forget and holdout
    plan: TextEvaluation

    @classmethod
    def read(cls, folder: Path, plan: TextEvaluation) -> "Muse":
        """From its files.

        Raises:
            DataError: one is absent, or not what it should be.
        """
        parts = ("forget_qa", "retain_qa")
        questions = {part: read_questions(folder, part)[: plan.rows] for part in parts}
        shown = {f"{part}_icl": read_questions(folder, f"{part}_icl") for part in parts}
        texts: dict[str, tuple[Passage, ...]] = {}
        if (folder / "privleak").is_dir() or (folder / "privleak_first50").is_dir():
            texts = {
                part: read_privacy(folder, part)[: plan.rows] for part in ("forget", "holdout")
            }
        verbatim = read_verbatim(folder)[: plan.rows] if (folder / "verbmem").is_dir() else ()
        return cls(verbatim, questions | shown, texts, plan)

    def marks(self, room: Room, step: Step) -> dict[str, Any]:
        """See ``Benchmark``."""
        told: dict[str, Any] = {
            "forget_knowledge": self._knowledge(room, "forget_qa", step),
            "retain_knowledge": self._knowledge(room, "retain_qa", step),
            "questions": len(self.questions["forget_qa"]),
        }
        if self.verbatim:
            told["verbatim_memory"] = self._verbatim(room, step)
        if self.texts:
            forgotten, holdout = (self._min_k(room, self.texts[p], step) for p in self.texts)
            told["leak_auc"] = leak_auc(forgotten, holdout)
            told["leak_texts"] = len(forgotten)
        return told

    def known(self, room: Room) -> float:
        """See ``Benchmark``: ROUGE of the answers about what was forgotten."""
        return self._knowledge(room, "forget_qa", lambda: None)

    def forgotten(self, room: Room) -> Sequence[Encoded]:
        """See ``Benchmark``: the texts, or where there are none the questions on them."""
        if "forget" in self.texts:
            return room.encoder.windows([each.text for each in self.texts["forget"]])
        asked = self.questions["forget_qa"]
        return room.encoder.answers([(each.question, each.answer) for each in asked])

    def _knowledge(self, room: Room, part: str, step: Step) -> float:
        asked = self.questions[part]
        shown = [(each.question, each.answer) for each in self.questions[f"{part}_icl"]]
        prompts = room.encoder.prompts([each.question for each in asked], shown)
        answers = said(room, prompts, ANSWER, self.plan.batch, step)
        return knowledge_memory(answers, [each.answer for each in asked])

    def _verbatim(self, room: Room, step: Step) -> float:
        pairs = [(each.prompt, each.continuation) for each in self.verbatim]
        prompts = [each.prompt for each in room.encoder.continuations(pairs)]
        found = said(room, prompts, GOES_ON, self.plan.batch, step)
        return verbatim_memory(
            found, [_beginning(room, each.continuation) for each in self.verbatim]
        )

    def _min_k(self, room: Room, texts: Sequence[Passage], step: Step) -> Any:
        rows = [room.encoder.windows([each.text])[0] for each in texts]
        log_p, mask, _ = token_log_probs(room, rows, self.plan.batch, step)
        return min_k_scores(log_p, mask)


def _beginning(room: Room, text: str) -> str:
    """As much of a true continuation as a model is let to say."""
    tokenizer: Any = room.encoder.tokenizer
    ids = tokenizer(text, add_special_tokens=False)["input_ids"][:GOES_ON]
    found: str = tokenizer.decode(ids, skip_special_tokens=True)
    return found
