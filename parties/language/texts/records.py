"""Text records (question with answer, passage, continuation) and their digests."""

from dataclasses import dataclass
from hashlib import sha256
from typing import TypeAlias

from psi.ids import join_columns, normalise

_DOMAIN = b"vfl/text/v1\n"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class QuestionAnswer:
    """A question and its answer, with additional fields for the metrics of TOFU."""

    question: str  # the question
    answer: str  # the true answer
    # The question in other words; empty if the file has no paraphrase.
    paraphrased_question: str = ""
    # The true answer in other words (â in the truth ratio); empty if the file has no paraphrase.
    paraphrased_answer: str = ""
    # False answers of the same form (ã_k in the truth ratio); empty if the file has no false
    # answers.
    perturbed_answers: tuple[str, ...] = ()
    # Options of a multiple-choice question, including the answer; otherwise empty.
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, repr=False)
class Passage:
    """A text without a prompt: training uses all tokens of the text."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Continuation:
    """The beginning of a text and its continuation (MUSE, verbatim memorisation)."""

    prompt: str
    continuation: str


TextRecord: TypeAlias = QuestionAnswer | Passage | Continuation


def record_digest(record: TextRecord) -> bytes:
    """Return the SHA-256 digest of the record's normalised fields, 32 bytes.

    The digest of a question covers only the question and the answer. Therefore a question has the
    same digest with and without paraphrases. Fields are normalised (NFKC, stripped) and joined;
    each field is preceded by its length.
    """
    fields: tuple[str, ...]
    match record:
        case QuestionAnswer(question=question, answer=answer):
            fields = ("question", question, answer)
        case Passage(text=text):
            fields = ("passage", text)
        case Continuation(prompt=prompt, continuation=continuation):
            fields = ("continuation", prompt, continuation)
    return sha256(_DOMAIN + join_columns([normalise(field) for field in fields])).digest()
