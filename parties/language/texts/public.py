"""Public texts: what a tiny model may learn before it sees anything that can be forgotten.

Three parts. Known facts: TOFU's real authors and world facts, which Model Utility asks for and no
client is asked to forget; a pre-trained model brings them, a tiny one must be told. Invented
authors of our own, from whom it learns what such questions and answers look like. And English
from files that the user gives. None of it may hold what clients hold: ``refuse_private`` checks.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from parties.common.errors import PolicyError
from parties.common.shared_randomness import key, permutation
from parties.language.texts import invented
from parties.language.texts.phrasings import asked, stated
from parties.language.texts.records import Passage, Question
from parties.language.texts.templates import Plain

Public: TypeAlias = Question | Passage
PIECE = 2000  # characters of a piece of English, about
_SHINGLE = 5  # words; a shorter answer is never found


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixture:
    """How much there is of what; the defaults make a million characters without English.

    Attributes:
        authors: invented authors, of about 5,300 characters each with two forms.
        forms: ways in which each of their twenty topics is asked and answered, 1 to 3.
        repeats: how often each known question stands as it will be asked.
        english: characters of English at most, from the beginning of the files.
    """

    authors: int = 160
    forms: int = 2
    repeats: int = 4
    english: int = 500_000


def public_texts(
    known: Sequence[Question], english: Sequence[Passage], mixture: Mixture, seed: int
) -> tuple[Public, ...]:
    """All of it in one order that the seed draws.

    Raises:
        PolicyError: the mixture asks for more authors or forms than there are.
    """
    if not 1 <= mixture.forms <= 3:
        raise PolicyError(f"there are no {mixture.forms} forms of a topic", "1 to 3 of them")
    rows = [
        *known_texts(known, mixture.repeats),
        *invented_texts(mixture, seed),
        *pieces(english, mixture.english),
    ]
    order = permutation(key(seed, "public", "order"), len(rows))
    return tuple(rows[at] for at in order.tolist())


def known_texts(known: Sequence[Question], repeats: int) -> list[Public]:
    """Each fact ``repeats`` times as it will be asked, and once in every other phrasing."""
    plain = [Question(question=each.question, answer=each.answer) for each in known]
    rows: list[Public] = [each for each in plain for _ in range(repeats)]
    for each in plain:
        rows += [*asked(each), *stated(each)]
    return rows


def invented_texts(mixture: Mixture, seed: int) -> list[Public]:
    """Questions and the lives of the invented authors."""
    rows: list[Public] = []
    for author in invented.facts(mixture.authors, seed):
        rows += [*invented.questions(author, seed, mixture.forms), invented.life(author)]
    return rows


def pieces(english: Sequence[Passage], most: int) -> list[Public]:
    """Paragraphs joined to pieces of about ``PIECE`` characters, until there are ``most``."""
    found: list[Public] = []
    taken = 0
    for piece in _pieces(english):
        if taken + len(piece) > most:
            break
        found.append(Passage(piece))
        taken += len(piece)
    return found


def refuse_private(public: Sequence[Public], private: Sequence[Question]) -> None:
    """Refuse public texts in which an answer that a client holds stands word for word.

    Answers of fewer than five words are not looked for: "Yes, she did." is nobody's.

    Raises:
        PolicyError: one does; rows are counted from 0 and no text is told.
    """
    begins = defaultdict[tuple[str, ...], list[tuple[str, ...]]](list)
    for row in private:
        answer = _words(row.answer)
        begins[answer[:_SHINGLE]].append(answer)
    guilty = [at for at, text in enumerate(map(_text, public)) if _holds(_words(text), begins)]
    if guilty:
        raise PolicyError(
            f"{len(guilty)} public texts hold answers of clients, first row {guilty[0]}",
            "public texts are learned by everybody and never forgotten: take those files out",
        )


def written(public: Sequence[Public], template: Plain) -> tuple[str, ...]:
    """The texts as they are learned: questions as the template writes them, passages as they are.

    A tokenizer is trained on these, and a model pre-trained on their windows.
    """
    return tuple(_written(record, template) for record in public)


def characters(public: Sequence[Public]) -> int:
    """How much text it is, without what a template adds."""
    return sum(len(_text(record)) for record in public)


def _holds(found: tuple[str, ...], begins: dict[tuple[str, ...], list[tuple[str, ...]]]) -> bool:
    return any(
        found[at : at + len(answer)] == answer
        for at in range(len(found) - _SHINGLE + 1)
        for answer in begins.get(found[at : at + _SHINGLE], ())
    )


def _words(text: str) -> tuple[str, ...]:
    kept = "".join(letter if letter.isalnum() else " " for letter in text.casefold())
    return tuple(kept.split())


def _written(record: Public, template: Plain) -> str:
    if isinstance(record, Passage):
        return record.text
    return template.prompt(record.question) + record.answer


def _text(record: Public) -> str:
    if isinstance(record, Passage):
        return record.text
    return f"{record.question}\n{record.answer}"


def _pieces(english: Sequence[Passage]) -> Iterator[str]:
    for passage in english:
        piece = ""
        for paragraph in passage.text.split("\n\n"):
            piece = f"{piece}\n\n{paragraph}".strip()
            if len(piece) >= PIECE:
                yield piece
                piece = ""
        if piece:
            yield piece
