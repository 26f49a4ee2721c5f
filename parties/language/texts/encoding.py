"""From texts to token ids and labels, whatever tokenizer comes.

Prompt and reply are encoded apart and their ids joined. So the prompt of training is to the token
the prompt of generation, all answers to a question share it, and no token lies on the boundary,
which a tokenizer that merges across it would take away from the answer. Spaces at the end of the
prompt go to the reply, where most tokenizers have them ("Answer:", " Paris"): the joined ids are
then those of the whole text, except where the tokenizer merges across the boundary.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from jinja2 import TemplateError
from transformers import PreTrainedTokenizerBase

from parties.common.errors import DataError
from parties.common.shared_randomness import Index
from parties.language.texts.templates import Chat, Pair, Plain, Template

IGNORED = -100  # label of a token that no loss reads (PyTorch's ignore_index)
_PROBE = "one"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Encoded:
    """One row as tokens.

    Attributes:
        ids: [tokens].
        start: the first token that is learned; those before it are context.
        cut: tokens left out at the end to keep to the greatest length.
    """

    ids: Index
    start: int
    cut: int = 0

    @property
    def labels(self) -> Index:
        """[tokens], -100 before ``start``; a loss shifts them by one, so they are not shifted."""
        labels = self.ids.copy()
        labels[: self.start] = IGNORED
        return labels

    @property
    def prompt(self) -> Index:
        """[start], what a model is given to go on from."""
        return self.ids[: self.start]

    @property
    def learned(self) -> int:
        """How many tokens are predicted: the first of all never is, nothing stands before it."""
        return len(self.ids) - max(1, self.start)


@dataclass(frozen=True, slots=True)
class Cut:
    """What keeping to the greatest length left out."""

    rows: int
    tokens: int


def cut_from(rows: Sequence[Encoded]) -> Cut:
    """What was left out of ``rows``, to be reported."""
    return Cut(sum(row.cut > 0 for row in rows), sum(row.cut for row in rows))


@dataclass(frozen=True, slots=True, eq=False)
class Encoder:
    """A tokenizer, a template, and the greatest length of a row in tokens.

    Attributes:
        spaced: the tokenizer itself puts a space before every text (Llama 2).
    """

    tokenizer: PreTrainedTokenizerBase
    template: Template
    longest: int
    spaced: bool
    end: int

    def answers(self, pairs: Sequence[Pair], examples: Sequence[Pair] = ()) -> list[Encoded]:
        """Questions and their answers, in order; only the answer and the end token are learned.

        Raises:
            DataError: a prompt leaves no room for an answer, or a text holds a token of the chat
                template; the row is named by its place from 0.
        """
        prompts = self._prompts([question for question, _ in pairs], examples)
        replies = [answer for _, answer in pairs]
        if isinstance(self.template, Chat):
            tails = self._tails(pairs, examples, prompts)
            return self._joined(prompts, tails)
        return self._joined(prompts, replies)

    def prompts(
        self, questions: Sequence[str], examples: Sequence[Pair] = (), spare: int = 1
    ) -> list[Index]:
        """What a model is given to answer; to the token what stands before its answer in training.

        Raises:
            DataError: like ``answers``, and where no ``spare`` tokens fit after a prompt.
        """
        heads, _ = self._seams(self._prompts(questions, examples), [""] * len(questions))
        return [np.array(ids, np.int64) for ids in self._bounded(self._head_ids(heads), spare)]

    def continuations(self, pairs: Sequence[Pair], spare: int = 1) -> list[Encoded]:
        """Beginnings and how they go on; no template, no end token. Raises like ``prompts``."""
        heads, tails = self._seams([head for head, _ in pairs], [tail for _, tail in pairs])
        return self._rows(self._bounded(self._opening(heads), spare), self._plain_ids(tails))

    def windows(self, texts: Sequence[str], overlap: int = 1) -> list[Encoded]:
        """Long texts in pieces of at most ``longest`` tokens; an end token after each text.

        Each piece begins with the last ``overlap`` tokens of the piece before it, as context: with
        one or more every token but a text's first is learned exactly once. With 0 (the program of
        MUSE) the first token of each piece is not learned.

        Raises:
            DataError: the overlap leaves nothing new in a piece.
        """
        if not 0 <= overlap < self.longest:
            raise DataError(
                f"pieces of {self.longest} tokens cannot overlap by {overlap}",
                f"an overlap of 0 to {self.longest - 1}",
            )
        return [
            piece
            for ids in self._opening(texts)
            for piece in _pieces(np.array([*ids, self.end], np.int64), self.longest, overlap)
        ]

    def _prompts(self, questions: Sequence[str], examples: Sequence[Pair]) -> list[str]:
        if isinstance(self.template, Plain):
            return [self.template.prompt(question, examples) for question in questions]
        self._refuse_tokens([*questions, *(part for pair in examples for part in pair)])
        talks = [self.template.messages(question, examples) for question in questions]
        return self._rendered(talks, ask=True)

    def _tails(
        self, pairs: Sequence[Pair], examples: Sequence[Pair], prompts: Sequence[str]
    ) -> list[str]:
        """What a chat template writes after the prompt: the answer, and how it ends."""
        chat = cast(Chat, self.template)
        self._refuse_tokens([answer for _, answer in pairs])
        talks = [
            [*chat.messages(question, examples), {"role": "assistant", "content": answer}]
            for question, answer in pairs
        ]
        wholes = self._rendered(talks, ask=False)
        if not all(whole.startswith(head) for whole, head in zip(wholes, prompts, strict=True)):
            raise DataError(
                "the chat template writes a conversation with its answer otherwise than the prompt",
                "take the plain template for this tokenizer",
            )
        return [whole[len(head) :] for whole, head in zip(wholes, prompts, strict=True)]

    def _rendered(self, talks: list[list[dict[str, str]]], ask: bool) -> list[str]:
        """The conversations; without the system message where the template takes none (Gemma)."""
        try:
            return self._written(talks, ask)
        except TemplateError:
            pass
        bare = [[said for said in talk if said["role"] != "system"] for talk in talks]
        try:
            return self._written(bare, ask)
        except TemplateError:
            raise DataError(  # a template's own words may repeat a text
                "the chat template cannot write a question with its answer",
                "take the plain template for this tokenizer: model.chat = false",
            ) from None

    def _written(self, talks: list[list[dict[str, str]]], ask: bool) -> list[str]:
        chat = cast(Chat, self.template)
        made = self.tokenizer.apply_chat_template(
            talks, tokenize=False, add_generation_prompt=ask, date_string=chat.date
        )
        return cast(list[str], made)

    def _refuse_tokens(self, texts: Sequence[str]) -> None:
        """In a chat a special token inside a text would end the answer or speak for another."""
        special = [token for token in self.tokenizer.all_special_tokens if token]
        for row, text in enumerate(texts):
            if any(token in text for token in special):
                raise DataError(
                    f"text {row} holds a special token of the tokenizer",
                    "remove it from the text, or take the plain template",
                )

    def _joined(self, prompts: Sequence[str], replies: Sequence[str]) -> list[Encoded]:
        heads, tails = self._seams(prompts, replies)
        chat = isinstance(self.template, Chat)
        ids = self._special_ids(tails) if chat else self._plain_ids(tails)
        return self._rows(self._bounded(self._head_ids(heads)), [self._ended(each) for each in ids])

    def _ended(self, tail: list[int]) -> list[int]:
        """An answer up to its end token: templates like ChatML's write a line break after it."""
        if self.end not in tail:
            return [*tail, self.end]
        return tail[: len(tail) - tail[::-1].index(self.end)]

    def _seams(self, prompts: Sequence[str], replies: Sequence[str]) -> tuple[list[str], list[str]]:
        """Spaces at the end of the prompt go to the reply; one of them the tokenizer may add."""
        heads = [prompt.rstrip(" ") for prompt in prompts]
        tails = [
            prompt[len(head) :] + reply
            for prompt, head, reply in zip(prompts, heads, replies, strict=True)
        ]
        return heads, [tail.removeprefix(" ") for tail in tails] if self.spaced else tails

    def _rows(self, heads: list[list[int]], tails: list[list[int]]) -> list[Encoded]:
        rows = []
        for head, tail in zip(heads, tails, strict=True):
            ids = np.array([*head, *tail], np.int64)
            rows.append(
                Encoded(ids[: self.longest], len(head), cut=max(0, len(ids) - self.longest))
            )
        return rows

    def _bounded(self, heads: list[list[int]], spare: int = 1) -> list[list[int]]:
        for row, head in enumerate(heads):
            if len(head) + spare > self.longest:
                raise DataError(
                    f"the prompt of row {row} has {len(head)} tokens, and an answer of {spare} or "
                    f"more does not fit beside it into {self.longest}",
                    "a greater model.length, or for a benchmark a base model that takes more",
                )
        return heads

    def _head_ids(self, heads: Sequence[str]) -> list[list[int]]:
        return self._special_ids(heads) if isinstance(self.template, Chat) else self._opening(heads)

    def _opening(self, texts: Sequence[str]) -> list[list[int]]:
        """Texts that begin a row: with what the tokenizer puts there, but not what it ends with."""
        ids = _ids(self.tokenizer, texts, add_special_tokens=True, split_special_tokens=True)
        return [one[:-1] if one[-1:] == [self.end] else one for one in ids]

    def _plain_ids(self, texts: Sequence[str]) -> list[list[int]]:
        return _ids(self.tokenizer, texts, add_special_tokens=False, split_special_tokens=True)

    def _special_ids(self, texts: Sequence[str]) -> list[list[int]]:
        return _ids(self.tokenizer, texts, add_special_tokens=False, split_special_tokens=False)


