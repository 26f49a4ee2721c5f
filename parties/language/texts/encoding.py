"""Tokenisation: token ids and labels of texts, for any tokenizer.

A prompt and its reply are encoded separately; then their token ids are joined. Therefore a prompt
has the same tokens in training and in generation. All answers to one question share the tokens of
the prompt, and no token crosses the boundary between prompt and answer. Spaces at the end of the
prompt are moved to the start of the reply ("Answer:", " Paris"), because most tokenizers join a
space with the next word. The joined ids then equal the ids of the whole text, except for tokenizers
that merge words across the boundary.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from jinja2 import TemplateError
from transformers import PreTrainedTokenizerBase

from parties.common.errors import DataError
from parties.common.shared_randomness import Index
from parties.language.texts.templates import ChatTemplate, PlainTemplate, QuestionPair, Template

IGNORED_LABEL = -100  # label of a token without a loss (PyTorch's ignore_index)
_PROBE = "one"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class EncodedText:
    """One row of token ids."""

    ids: Index  # token ids, ``[tokens]``
    start: int  # index of the first token with a label; earlier tokens are only input
    cut: int = 0  # number of tokens that were removed from the end because the row was too long

    @property
    def labels(self) -> Index:
        """Labels, ``[tokens]``: -100 before ``start``.

        The loss compares the output at each token with the label of the next token.
        """
        labels = self.ids.copy()
        labels[: self.start] = IGNORED_LABEL
        return labels

    @property
    def prompt(self) -> Index:
        """The tokens before the first label, ``[start]``: the prompt for generation."""
        return self.ids[: self.start]

    @property
    def predicted(self) -> int:
        """Number of tokens with a loss. The first token of a row is never predicted."""
        return len(self.ids) - max(1, self.start)


@dataclass(frozen=True, slots=True)
class Truncation:
    """Number of truncated rows, and number of removed tokens."""

    rows: int
    tokens: int


def count_truncated(rows: Sequence[EncodedText]) -> Truncation:
    """Count the truncated rows, and the tokens that were removed from these rows."""
    return Truncation(sum(row.cut > 0 for row in rows), sum(row.cut for row in rows))


@dataclass(frozen=True, slots=True, eq=False)
class TextEncoder:
    """A tokenizer with a prompt template and a maximum length."""

    tokenizer: PreTrainedTokenizerBase  # tokenizer of the base model
    template: Template  # prompt template
    longest: int  # maximum number of tokens in a row
    spaced: bool  # true if the tokenizer adds a space before every text (Llama 2)
    end: int  # id of the end token

    def answers(
        self, pairs: Sequence[QuestionPair], examples: Sequence[QuestionPair] = ()
    ) -> list[EncodedText]:
        """Encode questions with their answers; only the answer and the end token have labels.

        Raises:
            DataError: a prompt reaches the maximum length, so that no token remains for the answer,
                or a text contains a special token of the chat template. The message names the
                number of the faulty row, counted from 0.
        """
        prompts = self._prompts([question for question, _ in pairs], examples)
        replies = [answer for _, answer in pairs]
        if isinstance(self.template, ChatTemplate):
            tails = self._tails(pairs, examples, prompts)
            return self._joined(prompts, tails)
        return self._joined(prompts, replies)

    def prompts(
        self, questions: Sequence[str], examples: Sequence[QuestionPair] = (), spare: int = 1
    ) -> list[Index]:
        """Encode questions as prompts for generation, ``[tokens]`` each.

        In training, the same tokens precede the answer.

        Raises:
            DataError: a prompt leaves fewer than ``spare`` tokens for the answer, or a text
                contains a special token of the chat template.
        """
        heads, _ = self._seams(self._prompts(questions, examples), [""] * len(questions))
        return [np.array(ids, np.int64) for ids in self._bounded(self._head_ids(heads), spare)]

    def continuations(self, pairs: Sequence[QuestionPair], spare: int = 1) -> list[EncodedText]:
        """Encode beginnings of texts with their continuations, without template and end token.

        Raises:
            DataError: a beginning leaves fewer than ``spare`` tokens for the continuation.
        """
        heads, tails = self._seams([head for head, _ in pairs], [tail for _, tail in pairs])
        return self._rows(self._bounded(self._opening(heads), spare), self._plain_ids(tails))

    def windows(self, texts: Sequence[str], overlap: int = 1) -> list[EncodedText]:
        """Encode long texts as windows of at most ``longest`` tokens; each text has an end token.

        Each window after the first begins with the last ``overlap`` tokens of the previous window;
        these tokens are only input. With an overlap of 1 or more, every token except the first of
        a text is predicted exactly once. With an overlap of 0, as in MUSE's code, the first token
        of a window is not predicted.

        Raises:
            DataError: the overlap is negative, or as long as a window.
        """
        if not 0 <= overlap < self.longest:
            raise DataError(
                f"windows of {self.longest} tokens cannot overlap by {overlap} tokens",
                f"choose an overlap from 0 to {self.longest - 1}",
            )
        return [
            window
            for ids in self._opening(texts)
            for window in _windows(np.array([*ids, self.end], np.int64), self.longest, overlap)
        ]

    def _prompts(self, questions: Sequence[str], examples: Sequence[QuestionPair]) -> list[str]:
        if isinstance(self.template, PlainTemplate):
            return [self.template.prompt(question, examples) for question in questions]
        self._refuse_special_tokens([*questions, *(part for pair in examples for part in pair)])
        chats = [self.template.messages(question, examples) for question in questions]
        return self._rendered(chats, ask=True)

    def _tails(
        self,
        pairs: Sequence[QuestionPair],
        examples: Sequence[QuestionPair],
        prompts: Sequence[str],
    ) -> list[str]:
        """Text of a chat template after the prompt: the answer and its end."""
        chat = cast(ChatTemplate, self.template)
        self._refuse_special_tokens([answer for _, answer in pairs])
        chats = [
            [*chat.messages(question, examples), {"role": "assistant", "content": answer}]
            for question, answer in pairs
        ]
        wholes = self._rendered(chats, ask=False)
        if not all(whole.startswith(head) for whole, head in zip(wholes, prompts, strict=True)):
            raise DataError(
                "the chat template renders a prompt differently if an answer follows, so training "
                "and generation would use different prompts",
                "set model.chat = false to use the plain template with this tokenizer",
            )
        return [whole[len(head) :] for whole, head in zip(wholes, prompts, strict=True)]

    def _rendered(self, chats: list[list[dict[str, str]]], ask: bool) -> list[str]:
        """Render conversations; without system messages if the template refuses them (Gemma)."""
        try:
            return self._apply_template(chats, ask)
        except TemplateError:
            pass
        bare = [[message for message in chat if message["role"] != "system"] for chat in chats]
        try:
            return self._apply_template(bare, ask)
        except TemplateError:
            raise DataError(  # without the template's own message, which may repeat a text
                "the chat template cannot render a question with its answer",
                "set model.chat = false to use the plain template with this tokenizer",
            ) from None

    def _apply_template(self, chats: list[list[dict[str, str]]], ask: bool) -> list[str]:
        chat = cast(ChatTemplate, self.template)
        rendered = self.tokenizer.apply_chat_template(
            chats, tokenize=False, add_generation_prompt=ask, date_string=chat.date
        )
        return cast(list[str], rendered)

    def _refuse_special_tokens(self, texts: Sequence[str]) -> None:
        """In a chat, a special token inside a text could end the answer or change the speaker."""
        special = [token for token in self.tokenizer.all_special_tokens if token]
        for row, text in enumerate(texts):
            if any(token in text for token in special):
                raise DataError(
                    f"text {row} contains a special token of the tokenizer",
                    "remove the token from the text, or set model.chat = false to use the plain "
                    "template",
                )

    def _joined(self, prompts: Sequence[str], replies: Sequence[str]) -> list[EncodedText]:
        heads, tails = self._seams(prompts, replies)
        chat = isinstance(self.template, ChatTemplate)
        ids = self._special_ids(tails) if chat else self._plain_ids(tails)
        return self._rows(self._bounded(self._head_ids(heads)), [self._ended(each) for each in ids])

    def _ended(self, tail: list[int]) -> list[int]:
        """An answer up to its end token; templates such as ChatML's add a line break after it."""
        if self.end not in tail:
            return [*tail, self.end]
        return tail[: len(tail) - tail[::-1].index(self.end)]

    def _seams(self, prompts: Sequence[str], replies: Sequence[str]) -> tuple[list[str], list[str]]:
        """Move spaces from the end of a prompt to its reply, less the one the tokenizer adds."""
        heads = [prompt.rstrip(" ") for prompt in prompts]
        tails = [
            prompt[len(head) :] + reply
            for prompt, head, reply in zip(prompts, heads, replies, strict=True)
        ]
        return heads, [tail.removeprefix(" ") for tail in tails] if self.spaced else tails

    def _rows(self, heads: list[list[int]], tails: list[list[int]]) -> list[EncodedText]:
        rows = []
        for head, tail in zip(heads, tails, strict=True):
            ids = np.array([*head, *tail], np.int64)
            rows.append(
                EncodedText(ids[: self.longest], len(head), cut=max(0, len(ids) - self.longest))
            )
        return rows

    def _bounded(self, heads: list[list[int]], spare: int = 1) -> list[list[int]]:
        for row, head in enumerate(heads):
            if len(head) + spare > self.longest:
                raise DataError(
                    f"the prompt of row {row} has {len(head)} tokens; expected at most "
                    f"{self.longest - spare}, because {spare} of {self.longest} tokens are "
                    "reserved for the answer",
                    "increase model.length; for a benchmark, use a base model with a longer "
                    "context",
                )
        return heads

    def _head_ids(self, heads: Sequence[str]) -> list[list[int]]:
        is_chat = isinstance(self.template, ChatTemplate)
        return self._special_ids(heads) if is_chat else self._opening(heads)

    def _opening(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of texts that begin a row: with the begin token, without the end token."""
        ids = _ids(self.tokenizer, texts, add_special_tokens=True, split_special_tokens=True)
        return [one[:-1] if one[-1:] == [self.end] else one for one in ids]

    def _plain_ids(self, texts: Sequence[str]) -> list[list[int]]:
        return _ids(self.tokenizer, texts, add_special_tokens=False, split_special_tokens=True)

    def _special_ids(self, texts: Sequence[str]) -> list[list[int]]:
        return _ids(self.tokenizer, texts, add_special_tokens=False, split_special_tokens=False)


def build_encoder(
    tokenizer: PreTrainedTokenizerBase, template: Template, longest: int
) -> TextEncoder:
    """Return an encoder for rows of at most ``longest`` tokens.

    Raises:
        DataError: the tokenizer has no end token, or ``template`` is a ``ChatTemplate`` but the
            tokenizer has no chat template.
    """
    if tokenizer.eos_token_id is None:
        raise DataError(
            "the tokenizer has no end token, but every answer must end with an end token",
            "set eos_token in tokenizer_config.json",
        )
    if isinstance(template, ChatTemplate) and tokenizer.chat_template is None:
        raise DataError(
            "the tokenizer has no chat template",
            "set model.chat = false to use the plain template",
        )
    ids = _ids(tokenizer, [_PROBE], add_special_tokens=False, split_special_tokens=True)[0]
    tokens = tokenizer.convert_ids_to_tokens(ids)
    spaced = not tokens[0].startswith(_PROBE[0])
    return TextEncoder(tokenizer, template, longest, spaced, int(cast(Any, tokenizer.eos_token_id)))


def _ids(
    tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], **options: bool
) -> list[list[int]]:
    if not texts:
        return []
    return cast(list[list[int]], tokenizer(list(texts), verbose=False, **options)["input_ids"])


def _windows(ids: Index, longest: int, overlap: int) -> list[EncodedText]:
    starts = range(0, max(1, len(ids) - overlap), longest - overlap)
    return [EncodedText(ids[at : at + longest], overlap if at else 0) for at in starts]
