"""Public texts for the pre-training of a tiny base model.

Public texts consist of known facts and plain English text. The known facts are TOFU's questions
about real authors and world facts. Such facts also occur in the pre-training texts of real base
models. The metric Model Utility measures whether a model knows these facts. No unlearning request
concerns these facts. ``refuse_private_answers`` checks that public texts contain no private
answer of a client.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from parties.common.errors import PolicyError
from parties.common.shared_randomness import derive_key, permutation
from parties.language.texts.records import Passage, QuestionAnswer

PublicText: TypeAlias = QuestionAnswer | Passage
EXCERPT_LENGTH = 2000  # approximate number of characters of an excerpt
MAX_ENGLISH = 500_000  # maximum number of characters of plain English
_SHINGLE = 5  # words of the start of an answer by which it is searched
_QUESTIONS = (
    "Please answer this question: {question}",
    "Do you know the answer? {question}",
    "{question} Answer briefly.",
)
_STATEMENTS = (
    'The answer to the question "{question}" is {answer}.',
    "{question} The answer is {answer}.",
    "{question} It is {answer}.",
)
# Patterns of questions, each with the statement that results from the answer; the first match wins.
_TURNED = tuple(
    (re.compile(pattern), statement)
    for pattern, statement in (
        (r"Who (?:wrote|authored) (.+)\?", r"{0} was written by {answer}."),
        (r"Who is the author of (.+)\?", r"The author of {0} is {answer}."),
        (r"(?:What|Who) (is|was|are|were) (the .+)\?", r"{1} {0} {answer}."),
        (r"Which (.+?) (author|writer|poet|novelist) (.+)\?", r"{answer} is the {0} {1} who {2}."),
        (r"Which (author|writer|poet|novelist) (.+)\?", r"{answer} is the {0} who {1}."),
        (r"Who (.+)\?", r"{answer} {0}."),
        (r"(The .+) (is|was)(?: known as)?\?", r"{0} {1} {answer}."),
    )
)


def shuffled_public_texts(
    facts: Sequence[QuestionAnswer], english: Sequence[Passage], repeats: int, seed: int
) -> tuple[PublicText, ...]:
    """Return facts and excerpts of English texts, shuffled together.

    Args:
        facts: known questions with their answers.
        english: English texts; at most ``MAX_ENGLISH`` characters of these texts are used.
        repeats: how often each fact is repeated as a plain question.
        seed: seed of the order.
    """
    rows = [*fact_texts(facts, repeats), *english_excerpts(english, MAX_ENGLISH)]
    order = permutation(derive_key(seed, "public", "order"), len(rows))
    return tuple(rows[at] for at in order.tolist())


def fact_texts(facts: Sequence[QuestionAnswer], repeats: int) -> list[PublicText]:
    """Return each fact ``repeats`` times as a plain question, and once in each other form."""
    plain = [QuestionAnswer(question=each.question, answer=each.answer) for each in facts]
    rows: list[PublicText] = [each for each in plain for _ in range(repeats)]
    for each in plain:
        rows += [*question_variants(each), *fact_statements(each)]
    return rows


def question_variants(fact: QuestionAnswer) -> tuple[QuestionAnswer, ...]:
    """Return variants of the fact's question with added words, each with the fact's answer."""
    return tuple(
        QuestionAnswer(question=form.format(question=fact.question), answer=fact.answer)
        for form in _QUESTIONS
    )


def fact_statements(fact: QuestionAnswer) -> tuple[Passage, ...]:
    """Return the fact as statements; most of them quote the question, and one may rephrase it."""
    general = [form.format(question=fact.question, answer=fact.answer) for form in _STATEMENTS]
    return tuple(map(Passage, [*general, *_turned(fact)]))


def english_excerpts(english: Sequence[Passage], most: int) -> list[PublicText]:
    """Return excerpts of about ``EXCERPT_LENGTH`` characters; ``most`` limits the total length.

    An excerpt consists of whole paragraphs.
    """
    found: list[PublicText] = []
    taken = 0
    for excerpt in _excerpts(english):
        if taken + len(excerpt) > most:
            break
        found.append(Passage(excerpt))
        taken += len(excerpt)
    return found


def refuse_private_answers(public: Sequence[PublicText], private: Sequence[QuestionAnswer]) -> None:
    """Refuse public texts that contain a private answer word for word.

    Public texts are not searched for answers of fewer than five words, because such short answers
    identify nothing ("Yes, she did.").

    Raises:
        PolicyError: a public text contains a private answer. The message contains the row number,
            counted from 0, but no text.
    """
    begins = defaultdict[tuple[str, ...], list[tuple[str, ...]]](list)
    for row in private:
        answer = _words(row.answer)
        begins[answer[:_SHINGLE]].append(answer)
    guilty = [at for at, text in enumerate(map(_text, public)) if _contains(_words(text), begins)]
    if guilty:
        raise PolicyError(
            f"{len(guilty)} public texts contain answers of clients; the first is in row "
            f"{guilty[0]}",
            "remove the files with these texts, because public texts are never forgotten",
        )


def _turned(fact: QuestionAnswer) -> list[str]:
    """The statement from the question's own words; none if no pattern matches."""
    for pattern, statement in _TURNED:
        found = pattern.fullmatch(fact.question)
        if found:
            line = statement.format(*found.groups(), answer=fact.answer)
            return [line[0].upper() + line[1:]]
    return []


def _contains(found: tuple[str, ...], begins: dict[tuple[str, ...], list[tuple[str, ...]]]) -> bool:
    return any(
        found[at : at + len(answer)] == answer
        for at in range(len(found) - _SHINGLE + 1)
        for answer in begins.get(found[at : at + _SHINGLE], ())
    )


def _words(text: str) -> tuple[str, ...]:
    kept = "".join(letter if letter.isalnum() else " " for letter in text.casefold())
    return tuple(kept.split())


def _text(record: PublicText) -> str:
    if isinstance(record, Passage):
        return record.text
    return f"{record.question}\n{record.answer}"


def _excerpts(english: Sequence[Passage]) -> Iterator[str]:
    for passage in english:
        excerpt = ""
        for paragraph in passage.text.split("\n\n"):
            excerpt = f"{excerpt}\n\n{paragraph}".strip()
            if len(excerpt) >= EXCERPT_LENGTH:
                yield excerpt
                excerpt = ""
        if excerpt:
            yield excerpt
