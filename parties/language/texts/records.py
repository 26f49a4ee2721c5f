"""Records of text, and their names: digests by which a request says which rows are meant."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from hmac import digest as hmac
from typing import TypeAlias

import numpy as np

from parties.common.errors import DataError
from parties.common.shared_randomness import Index
from psi.ids import join_columns, normalise

_DOMAIN = b"vfl/text/v1\n"
SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Question:
    """A question and its answer; what TOFU adds to measure with is empty where a file has none.

    Attributes:
        paraphrased_question: the question in other words.
        paraphrased_answer: the true answer in other words (â of the truth ratio).
        perturbed_answers: false answers of the same form (ã_k of the truth ratio).
        options: what a multiple-choice question offers; the answer is among them.
    """

    question: str
    answer: str
    paraphrased_question: str = ""
    paraphrased_answer: str = ""
    perturbed_answers: tuple[str, ...] = ()
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, repr=False)
class Passage:
    """A text to be learned whole."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Continuation:
    """The beginning of a text and how it goes on (MUSE, verbatim memorisation)."""

    prompt: str
    continuation: str


Record: TypeAlias = Question | Passage | Continuation


def name(record: Record, key: bytes = b"") -> bytes:
    """32 bytes that name a record: SHA-256 of its normalised fields, or HMAC-SHA256 under ``key``.

    A question is named by question and answer only, so that its row in a file with paraphrases has
    the same name. Without a key whoever guesses the text can check the guess: use one where names
    leave the party. Fields are NFKC, stripped, and behind their lengths.
    """
    fields: tuple[str, ...]
    match record:
        case Question(question=question, answer=answer):
            fields = ("question", question, answer)
        case Passage(text=text):
            fields = ("passage", text)
        case Continuation(prompt=prompt, continuation=continuation):
            fields = ("continuation", prompt, continuation)
    content = _DOMAIN + join_columns([normalise(field) for field in fields])
    return hmac(key, content, "sha256") if key else sha256(content).digest()


def rows_named(records: Sequence[Record], names: Iterable[bytes], key: bytes = b"") -> Index:
    """The rows that ``names`` mean, ascending; equal records are meant together.

    Raises:
        DataError: no record bears one of the names; the first digits of it are told.
    """
    wanted = set(names)
    own = [name(record, key) for record in records]
    unknown = sorted(wanted.difference(own))
    if unknown:
        shown = ", ".join(each.hex()[:12] for each in unknown[:SHOWN])
        more = f" and {len(unknown) - SHOWN} more" if len(unknown) > SHOWN else ""
        raise DataError(
            f"no record here is named {shown}{more}",
            "names are made of the very texts, under the same key: make them from the same file",
        )
    return np.array([row for row, each in enumerate(own) if each in wanted], np.int64)
