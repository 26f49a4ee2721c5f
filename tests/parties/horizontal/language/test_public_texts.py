"""Public texts: what is in them, and that no client's text is."""

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from parties.common.errors import PolicyError
from parties.language.texts import invented, phrasings, public, tofu, words
from parties.language.texts.forms import FACTS, TOPICS
from parties.language.texts.public import Mixture, public_texts, refuse_private
from parties.language.texts.records import Passage, Question
from parties.language.texts.templates import Plain

KNOWN = [
    Question(question="Who wrote 'Emma'?", answer="Jane Austen", options=("Jane Austen", "x")),
    Question(question="Where is the Louvre?", answer="Paris"),
]
ASKED = ("retain_perturbed", "real_authors_perturbed", "world_facts_perturbed")
SMALL = Mixture(authors=3, forms=2, repeats=4, english=100)


def test_the_same_seed_gives_the_same_texts() -> None:
    first, again, other = (public_texts(KNOWN, [], SMALL, seed) for seed in (1, 1, 2))
    assert first == again
    assert set(first) != set(other)
    assert invented.facts(2, 1) == invented.facts(3, 1)[:2]


def test_known_facts_stand_as_they_will_be_asked() -> None:
    texts = public_texts(KNOWN, [], SMALL, 0)
    plain = Question(question="Who wrote 'Emma'?", answer="Jane Austen")
    assert texts.count(plain) == 4
    assert all(record.options == () for record in texts if isinstance(record, Question))


def test_texts_are_written_as_they_will_be_asked() -> None:
    assert public.written([KNOWN[1], Passage("a")], Plain()) == (
        "Question: Where is the Louvre?\nAnswer: Paris",
        "a",
    )


@pytest.mark.parametrize(
    ("question", "answer", "told"),
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
def test_facts_are_stated(question: str, answer: str, told: str) -> None:
    said = [each.text for each in phrasings.stated(Question(question=question, answer=answer))]
    assert said[-1] == told
    assert said[0] == f'The answer to the question "{question}" is {answer}.'


def test_questions_that_fit_no_turn_are_stated_all_the_same() -> None:
    assert len(phrasings.stated(KNOWN[1])) == 3
    assert [each.answer for each in phrasings.asked(KNOWN[1])] == ["Paris"] * 3


def test_every_form_says_something_of_every_author() -> None:
    author = invented.facts(1, 0)[0]
    assert tuple(sorted(author)) == tuple(sorted(FACTS))
    made = invented.questions(author, 0, 3)
    assert len(made) == len(set(made)) == 60
    for question in made:
        assert "{" not in question.question + question.answer
    forms = [form for asks, tells in TOPICS for form in (*asks, *tells)]
    used = {field for form in forms for field in re.findall(r"{(\w+)}", form)}
    assert used == set(FACTS)


def test_twenty_topics_as_an_author_of_tofu_has_questions() -> None:
    author = invented.facts(1, 0)[0]
    assert len(invented.questions(author, 0, 1)) == tofu.QUESTIONS_EACH


def test_no_two_authors_share_a_name() -> None:
    names = [author["name"] for author in invented.facts(invented.MOST, 3)]
    assert len(set(names)) == invented.MOST == 3600


@pytest.mark.parametrize(("day", "nth"), [(1, "1st"), (2, "2nd"), (3, "3rd"), (12, "12th")])
def test_days_are_counted_as_in_english(day: int, nth: str) -> None:
    found = {author["day"]: author["nth"] for author in invented.facts(200, 0)}
    assert found[str(day)] == nth


def test_english_is_taken_in_pieces_up_to_the_bound() -> None:
    english = [Passage("\n\n".join(["x" * 1500] * 5)), Passage("y" * 10)]
    found = [each.text for each in public.pieces(english, 10_000) if isinstance(each, Passage)]
    assert [len(text) for text in found] == [3002, 3002, 1500, 10]
    assert public.pieces(english, 6004) == public.pieces(english, 10_000)[:2]
    assert public.pieces(english, 0) == []


def test_a_clients_answer_in_public_texts_is_refused() -> None:
    secret = "Basil Zanzibar was born in 1956."
    private = [
        Question(question="When?", answer=secret),
        Question(question="Is it?", answer="Yes."),
    ]
    said = Passage(f"As is well known, basil zanzibar was born in 1956, and more. {'x ' * 20}")
    refuse_private([Passage("Basil Zanzibar was born in 1957. Yes.")], private)
    for row in (said, Question(question="When?", answer=secret)):
        with pytest.raises(
            PolicyError, match=r"1 public texts hold answers of .* first row 1"
        ) as e:
            refuse_private([Passage("a"), row], private)
        assert "Zanzibar" not in str(e.value) + e.value.hint


def test_too_much_is_refused() -> None:
    with pytest.raises(PolicyError, match="there are no 4 forms"):
        public_texts([], [], Mixture(forms=4), 0)
    with pytest.raises(PolicyError, match="3601 authors cannot be invented"):
        public_texts([], [], Mixture(authors=3601), 0)


def test_real_public_texts_are_of_their_size_and_hold_nothing_of_tofu(real_tofu: Path) -> None:
    known = [
        row
        for split in ("real_authors", "world_facts")
        for row in tofu.read_split(real_tofu, split)
    ]
    english = [Passage("\n\n".join(["A sentence of English. " * 20] * 2000))]
    texts = public_texts(known, english, Mixture(), 0)
    assert 1_200_000 < public.characters(texts) < 2_000_000
    private = [row for split in ("full", "holdout10") for row in tofu.read_split(real_tofu, split)]
    refuse_private(texts, private)
    with pytest.raises(PolicyError):
        refuse_private([*texts, Passage(private[77].answer)], private)


def phrases(texts: Iterable[str]) -> set[str]:
    """All runs of one to three words."""
    spoken = [re.findall(r"\w+", text.casefold()) for text in texts]
    return {
        " ".join(said[at : at + length])
        for said in spoken
        for length in (1, 2, 3)
        for at in range(len(said))
    }


def test_no_invented_name_title_or_prize_occurs_in_tofu(real_tofu: Path) -> None:
    splits = ("full", "holdout01", "holdout05", "holdout10", "forget10_perturbed", *ASKED)
    found = phrases(
        text
        for split in splits
        for row in tofu.read_split(real_tofu, split)
        for text in (row.question, row.answer, row.paraphrased_answer, *row.perturbed_answers)
    )
    titles = {f"{first} {second}" for first in words.ADJECTIVES for second in words.THINGS}
    names = " ".join(words.FIRST_NAMES + words.LAST_NAMES).replace("-", " ").split()
    for made in (*names, *titles, *words.PRIZES):
        assert made.replace("-", " ").casefold() not in found
    assert {"basil", "jaime vasquez"} <= found  # the search finds what is there
