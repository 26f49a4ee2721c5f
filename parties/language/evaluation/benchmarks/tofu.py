"""TOFU (Maini et al. 2024): forget quality and model utility, on its own questions.

Letters as in ``unlearning.audit.language``: R = the truth ratio of a question, its arithmetic form.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from configs.language import TextEvaluation
from parties.language.engine.base_model import Room
from parties.language.evaluation.benchmarks.asking import Step, mean_nlls, said, token_log_probs
from parties.language.evaluation.benchmarks.reading import Asked, Reader
from parties.language.texts.encoding import Encoded
from parties.language.texts.records import Question
from parties.language.texts.tofu import read_split
from unlearning.audit.language.extraction import extraction_strength
from unlearning.audit.language.model_utility import Answers, model_utility
from unlearning.audit.language.probability import option_probability, probability
from unlearning.audit.language.rouge import mean_rouge_l
from unlearning.audit.language.truth_ratio import (
    arithmetic_truth_ratio,
    forget_truth_ratio,
    retained_truth_ratio,
)

STAYS = {
    "retain": "retain_perturbed",
    "real_authors": "real_authors_perturbed",
    "world_facts": "world_facts_perturbed",
}
OPTIONS = ("real_authors", "world_facts")  # sets whose probability is among the options


@dataclass(frozen=True, slots=True, repr=False)
class QuestionSet:
    """One set in tokens.

    Attributes:
        answers: the true ones.
        paraphrased: true ones in other words, [questions]; where the set has none, ``answers``.
        perturbed: false ones, [questions * false], those of a question together.
        reworded: true answers to the questions in other words; none where the set has none.
        asked: the questions alone, and the true answers as texts.
    """

    answers: list[Encoded]
    paraphrased: list[Encoded]
    perturbed: list[Encoded]
    reworded: list[Encoded]
    asked: Asked


@dataclass(frozen=True, slots=True, repr=False)
class Tofu:
    """See ``Questions``.

    Attributes:
        sets: by word, the questions with what stands beside them.
    """

    known_as: ClassVar[str] = "probability"

    sets: dict[str, QuestionSet]
    plan: TextEvaluation

    @classmethod
    def read(cls, folder: Path, forget: str, plan: TextEvaluation, reader: Reader) -> "Tofu":
        """From its files.

        Raises:
            DataError: one is absent, not what it should be, or longer than the base takes.
        """
        files = {"forget": f"{forget}_perturbed", **STAYS}
        sets = {
            word: _read(reader, file, read_split(folder, file)[: plan.rows], plan.tokens)
            for word, file in files.items()
        }
        return cls(sets, plan)

    @property
    def forgotten(self) -> Sequence[Encoded]:
        """See ``Questions``."""
        return self.sets["forget"].answers

    def marks(self, room: Room, step: Step) -> dict[str, Any]:
        """See ``Questions``."""
        found = {word: self._asked(room, word, step) for word in self.sets}
        _, ratios, strength = found["forget"]
        reworded = mean_nlls(room, self.sets["forget"].reworded, self.plan.batch, step)
        told: dict[str, Any] = {
            "ratios": ratios.tolist(),
            "forget_truth_ratio": forget_truth_ratio(ratios),
            "forget_reworded_probability": float(probability(reworded).mean()),
            "extraction_strength": strength,
            "questions": len(ratios),
        }
        for word, (answers, _, _) in found.items():
            told[f"{word}_probability"] = answers.probability
            told[f"{word}_rouge"] = answers.rouge
            if word != "forget":
                told[f"{word}_truth_ratio"] = answers.truth_ratio
        told["model_utility"] = model_utility(*(found[word][0] for word in STAYS))
        return told

    def known(self, room: Room) -> float:
        """See ``Questions``: the mean probability of the forgotten answers."""
        return float(probability(mean_nlls(room, self.forgotten, self.plan.batch)).mean())

    def _asked(self, room: Room, word: str, step: Step) -> tuple[Answers, Tensor, float]:
        """One set: its three numbers, R of every question, and how much is known by heart."""
        part, size = self.sets[word], self.plan.batch
        log_p, mask, right = token_log_probs(room, part.answers, size, step)
        nll = -(log_p * mask).sum(dim=1) / mask.sum(dim=1)
        paraphrased = nll
        if part.paraphrased is not part.answers:
            paraphrased = mean_nlls(room, part.paraphrased, size, step)
        perturbed = mean_nlls(room, part.perturbed, size, step).view(len(nll), -1)
        ratios = arithmetic_truth_ratio(paraphrased, perturbed)
        chances = probability(nll)
        if word in OPTIONS:
            chances = option_probability(nll, perturbed)
        answers = said(room, part.asked.prompts, self.plan.tokens, size, step)
        told = Answers(
            probability=float(chances.mean()),
            rouge=mean_rouge_l(answers, part.asked.truths).recall,
            truth_ratio=retained_truth_ratio(ratios),
        )
        return told, ratios, _strength(right, mask)


def _read(reader: Reader, name: str, questions: Sequence[Question], tokens: int) -> QuestionSet:
    answers = reader.answers(name, [(each.question, each.answer) for each in questions])
    paraphrased, reworded = answers, list[Encoded]()
    if any(each.paraphrased_answer for each in questions):
        pairs = [(each.question, each.paraphrased_answer) for each in questions]
        paraphrased = reader.answers(name, pairs)
        pairs = [(each.paraphrased_question, each.answer) for each in questions]
        reworded = reader.answers(name, pairs)
    pairs = [(each.question, false) for each in questions for false in each.perturbed_answers]
    perturbed = reader.answers(name, pairs)
    asked = reader.asked(name, questions, tokens)
    return QuestionSet(answers, paraphrased, perturbed, reworded, asked)


def _strength(right: Tensor, mask: Tensor) -> float:
    """The mean extraction strength, from where the likeliest token is the true one."""
    said_so, truth = right.long(), torch.ones_like(right, dtype=torch.long)
    return float(extraction_strength(said_so, truth, mask).mean())
