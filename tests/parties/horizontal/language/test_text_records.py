"""Records of text and the names by which requests mean them."""

import hmac
from hashlib import sha256

import pytest

from parties.common.errors import DataError
from parties.language.texts.records import (
    Continuation,
    Passage,
    Question,
    name,
    rows_named,
)

ASKED = Question(question="Who?", answer="Me.")


def test_a_name_is_the_hash_of_the_fields_behind_their_lengths() -> None:
    content = b"vfl/text/v1\n"
    for field in (b"question", b"Who?", b"Me."):
        content += len(field).to_bytes(4, "big") + field
    assert name(ASKED) == sha256(content).digest()
    assert name(ASKED, b"key") == hmac.digest(b"key", content, "sha256")


def test_a_name_is_of_the_normal_form() -> None:
    assert name(Passage("  caf\u00e9 ")) == name(Passage("cafe\u0301"))
    assert name(Passage("Cafe")) != name(Passage("cafe"))


def test_what_a_file_adds_to_measure_with_is_no_part_of_the_name() -> None:
    measured = Question(
        question="Who?",
        answer="Me.",
        paraphrased_answer="I.",
        perturbed_answers=("You.",),
        options=("Me.", "You."),
    )
    assert name(measured) == name(ASKED)


@pytest.mark.parametrize(
    "other",
    [
        Question(question="Who?Me", answer="."),
        Question(question="Me.", answer="Who?"),
        Passage("Who?Me."),
        Continuation(prompt="Who?", continuation="Me."),
    ],
)
def test_other_records_have_other_names(other: Question | Passage | Continuation) -> None:
    assert name(other) != name(ASKED)
    assert name(other) != name(other, b"key")


def test_equal_records_are_meant_together() -> None:
    rows = [ASKED, Passage("a"), ASKED, Passage("b")]
    assert rows_named(rows, [name(ASKED), name(Passage("b"))]).tolist() == [0, 2, 3]
    assert rows_named(rows, [], b"key").tolist() == []


def test_a_name_under_another_key_is_refused() -> None:
    wrong = name(ASKED, b"other")
    with pytest.raises(DataError, match=f"no record here is named {wrong.hex()[:12]}") as error:
        rows_named([ASKED], [wrong], b"key")
    assert "same key" in error.value.hint


def test_records_do_not_show_their_text() -> None:
    secret = "zanzibar"
    for record in (
        Question(question=secret, answer=secret),
        Passage(secret),
        Continuation(prompt=secret, continuation=secret),
    ):
        assert secret not in repr(record)
