"""Comparison of the agreed columns and classes with a client's own, field by field."""

from collections.abc import Sequence
from dataclasses import dataclass

from configs.columns import AgreedColumn
from parties.cli.setup.clients.proposal import (
    MIN_ROWS,
    ColumnValues,
    few_numbers,
    plain_number,
    refuse_large_vocabulary,
)
from parties.data.sources.csv_source import toml_text


@dataclass(frozen=True, slots=True)
class FieldComparison:
    """One field of the agreement beside the client's rows.

    Attributes:
        field: name of the field: a column, or the classes.
        agreed: its range, vocabulary or classes in the agreement.
        widened: the same, widened so that it covers the client's rows.
        rare: number of texts that are not agreed, and that too few rows have to propose them.
    """

    field: str
    agreed: str
    widened: str
    rare: int = 0

    @property
    def covers(self) -> bool:
        """Whether the agreement covers the client's rows as it is."""
        return self.agreed == self.widened


def widened_column(agreed: AgreedColumn, own: ColumnValues) -> AgreedColumn:
    """Return the agreed column, widened so that it covers the client's frequent values.

    An agreed end of a range stays where it covers the client's numbers. New categories follow the
    agreed ones, so the places of the agreed categories stay.

    Args:
        agreed: the agreed column.
        own: what the client's rows show of the column.

    Raises:
        DataError: the column has too few numbers outside its range, or too many or too long texts.
    """
    if agreed.range is None:
        known = agreed.vocabulary or ()
        new = own.frequent(known)
        hint = "shorten the texts, write them as agreed, or agree on other columns"
        refuse_large_vocabulary(agreed.name, (*known, *new), hint)
        return agreed.model_copy(update={"vocabulary": (*known, *new)})
    low, high = agreed.range
    if own.range is None or own.ends is None or (low <= own.ends[0] and own.ends[1] <= high):
        return agreed
    if own.present < MIN_ROWS:
        raise few_numbers(own, "widen the range in the agreement by hand, or use more rows")
    low = min(low, own.range[0]) if own.ends[0] < low else low
    high = max(high, own.range[1]) if own.ends[1] > high else high
    return agreed.model_copy(update={"range": (low, high)})


def compare_column(agreed: AgreedColumn, own: ColumnValues) -> tuple[AgreedColumn, FieldComparison]:
    """Return the widened column, and the comparison that a person reads.

    Raises:
        DataError: the column cannot be widened.
    """
    widened, rare = widened_column(agreed, own), len(own.rare(agreed.vocabulary or ()))
    return widened, FieldComparison(
        f"column {agreed.name!r}", column_text(agreed), column_text(widened), rare
    )


def compare_classes(
    agreed: Sequence[str], own: Sequence[str]
) -> tuple[tuple[str, ...], FieldComparison]:
    """Return the classes with those that the agreement lacks, and the comparison."""
    widened = (*agreed, *(each for each in own if each not in agreed))
    return widened, FieldComparison("labels.classes", texts_text(agreed), texts_text(widened))


def column_text(column: AgreedColumn) -> str:
    """Return the key and the value of a column, as the agreement has them."""
    if column.range is None:
        return f"vocabulary = {texts_text(column.vocabulary or ())}"
    return f"range = [{', '.join(map(plain_number, column.range))}]"


def texts_text(texts: Sequence[str]) -> str:
    """Return texts as a TOML list."""
    return f"[{', '.join(map(toml_text, texts))}]"