def encoder(tokenizer: PreTrainedTokenizerBase, template: Template, longest: int) -> Encoder:
    """An encoder of rows of at most ``longest`` tokens.

    Raises:
        DataError: the tokenizer has no end token, or no chat template where one is wanted.
    """
    if tokenizer.eos_token_id is None:
        raise DataError(
            "the tokenizer has no end token, so no answer would end",
            "set eos_token in tokenizer_config.json",
        )
    if isinstance(template, Chat) and tokenizer.chat_template is None:
        raise DataError("the tokenizer has no chat template", "take the plain template")
    tokens = tokenizer.convert_ids_to_tokens(_bare(tokenizer, _PROBE))
    spaced = not tokens[0].startswith(_PROBE[0])
    return Encoder(tokenizer, template, longest, spaced, int(cast(Any, tokenizer.eos_token_id)))


def _bare(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    return _ids(tokenizer, [text], add_special_tokens=False, split_special_tokens=True)[0]


def _ids(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], **how: bool) -> list[list[int]]:
    if not texts:
        return []
    return cast(list[list[int]], tokenizer(list(texts), verbose=False, **how)["input_ids"])


def _pieces(ids: Index, longest: int, overlap: int) -> list[Encoded]:
    starts = range(0, max(1, len(ids) - overlap), longest - overlap)
    return [Encoded(ids[at : at + longest], overlap if at else 0) for at in starts]
