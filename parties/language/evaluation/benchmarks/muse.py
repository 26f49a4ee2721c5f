"""MUSE benchmark (Shi et al. 2024): verbatim memory, knowledge memory and privacy leak.

The files of ``knowmem/`` are required. If other files are missing, a warning names the values that
are not measured.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from torch import Tensor

from configs.language import TextEvaluation
from parties.language.engine.base_model import BaseModel
from parties.language.evaluation.benchmarks.benchmark_encoder import BenchmarkEncoder, PromptSet
from parties.language.evaluation.benchmarks.inference import (
    ProgressStep,
    generate_answers,
    no_progress,
    token_log_probs,
)
from parties.language.texts.encoding import EncodedText
from parties.language.texts.muse import (
    read_muse_continuations,
    read_muse_membership,
    read_muse_questions,
)
from unlearning.audit.language.muse import (
    knowledge_memory,
    min_k_auc,
    min_k_scores,
    verbatim_memory,
)

CONTINUATION_TOKENS, ANSWER_TOKENS = 128, 32  # largest number of generated tokens
ENDS = ("\n\n", "\nQuestion", "Question:")  # ends of an answer, as in MUSE's program
QUESTION_SETS, MEMBERSHIP_SETS = ("forget_qa", "retain_qa"), ("forget", "holdout")


@dataclass(frozen=True, slots=True, repr=False)
class MuseQuestions:
    """The encoded questions and texts of MUSE."""

    knowledge_name: ClassVar[str] = "knowledge"  # name of the value that ``knowledge()`` returns

    questions: dict[str, PromptSet]  # the questions of MUSE's files ``forget_qa`` and ``retain_qa``
    verbatim: PromptSet | None  # beginnings of forgotten texts; None if the files are missing
    # The forgotten texts (``forget``) and the unseen texts (``holdout``) for membership inference;
    # empty if the files are missing.
    texts: dict[str, list[EncodedText]]
    # Forgotten texts for the relearning attack; if their files are missing, questions about the
    # forgotten texts.
    forgotten: Sequence[EncodedText]
    plan: TextEvaluation  # settings of the evaluation

    @classmethod
    def read(cls, folder: Path, plan: TextEvaluation, encoder: BenchmarkEncoder) -> "MuseQuestions":
        """Read and encode MUSE's files of one corpus.

        Raises:
            DataError: a file is missing or has a wrong format, or a question exceeds the context of
                the base model.
        """
        prompts, rows = {}, {}
        for part in QUESTION_SETS:
            rows[part] = read_muse_questions(folder, part)[: plan.rows]
            examples = [(e.question, e.answer) for e in read_muse_questions(folder, f"{part}_icl")]
            name = f"knowmem/{part}"
            prompts[part] = encoder.questions(name, rows[part], ANSWER_TOKENS, examples)
        texts, verbatim = {}, None
        if (folder / "privleak").is_dir() or (folder / "privleak_first50").is_dir():
            texts = {
                part: read_muse_membership(folder, part)[: plan.rows] for part in MEMBERSHIP_SETS
            }
        else:
            encoder.add_missing("privleak/", "PrivLeak")
        if (folder / "verbmem").is_dir():
            begun = read_muse_continuations(folder)[: plan.rows]
            verbatim = encoder.continuations("verbmem/forget", begun, CONTINUATION_TOKENS)
        else:
            encoder.add_missing("verbmem/", "verbatim memory")
        if texts:
            forgotten = encoder.windows(texts["forget"])
        else:
            pairs = [(each.question, each.answer) for each in rows["forget_qa"]]
            forgotten = encoder.answers("knowmem/forget_qa", pairs)
        openings = {part: encoder.openings(each) for part, each in texts.items()}
        return cls(prompts, verbatim, openings, forgotten, plan)

    def measure(self, base_model: BaseModel, step: ProgressStep) -> dict[str, Any]:
        """Return the measured values of MUSE by name."""
        figures: dict[str, Any] = {
            "forget_knowledge": self._knowledge_memory(base_model, "forget_qa", step),
            "retain_knowledge": self._knowledge_memory(base_model, "retain_qa", step),
            "questions": len(self.questions["forget_qa"].prompts),
        }
        if self.verbatim is not None:
            prompts, size = self.verbatim.prompts, self.plan.batch
            found = generate_answers(base_model, prompts, CONTINUATION_TOKENS, size, step)
            figures["verbatim_memory"] = verbatim_memory(found, self.verbatim.truths)
        if self.texts:
            forgotten, holdout = (
                _min_k(base_model, self.texts[part], step) for part in MEMBERSHIP_SETS
            )
            figures["leak_auc"] = min_k_auc(forgotten, holdout)
            figures["leak_texts"] = len(forgotten)
        return figures

    def knowledge(self, base_model: BaseModel) -> float:
        """Return the mean ROUGE of answers to questions about forgotten texts."""
        return self._knowledge_memory(base_model, "forget_qa", no_progress)

    def _knowledge_memory(self, base_model: BaseModel, part: str, step: ProgressStep) -> float:
        asked, size = self.questions[part], self.plan.batch
        answers = generate_answers(base_model, asked.prompts, ANSWER_TOKENS, size, step)
        return knowledge_memory([first_answer(each) for each in answers], asked.truths)


def first_answer(text: str) -> str:
    """Return the first answer of a generated text.

    If the prompt contains examples, a model may generate further questions and answers after the
    first answer; these are removed.
    """
    for end in ENDS:
        text = text.partition(end)[0]
    return text


def _min_k(base_model: BaseModel, texts: Sequence[EncodedText], step: ProgressStep) -> Tensor:
    """Min-K % scores, ``[texts]``; one text at a time, because texts may fill the context."""
    log_p, mask, _ = token_log_probs(base_model, texts, 1, step)
    return min_k_scores(log_p, mask)
