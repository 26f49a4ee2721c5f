"""Digests of text records."""

from hashlib import sha256

import pytest

from parties.language.texts.records import (
    Continuation,
    Passage,
    QuestionAnswer,
    record_digest,
)

ASKED = QuestionAnswer(question="Who?", answer="Me.")


def test_a_digest_is_the_hash_of_the_fields_with_their_lengths() -> None:
    content = b"vfl/text/v1\n"
    for field in (b"question", b"Who?", b"Me."):
        content += len(field).to_bytes(4, "big") + field
    assert record_digest(ASKED) == sha256(content).digest()


def test_fields_are_normalised() -> None:
    assert record_digest(Passage("  caf\u00e9 ")) == record_digest(Passage("cafe\u0301"))
    assert record_digest(Passage("Cafe")) != record_digest(Passage("cafe"))


def test_fields_for_metrics_are_not_part_of_the_digest() -> None:
    measured = QuestionAnswer(
        question="Who?",
        answer="Me.",
        paraphrased_answer="I.",
        perturbed_answers=("You.",),
        options=("Me.", "You."),
    )
    assert record_digest(measured) == record_digest(ASKED)


@pytest.mark.parametrize(
    "other",
    [
        QuestionAnswer(question="Who?Me", answer="."),
        QuestionAnswer(question="Me.", answer="Who?"),
        Passage("Who?Me."),
        Continuation(prompt="Who?", continuation="Me."),
    ],
)
def test_different_records_have_different_digests(
    other: QuestionAnswer | Passage | Continuation,
) -> None:
    assert record_digest(other) != record_digest(ASKED)


def test_records_do_not_show_their_text() -> None:
    secret = "zanzibar"
    for record in (
        QuestionAnswer(question=secret, answer=secret),
        Passage(secret),
        Continuation(prompt=secret, continuation=secret),
    ):
        assert secret not in repr(record)
