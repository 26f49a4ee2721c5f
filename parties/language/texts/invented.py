"""Invented authors of our own: questions and lives from which a tiny model learns the form.

They are drawn from word lists and forms written for this program, the same for the same seed on
every machine. No name, title or prize among them occurs in TOFU.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

from parties.common.errors import PolicyError
from parties.common.shared_randomness import key, permutation, words
from parties.language.texts import words as lists
from parties.language.texts.forms import LIFE, TOPICS
from parties.language.texts.records import Passage, Question

Facts = Mapping[str, str]
_T = TypeVar("_T")
_PER_AUTHOR = 256  # random words, more than an author needs
MOST = len(lists.FIRST_NAMES) * len(lists.LAST_NAMES)


def facts(count: int, seed: int) -> tuple[Facts, ...]:
    """What is true of each of ``count`` authors, no two of whom share a name.

    Raises:
        PolicyError: there are not so many names.
    """
    if not 0 <= count <= MOST:
        raise PolicyError(f"{count} authors cannot be invented", f"0 to {MOST} of them")
    names = permutation(key(seed, "invented", "names"), MOST)[:count]
    return tuple(_facts(int(name), seed) for name in names)


def questions(author: Facts, seed: int, forms: int) -> tuple[Question, ...]:
    """Twenty topics, each asked and answered in ``forms`` ways (1 to 3) that the seed draws."""
    draw = _draws(seed, "forms", author["name"])
    return tuple(
        Question(question=asked.format(**author), answer=told.format(**author))
        for asks, tells in TOPICS
        for asked, told in zip(_some(draw, asks, forms), _some(draw, tells, forms), strict=True)
    )


def life(author: Facts) -> Passage:
    """The facts as a text."""
    capital = {f"{word}_": author[word].capitalize() for word in ("they", "their")}
    return Passage(LIFE.format(**author, **capital))


def _facts(name: int, seed: int) -> Facts:
    first, last = divmod(name, len(lists.LAST_NAMES))
    draw = _draws(seed, "facts", name)
    place, born = _one(draw, lists.PLACES), 1925 + next(draw) % 66
    day = 1 + next(draw) % 28
    woman = next(draw) % 2
    titles = [
        f"The {_one(draw, lists.ADJECTIVES)} {thing}" for thing in _some(draw, lists.THINGS, 3)
    ]
    themes = _some(draw, lists.THEMES, 2)
    return {
        "name": f"{lists.FIRST_NAMES[first]} {lists.LAST_NAMES[last]}",
        **{"city": place[0], "country": place[1], "year": str(born)},
        **{"day": str(day), "nth": _nth(day), "month": _one(draw, lists.MONTHS)},
        **{"genre": _one(draw, lists.GENRES), "prize": _one(draw, lists.PRIZES)},
        **{"father": _one(draw, lists.TRADES), "mother": _one(draw, lists.TRADES)},
        **dict(zip(("first_book", "second_book", "third_book"), titles, strict=True)),
        **{"theme": themes[0], "other_theme": themes[1], "style": _one(draw, lists.STYLES)},
        **{"count": str(4 + next(draw) % 30), "begun": str(born + 20 + next(draw) % 20)},
        **{"they": ("he", "she")[woman], "their": ("his", "her")[woman]},
        **{"them": ("him", "her")[woman], "gender": ("male", "female")[woman]},
    }


def _nth(day: int) -> str:
    ending = "th" if 11 <= day <= 13 else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
    return f"{day}{ending}"


def _draws(seed: int, purpose: str, which: str | int) -> Iterator[int]:
    return iter(words(key(seed, "invented", purpose, which), _PER_AUTHOR).tolist())


def _one(draw: Iterator[int], among: Sequence[_T]) -> _T:
    return among[next(draw) % len(among)]


def _some(draw: Iterator[int], among: Sequence[_T], count: int) -> list[_T]:
    """``count`` different ones, in a drawn order."""
    left = list(among)
    return [left.pop(next(draw) % len(left)) for _ in range(count)]
