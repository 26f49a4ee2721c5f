"""TOFU (Maini et al. 2024): forget quality and model utility, on its own questions.

Letters as in ``unlearning.audit.language``: R = the truth ratio of a question, its arithmetic form.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from configs.language import TextEvaluation
from parties.horizontal.language.benchmarks.asking import Step, mean_nlls, said, token_log_probs
from parties.horizontal.language.room import Room
from parties.horizontal.language.texts.encoding import Encoded
from parties.horizontal.language.texts.records import Question
from parties.horizontal.language.texts.tofu import read_split
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
class Tofu:
    """See ``Benchmark``.

    Attributes:
        sets: by word, the questions with what stands beside them.
    """

    sets: dict[str, tuple[Question, ...]]
    plan: TextEvaluation

    @classmethod
    def read(cls, folder: Path, forget: str, plan: TextEvaluation) -> "Tofu":
        """From its files.

        Raises:
            DataError: one is absent, or not what it should be.
        """
        files = {"forget": f"{forget}_perturbed", **STAYS}
        sets = {word: read_split(folder, file)[: plan.rows] for word, file in files.items()}
        return cls(sets, plan)

    def marks(self, room: Room, step: Step) -> dict[str, Any]:
        """See ``Benchmark``."""
        found = {word: self._asked(room, word, step) for word in self.sets}
        _, ratios, strength = found["forget"]
        told: dict[str, Any] = {
            "ratios": ratios.tolist(),
            "forget_truth_ratio": forget_truth_ratio(ratios),
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
        """See ``Benchmark``: the mean probability of the forgotten answers."""
        return float(probability(mean_nlls(room, self.forgotten(room), self.plan.batch)).mean())

    def forgotten(self, room: Room) -> Sequence[Encoded]:
        """See ``Benchmark``."""
        return room.encoder.answers(_pairs(self.sets["forget"]))

    def _asked(self, room: Room, word: str, step: Step) -> tuple[Answers, Tensor, float]:
        """One set: its three numbers, R of every question, and how much is known by heart."""
        questions, size, encoder = self.sets[word], self.plan.batch, room.encoder
        rows = encoder.answers(_pairs(questions))
        log_p, mask, right = token_log_probs(room, rows, size, step)
        nll = -(log_p * mask).sum(dim=1) / mask.sum(dim=1)
        true = [each.paraphrased_answer or each.answer for each in questions]
        paraphrased = nll
        if any(each.paraphrased_answer for each in questions):
            asked = [each.question for each in questions]
            paraphrased = mean_nlls(
                room, encoder.answers(list(zip(asked, true, strict=True))), size, step
            )
        perturbed = self._perturbed(room, questions, step)
        ratios = arithmetic_truth_ratio(paraphrased, perturbed)
        chances = probability(nll)
        if word in OPTIONS:
            chances = option_probability(nll, perturbed)
        prompts = encoder.prompts([each.question for each in questions])
        answers = said(room, prompts, self.plan.tokens, size, step)
        rouge = mean_rouge_l(answers, [each.answer for each in questions]).recall
        told = Answers(
            probability=float(chances.mean()),
            rouge=rouge,
            truth_ratio=retained_truth_ratio(ratios),
        )
        return told, ratios, _strength(right, mask)

    def _perturbed(self, room: Room, questions: Sequence[Question], step: Step) -> Tensor:
        """Mean nats a token of the false answers, ``[questions, false]``."""
        count = min(len(each.perturbed_answers) for each in questions)
        pairs = [(e.question, a) for e in questions for a in e.perturbed_answers[:count]]
        rows = room.encoder.answers(pairs)
        return mean_nlls(room, rows, self.plan.batch, step).view(len(questions), count)


def _pairs(questions: Sequence[Question]) -> list[tuple[str, str]]:
    return [(each.question, each.answer) for each in questions]


def _strength(right: Tensor, mask: Tensor) -> float:
    """The mean extraction strength, from where the likeliest token is the true one."""
    said_so, truth = right.long(), torch.ones_like(right, dtype=torch.long)
    return float(extraction_strength(said_so, truth, mask).mean())
