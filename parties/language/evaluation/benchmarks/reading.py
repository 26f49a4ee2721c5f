"""A benchmark's texts in tokens, within what the base model takes at once.

What cannot be asked is refused before the training, and what must be cut is counted.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from parties.common.errors import DataError
from parties.common.progress import Watch
from parties.common.shared_randomness import Index
from parties.language.engine.base_model import Room
from parties.language.engine.truncation import say_cut
from parties.language.texts.encoding import Encoded
from parties.language.texts.records import Continuation, Passage, Question
from parties.language.texts.templates import Pair


@dataclass(frozen=True, slots=True, repr=False)
class Asked:
    """What a model is given to go on from, and how it truly goes on."""

    prompts: Sequence[Index]
    truths: Sequence[str]


class Reader:
    """Puts a benchmark's sets into tokens; a set is named in what it raises."""

    def __init__(self, room: Room) -> None:
        self._taught, self._limit = room.encoder, room.context
        self._encoder = replace(room.encoder, longest=room.context)
        self._read: list[Encoded] = []
        self._lacks: list[str] = []

    def asked(
        self, name: str, questions: Sequence[Question], tokens: int, examples: Sequence[Pair] = ()
    ) -> Asked:
        """Questions that are answered in at most ``tokens``.

        Raises:
            DataError: the base model does not take so many tokens.
        """
        with _named(name):
            found = self._encoder.prompts([each.question for each in questions], examples, tokens)
        return Asked(found, [each.answer for each in questions])

    def begun(self, name: str, texts: Sequence[Continuation], tokens: int) -> Asked:
        """Texts that are gone on with for at most ``tokens``; raises like ``asked``."""
        pairs = [(each.prompt, each.continuation) for each in texts]
        with _named(name):
            found = self._encoder.continuations(pairs, tokens)
        truths = [self._beginning(each.continuation, tokens) for each in texts]
        return Asked([each.prompt for each in found], truths)

    def answers(self, name: str, pairs: Sequence[Pair]) -> list[Encoded]:
        """Answers whose likelihood is asked; raises like ``asked``."""
        with _named(name):
            found = self._encoder.answers(pairs)
        self._read += found
        return found

    def openings(self, texts: Sequence[Passage]) -> list[Encoded]:
        """Of each text as much as the base takes at once, without an end token of ours.

        Raises:
            DataError: a text has no token that is predicted.
        """
        found = []
        for number, text in enumerate(texts):
            first, *others = self._encoder.windows([text.text])
            beyond = sum(each.learned for each in others)
            ids = first.ids if others else first.ids[:-1]
            found.append(replace(first, ids=ids, cut=max(0, beyond - 1)))
            if not found[-1].learned:
                raise DataError(f"text {number} of privleak is too short to be predicted")
        self._read += found
        return found

    def pieces(self, texts: Sequence[Passage]) -> list[Encoded]:
        """Whole texts in pieces as they are learned."""
        return self._taught.windows([each.text for each in texts])

    def lacks(self, files: str, figure: str) -> None:
        """These files are not there, and so a figure will be missing."""
        self._lacks.append(f"the benchmark has no {files} here: {figure} is not measured")

    def say(self, watch: Watch) -> None:
        """Warn of what is not there, and of what the base model does not take."""
        for each in self._lacks:
            watch.warn(each)
        limit = f"the {self._limit:,} tokens that the base model takes at once"
        say_cut(watch, self._read, f"of the benchmark are longer than {limit}", "not measured")

    def _beginning(self, text: str, tokens: int) -> str:
        """As much of a true continuation as a model is let to say."""
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
