"""TOFU benchmark (Maini et al. 2024): forget quality and model utility on TOFU's questions.

The truth ratio R of a question uses the arithmetic mean over the false answers, and for a second
forget quality the geometric mean; the package ``unlearning.audit.language`` computes R. The end
token of an answer counts as a token of the answer in all figures.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from configs.language import TextEvaluation
from parties.language.engine.base_model import BaseModel
from parties.language.evaluation.benchmarks.benchmark_encoder import BenchmarkEncoder, PromptSet
from parties.language.evaluation.benchmarks.inference import (
    ProgressStep,
    generate_answers,
    mean_nlls,
    token_log_probs,
)
from parties.language.texts.encoding import EncodedText
from parties.language.texts.records import QuestionAnswer
from parties.language.texts.tofu import read_tofu_split
from unlearning.audit.language.extraction import extraction_strength
from unlearning.audit.language.rouge import mean_rouge_l
from unlearning.audit.language.tofu import (
    QuestionSetScores,
    answer_probability,
    arithmetic_truth_ratio,
    forget_truth_ratio,
    geometric_truth_ratio,
    model_utility,
    option_probability,
    retained_truth_ratio,
)

UTILITY_SPLITS = {
    "retain": "retain_perturbed",
    "real_authors": "real_authors_perturbed",
    "world_facts": "world_facts_perturbed",
}
MULTIPLE_CHOICE = ("real_authors", "world_facts")  # sets with probabilities among the options


@dataclass(frozen=True, slots=True)
class SetMeasurement:
    """The measured values of one question set."""

    scores: QuestionSetScores
    ratios: Tensor  # R of each question, [questions]
    geometric: Tensor  # R of each question with the geometric mean, [questions]
    extraction_strength: float  # mean over the answers, each with its end token


@dataclass(frozen=True, slots=True, repr=False)
class QuestionSet:
    """One encoded set of questions."""

    answers: list[EncodedText]  # questions with their true answers
    # Questions with a paraphrased true answer, one per question; equal to ``answers`` if the set
    # has no paraphrases.
    paraphrased: list[EncodedText]
    # Questions with false answers; all rows of one question are consecutive.
    perturbed: list[EncodedText]
    # Paraphrased questions with their true answers; empty if the set has no paraphrased questions.
    reworded: list[EncodedText]
    prompts: PromptSet  # the questions as prompts, with the true answers as plain text


@dataclass(frozen=True, slots=True, repr=False)
class TofuQuestions:
    """The encoded questions of TOFU."""

    knowledge_name: ClassVar[str] = "probability"  # name of the value that ``knowledge`` returns

    # The encoded question sets ``forget``, ``retain``, ``real_authors`` and ``world_facts``, by
    # name.
    sets: dict[str, QuestionSet]
    plan: TextEvaluation  # settings of the evaluation

    @classmethod
    def read(
        cls, folder: Path, forget: str, plan: TextEvaluation, encoder: BenchmarkEncoder
    ) -> "TofuQuestions":
        """Read and encode TOFU's files; ``forget`` is the name of the forget split.

        Raises:
            DataError: a file is missing or has a wrong format, or a question exceeds the context of
                the base model.
        """
        files = {"forget": f"{forget}_perturbed", **UTILITY_SPLITS}
        sets = {
            name: _encoded_set(
                encoder, file, read_tofu_split(folder, file)[: plan.rows], plan.tokens
            )
            for name, file in files.items()
        }
        return cls(sets, plan)

    @property
    def forgotten(self) -> Sequence[EncodedText]:
        """The questions of the forget set with their true answers."""
        return self.sets["forget"].answers

    def measure(self, base_model: BaseModel, step: ProgressStep) -> dict[str, Any]:
        """Measure ``base_model`` on TOFU's questions, and return the values by name."""
        found = {name: self._measure_set(base_model, name, step) for name in self.sets}
        forget = found["forget"]
        reworded = mean_nlls(base_model, self.sets["forget"].reworded, self.plan.batch, step)
        figures: dict[str, Any] = {
            "ratios": forget.ratios.tolist(),
            "geometric_ratios": forget.geometric.tolist(),
            "forget_truth_ratio": forget_truth_ratio(forget.ratios),
            "forget_reworded_probability": float(answer_probability(reworded).mean()),
            "extraction_strength": forget.extraction_strength,
            "questions": len(forget.ratios),
        }
        for name, each in found.items():
            figures[f"{name}_probability"] = each.scores.probability
            figures[f"{name}_rouge"] = each.scores.rouge
            if name != "forget":
                figures[f"{name}_truth_ratio"] = each.scores.truth_ratio
        figures["model_utility"] = model_utility(*(found[name].scores for name in UTILITY_SPLITS))
        return figures

    def knowledge(self, base_model: BaseModel) -> float:
        """Return the mean probability of the true answers in the forget set."""
        nlls = mean_nlls(base_model, self.forgotten, self.plan.batch)
        return float(answer_probability(nlls).mean())

    def _measure_set(self, base_model: BaseModel, name: str, step: ProgressStep) -> SetMeasurement:
        part, size = self.sets[name], self.plan.batch
        log_p, mask, right = token_log_probs(base_model, part.answers, size, step)
        nll = -(log_p * mask).sum(dim=1) / mask.sum(dim=1)
        paraphrased = nll
        if part.paraphrased is not part.answers:
            paraphrased = mean_nlls(base_model, part.paraphrased, size, step)
        perturbed = mean_nlls(base_model, part.perturbed, size, step).view(len(nll), -1)
        ratios = arithmetic_truth_ratio(paraphrased, perturbed)
        probabilities = answer_probability(nll)
        if name in MULTIPLE_CHOICE:
            probabilities = option_probability(nll, perturbed)
        prompts = part.prompts.prompts
        answers = generate_answers(base_model, prompts, self.plan.tokens, size, step)
        scores = QuestionSetScores(
            probability=float(probabilities.mean()),
            rouge=mean_rouge_l(answers, part.prompts.truths).recall,
            truth_ratio=retained_truth_ratio(ratios),
        )
        geometric = geometric_truth_ratio(paraphrased, perturbed)
        return SetMeasurement(scores, ratios, geometric, _mean_extraction_strength(right, mask))


def _encoded_set(
    encoder: BenchmarkEncoder, name: str, questions: Sequence[QuestionAnswer], tokens: int
) -> QuestionSet:
    answers = encoder.answers(name, [(each.question, each.answer) for each in questions])
    paraphrased, reworded = answers, list[EncodedText]()
    if any(each.paraphrased_answer for each in questions):
        pairs = [(each.question, each.paraphrased_answer) for each in questions]
        paraphrased = encoder.answers(name, pairs)
        pairs = [(each.paraphrased_question, each.answer) for each in questions]
        reworded = encoder.answers(name, pairs)
    pairs = [(each.question, false) for each in questions for false in each.perturbed_answers]
    perturbed = encoder.answers(name, pairs)
    prompts = encoder.questions(name, questions, tokens)
    return QuestionSet(answers, paraphrased, perturbed, reworded, prompts)


def _mean_extraction_strength(right: Tensor, mask: Tensor) -> float:
    """Mean extraction strength; ``right`` is True where the most likely token is the true one."""
    # The function compares two token sequences: 1 for a right token against a truth of ones.
    generated, truth = right.long(), torch.ones_like(right, dtype=torch.long)
    return float(extraction_strength(generated, truth, mask).mean())
