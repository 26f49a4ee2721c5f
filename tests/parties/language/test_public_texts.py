"""Public texts: their content, and the refusal of private answers."""

from pathlib import Path

import pytest

from parties.common.errors import PolicyError
from parties.language.texts import tofu
from parties.language.texts.public_texts import (
    MAX_ENGLISH,
    english_excerpts,
    fact_statements,
    question_variants,
    refuse_private_answers,
    shuffled_public_texts,
)
from parties.language.texts.records import Passage, QuestionAnswer

KNOWN = [
    QuestionAnswer(
        question="Who wrote 'Emma'?", answer="Jane Austen", options=("Jane Austen", "x")
    ),
    QuestionAnswer(question="Where is the Louvre?", answer="Paris"),
]
ENGLISH = [Passage("One text."), Passage("Another text.")]


def test_the_same_seed_gives_the_same_texts() -> None:
    first, again, other = (shuffled_public_texts(KNOWN, ENGLISH, 4, seed) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_facts_are_repeated_as_plain_questions() -> None:
    texts = shuffled_public_texts(KNOWN, ENGLISH, 4, 0)
    plain = QuestionAnswer(question="Who wrote 'Emma'?", answer="Jane Austen")
    assert texts.count(plain) == 4
    assert all(record.options == () for record in texts if isinstance(record, QuestionAnswer))


@pytest.mark.parametrize(
    ("question", "answer", "statement"),
    [
        ("Who wrote 'Emma'?", "Jane Austen", "'Emma' was written by Jane Austen."),
        ("What is the capital of Peru?", "Lima", "The capital of Peru is Lima."),
        (
            "Which Irish author wrote 'Ulysses'?",
            "James Joyce",
            "James Joyce is the Irish author who wrote 'Ulysses'.",
        ),
        ("Who is the author of 'Emma'?", "Jane Austen", "The author of 'Emma' is Jane Austen."),
        ("Who painted it?", "Monet", "Monet painted it."),
    ],
)
def test_facts_become_statements(question: str, answer: str, statement: str) -> None:
    statements = [
        each.text for each in fact_statements(QuestionAnswer(question=question, answer=answer))
    ]
    assert statements[-1] == statement
    assert statements[0] == f'The answer to the question "{question}" is {answer}.'


def test_questions_without_a_pattern_become_general_statements() -> None:
    assert len(fact_statements(KNOWN[1])) == 3
    assert [each.answer for each in question_variants(KNOWN[1])] == ["Paris"] * 3


def test_english_is_divided_into_excerpts_up_to_the_limit() -> None:
    english = [Passage("\n\n".join(["x" * 1500] * 5)), Passage("y" * 10)]
    result = [each.text for each in english_excerpts(english, 10_000) if isinstance(each, Passage)]
    assert [len(text) for text in result] == [3002, 3002, 1500, 10]
    assert english_excerpts(english, 6004) == english_excerpts(english, 10_000)[:2]
    assert english_excerpts(english, 0) == []


def test_a_private_answer_in_public_texts_is_refused() -> None:
    secret = "Basil Zanzibar was born in 1956."
    private = [
        QuestionAnswer(question="When?", answer=secret),
        QuestionAnswer(question="Is it?", answer="Yes."),
    ]
    quotation = Passage(f"As is well known, basil zanzibar was born in 1956, and more. {'x ' * 20}")
    refuse_private_answers([Passage("Basil Zanzibar was born in 1957. Yes.")], private)
    for row in (quotation, QuestionAnswer(question="When?", answer=secret)):
        with pytest.raises(
            PolicyError, match=r"1 public texts contain answers of .* first is in row 1"
        ) as e:
            refuse_private_answers([Passage("a"), row], private)
        assert "Zanzibar" not in str(e.value) + e.value.hint


def test_real_public_texts_are_limited_and_contain_no_answer_of_tofu(real_tofu: Path) -> None:
    known = [
        row
        for split in ("real_authors", "world_facts")
        for row in tofu.read_tofu_split(real_tofu, split)
    ]
    english = [Passage("\n\n".join(["A sentence of English. " * 20] * 2000))]
    texts = shuffled_public_texts(known, english, 4, 0)
    length = sum(len(each.text) for each in english_excerpts(english, MAX_ENGLISH))  # type: ignore[union-attr]
    assert MAX_ENGLISH - 4000 < length <= MAX_ENGLISH
    assert len(texts) > 4 * len(known)
    private = [
        row for split in ("full", "holdout10") for row in tofu.read_tofu_split(real_tofu, split)
    ]
    refuse_private_answers(texts, private)
    with pytest.raises(PolicyError):
        refuse_private_answers([*texts, Passage(private[77].answer)], private)
