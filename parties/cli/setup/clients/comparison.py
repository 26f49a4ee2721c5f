"""Comparison of the agreed columns and classes with a client's own, field by field."""

from collections.abc import Sequence
from dataclasses import dataclass

from configs.columns import AgreedColumn
from parties.cli.setup.clients.proposal import ColumnValues, plain_number
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


def widened_column(agreed: AgreedColumn, own: ColumnValues, texts: Sequence[str]) -> AgreedColumn:
    """Return the agreed column, widened by what the client proposes.

    An agreed end of a range stays where it covers the client's numbers. New categories follow the
    agreed ones, so the places of the agreed categories stay.

    Args:
        agreed: the agreed column.
        own: what the client's rows show of the column.
        texts: the client's own categories that the agreement lacks, without rare ones.
    """
    if agreed.range is None:
        return agreed.model_copy(update={"vocabulary": (*(agreed.vocabulary or ()), *texts)})
    low, high = agreed.range
    proposed = own.proposed.range
    if proposed is not None and own.low is not None and own.high is not None:
        low = min(low, proposed[0]) if own.low < low else low
        high = max(high, proposed[1]) if own.high > high else high
    return agreed.model_copy(update={"range": (low, high)})


def compare_column(agreed: AgreedColumn, own: ColumnValues) -> tuple[AgreedColumn, FieldComparison]:
    """Return the widened column, and the comparison that a person reads."""
    known = set(agreed.vocabulary or ())
    new = [text for text in own.proposed.vocabulary or () if text not in known]
    widened = widened_column(agreed, own, new)
    shown = FieldComparison(
        f"column {agreed.name!r}", column_text(agreed), column_text(widened), own.rare
    )
    return widened, shown


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


def count_text(number: int, thing: str, several: str = "") -> str:
    """Return a number with its noun, in the plural unless it is 1: ``count_text(2, "row")``."""
    return f"{number} {thing if number == 1 else several or f'{thing}s'}"
