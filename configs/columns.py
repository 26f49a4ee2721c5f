"""The agreed columns of a horizontal run: their order, ranges and vocabularies."""

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Final, Self

from pydantic import Field, model_validator

from configs.table import ConfigTable

LONGEST_WORD: Final = 1000  # characters of a category
MOST_WORDS: Final = 1000  # categories of a column

ColumnName = Annotated[str, Field(min_length=1, max_length=1000)]
Word = Annotated[str, Field(min_length=1, max_length=LONGEST_WORD)]
Vocabulary = Annotated[tuple[Word, ...], Field(min_length=1, max_length=MOST_WORDS)]


class AgreedColumn(ConfigTable):
    """A column that the table of every client has: numbers with a range, or texts."""

    name: ColumnName  # name of the column in the clients' tables
    # Numeric column: the values that are mapped to -1 and 1.
    range: tuple[float, float] | None = None
    # Categorical column: its categories; another text is encoded as zeros.
    vocabulary: Vocabulary | None = None

    @property
    def width(self) -> int:
        """Number of values of the column in a row: 1, or one per category and one for absent."""
        return 1 if self.vocabulary is None else len(self.vocabulary) + 1

    @model_validator(mode="after")
    def _is_numeric_or_categorical(self) -> Self:
        if (self.range is None) is (self.vocabulary is None):
            raise ValueError(
                f"column {self.name!r} needs the key 'range' (numbers) or the key 'vocabulary' "
                "(texts), and not both"
            )
        if self.range is not None and not self.range[0] < self.range[1]:
            raise ValueError(f"the range of {self.name!r} must be [low, high] with low < high")
        if self.vocabulary is not None and (twice := _repeated(self.vocabulary)):
            raise ValueError(f"the vocabulary of {self.name!r} repeats {', '.join(twice)}")
        return self


def width_of(columns: Sequence[AgreedColumn]) -> int:
    """Return the number of values in one row with these columns; a name occurs only once.

    Raises:
        ValueError: two columns have the same name.
    """
    twice = _repeated([each.name for each in columns])
    if twice:
        raise ValueError(f"columns lists {', '.join(twice)} more than once: remove one entry")
    return sum(each.width for each in columns)


def _repeated(texts: Sequence[str]) -> list[str]:
    return [repr(text) for text, count in Counter(texts).items() if count > 1]
