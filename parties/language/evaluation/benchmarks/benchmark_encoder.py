"""Encoder of a benchmark's texts, limited by the context length of the base model.

A question longer than the context is refused; a text longer than the context is truncated.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from parties.common.errors import DataError
from parties.common.progress import ProgressReporter
from parties.common.shared_randomness import Index
from parties.language.engine.base_model import BaseModel
from parties.language.engine.truncation import warn_of_truncation
from parties.language.texts.encoding import EncodedText
from parties.language.texts.records import Continuation, Passage, QuestionAnswer
from parties.language.texts.templates import QuestionPair


@dataclass(frozen=True, slots=True, repr=False)
class PromptSet:
    """Prompts for generation with their true answers."""

    prompts: Sequence[Index]  # token ids, ``[tokens]`` each
    truths: Sequence[str]  # the true answer, or the true continuation, of each prompt


class BenchmarkEncoder:
    """Encodes the question sets and texts of a benchmark, and collects warnings.

    Error messages begin with the name of the question set.
    """

    def __init__(self, base_model: BaseModel) -> None:
        self._training, self._limit = base_model.encoder, base_model.context_length
        self._encoder = replace(base_model.encoder, longest=base_model.context_length)
        self._encoded: list[EncodedText] = []
        self._missing: list[str] = []

    def questions(
        self,
        name: str,
        questions: Sequence[QuestionAnswer],
        tokens: int,
        examples: Sequence[QuestionPair] = (),
    ) -> PromptSet:
        """Encode questions as prompts for answers of at most ``tokens`` tokens.

        Raises:
            DataError: a question with its answer exceeds the context of the base model.
        """
        with _named(name):
            found = self._encoder.prompts([each.question for each in questions], examples, tokens)
        return PromptSet(found, [each.answer for each in questions])

    def continuations(self, name: str, texts: Sequence[Continuation], tokens: int) -> PromptSet:
        """Encode the beginnings of texts as prompts for continuations of at most ``tokens`` tokens.

        Raises:
            DataError: a beginning with its continuation exceeds the context of the base model.
        """
        pairs = [(each.prompt, each.continuation) for each in texts]
        with _named(name):
            found = self._encoder.continuations(pairs, tokens)
        truths = [self._truncated(each.continuation, tokens) for each in texts]
        return PromptSet([each.prompt for each in found], truths)

    def answers(self, name: str, pairs: Sequence[QuestionPair]) -> list[EncodedText]:
        """Encode questions with answers, to measure the likelihood of the answers.

        Raises:
            DataError: a question exceeds the context of the base model.
        """
        with _named(name):
            found = self._encoder.answers(pairs)
        self._encoded += found
        return found

    def openings(self, texts: Sequence[Passage]) -> list[EncodedText]:
        """Encode each text up to the context length, without an added end token.

        Raises:
            DataError: a text has fewer than two tokens.
        """
        found = []
        for number, text in enumerate(texts):
            first, *others = self._encoder.windows([text.text])
            beyond = sum(each.predicted for each in others)
            ids = first.ids if others else first.ids[:-1]
            found.append(replace(first, ids=ids, cut=max(0, beyond - 1)))
            if not found[-1].predicted:
                raise DataError(
                    f"text {number} in MUSE's folder 'privleak' has fewer than two tokens",
                    "remove the text",
                )
        self._encoded += found
        return found

    def windows(self, texts: Sequence[Passage]) -> list[EncodedText]:
        """Encode whole texts as windows, as in training."""
        return self._training.windows([each.text for each in texts])

    def add_missing(self, files: str, figure: str) -> None:
        """Add a warning that a value of the benchmark is not measured because files are missing."""
        self._missing.append(f"the benchmark's {files} is missing: {figure} is not measured")

    def report(self, progress: ProgressReporter) -> None:
        """Warn about missing files and truncated texts."""
        for each in self._missing:
            progress.warn(each)
        longer = f"of the benchmark exceed the context of the base model, {self._limit:,} tokens"
        warn_of_truncation(progress, self._encoded, longer, "not measured")

    def _truncated(self, text: str, tokens: int) -> str:
        """The first ``tokens`` tokens of a true continuation, as many as the model generates."""
        tokenizer = self._encoder.tokenizer
        ids = tokenizer(text, add_special_tokens=False)["input_ids"][:tokens]
        found = tokenizer.decode(ids, skip_special_tokens=True)
        return str(found)


@contextmanager
def _named(name: str) -> Iterator[None]:
    try:
        yield
    except DataError as error:
        raise DataError(f"{name}: {error}", error.hint) from error
