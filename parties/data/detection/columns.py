"""Proposed use of each column of a table: ID, label, numeric, categorical, or left out.

The proposals are for a person to confirm: the files that ``vfl init`` writes give each reason.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from math import isfinite
from typing import Final

from configs.targets import Task
from parties.common.errors import DataError
from parties.data.detection.csv_form import has_thousands
from parties.data.detection.table_sample import TableSample
from parties.data.sources.cells import Decimal, parse_numbers

MIN_CLASSES, MAX_CLASSES = 2, 20  # of a label
MAX_TEXTS: Final = 100  # different texts of a categorical column
MAX_CODES: Final = 50  # different whole numbers of a column whose name says that they are codes
# Texts that mark a missing value in a column, if vfl init finds them there.
MISSING_MARKS: Final = frozenset(
    {"na", "n/a", "n.a.", "nan", "null", "none", "nil", "?", "-", "--", ".", "#n/a", "missing"}
)
_CLASS_NAMES: Final = frozenset({"none", "nil", "missing"})  # marks that may also name a class
_DATES: Final = (
    "%Y-%m-%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%d-%m-%Y", "%d.%m.%y",
)  # fmt: skip
_TIME: Final = re.compile(r"[T ]\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?$")
_COMPACT_DATE: Final = re.compile(r"(19|20)\d{2}(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])")
_WHOLE: Final = re.compile(r"[+-]?\d+")
_DECIMALS: Final = re.compile(r"[+-]?\d*[.,]\d+")
_LEADING_ZERO: Final = re.compile(r"0\d+")


def _words(*names: str) -> re.Pattern[str]:
    return re.compile(rf"(^|[^a-z])({'|'.join(names)})([^a-z]|$)")


_ID_NAMES: Final = _words(
    "id", "ids", "key", "nr", "no", "number", "nummer", "uuid", "customerid", "kundennr",
    "kundennummer", "iban", "account", "kunde", "customer",
)  # fmt: skip
_LABEL_NAMES: Final = _words(
    "label", "y", "target", "class", "outcome", "churn", "churned", "default", "defaulted",
    "bought", "response", "responded", "fraud", "subscribed", "ziel", "klasse", "result",
)  # fmt: skip
_CODE_NAMES: Final = _words(
    "code", "type", "typ", "kind", "category", "cat", "class", "klasse", "group", "gruppe",
    "region", "zip", "plz", "postcode", "branch", "filiale", "segment", "status", "sex", "gender",
)  # fmt: skip


class ColumnUse(StrEnum):
    """Proposed use of a column."""

    ID = "id"
    LABEL = "label"
    NUMERIC = "numeric"
    CATEGORICAL = "categorical"
    IGNORED = "ignored"


@dataclass(frozen=True, slots=True)
class ColumnProposal:
    """The proposed use of a column.

    Attributes:
        name: name of the column.
        use: the use.
        reason: what the sampled rows show, in words without values.
        missing: number of sampled rows without a value.
    """

    name: str
    use: ColumnUse
    reason: str
    missing: int = 0


@dataclass(frozen=True, slots=True)
class TableProposal:
    """The proposed use of all columns of a table.

    Attributes:
        columns: the columns in the order of the table.
        ids: the columns that together form the ID.
        label: the column with the labels; None at a party without labels.
        classes: the classes of the label, sorted; empty without a label, or if it is a number.
        missing: texts that mark a missing value, besides empty cells.
    """

    columns: tuple[ColumnProposal, ...]
    ids: tuple[str, ...]
    label: str | None
    classes: tuple[str, ...]
    missing: tuple[str, ...]

    @property
    def task(self) -> Task:
        """What the model predicts: a class, or a number."""
        return "regression" if self.label and not self.classes else "classification"

    def of_use(self, use: ColumnUse) -> tuple[ColumnProposal, ...]:
        """Return the columns of one use."""
        return tuple(each for each in self.columns if each.use is use)

    @property
    def features(self) -> int:
        """Number of numeric and categorical columns."""
        return len(self.of_use(ColumnUse.NUMERIC)) + len(self.of_use(ColumnUse.CATEGORICAL))


def propose_columns(
    sample: TableSample,
    decimal: Decimal,
    ids: Sequence[str],
    label: str | None,
    classes: Sequence[str] = (),
) -> TableProposal:
    """Return the proposed use of every column.

    Args:
        sample: the first rows of the table.
        decimal: decimal separator of numbers.
        ids: the columns that together form the ID.
        label: the column with the labels; None: the table has no labels.
        classes: the classes, if they are agreed; else the values of the label are the classes.

    Raises:
        DataError: the label has missing values, or is no number and has not 2 to 20 classes.
    """
    marks = _marks_of_missing(sample, {*ids, label})
    if label is not None:
        marks -= {*classes, *_words_of_classes(sample.columns[label], decimal)}
    if label is not None and not classes:
        classes = _classes(sample, label, marks, decimal)
    proposals = []
    for name, cells in sample.columns.items():
        values = [cell for cell in cells if cell and cell not in marks]
        if name in ids:
            use, reason = ColumnUse.ID, "the ID of a row"
        elif name == label:
            kind = f"{len(classes)} classes" if classes else f"{len(set(values))} numbers"
            use, reason = ColumnUse.LABEL, kind
        elif name in sample.dates:
            use, reason = ColumnUse.IGNORED, _DATE_REASON
        else:
            use, reason = _use(name, values, decimal)
        proposals.append(ColumnProposal(name, use, reason, len(cells) - len(values)))
    proposals += [
        ColumnProposal(name, ColumnUse.IGNORED, "of a type that cannot be read")
        for name in sorted(sample.other)
    ]
    return TableProposal(tuple(proposals), tuple(ids), label, tuple(classes), tuple(sorted(marks)))


def propose_ids(sample: TableSample, *, required: bool = True) -> tuple[str, ...]:
    """Return the column whose values identify the rows; empty if there is none and none is needed.

    Raises:
        DataError: no column, or more than one, has a different value in each row; or such a column
            has no usual name of an ID, and another column has; the hint names the option that
            states the columns.
    """
    unique = [
        name for name, cells in sample.columns.items()
        if "" not in cells and len(set(cells)) == len(cells) and name not in sample.dates
        and name not in sample.inexact and not _has_decimals(cells)
    ]  # fmt: skip
    named = [name for name in unique if _ID_NAMES.search(_spaced(name))]
    if unique and not named:
        _refuse_repeated_ids(sample)
    if len(named) == 1 or (not named and len(unique) == 1):
        return tuple(named or unique)
    if not unique and not required:
        return ()
    if not unique:
        raise DataError(
            f"{sample.file} has no column with a different value in each row",
            "state the column of IDs with --id COLUMN; repeat --id if several columns together "
            "form the ID",
        )
    candidates = ", ".join(map(repr, named or unique))
    raise DataError(
        f"each of the columns {candidates} of {sample.file} may be the ID",
        f"state the column of IDs: --id {(named or unique)[0]}",
    )


def _refuse_repeated_ids(sample: TableSample) -> None:
    """Check that no column has a usual name of an ID and about as many values as an ID has.

    Raises:
        DataError: a column has; its values do not identify the rows, so a person must decide.
    """
    for name, cells in sample.columns.items():
        values = [cell for cell in cells if cell]
        if not _ID_NAMES.search(_spaced(name)) or _are_few(values) or name in sample.dates:
            continue
        if name not in sample.inexact and not _has_decimals(values):
            repeated = len(values) - len(set(values))
            void = len(cells) - len(values)
            faults = [f"{repeated} repeated values"] if repeated else []
            faults += [f"no value in {void} rows"] if void else []
            raise DataError(
                f"column {name!r} of {sample.file} has {' and '.join(faults)}, so it is no ID, but "
                "its name is that of one",
                "correct these rows, or state another column of IDs with --id COLUMN; repeat --id "
                "if several columns together form the ID",
            )


def check_ids(sample: TableSample, ids: Sequence[str]) -> None:
    """Check that the columns ``ids`` exist and identify the rows.

    Raises:
        DataError: a column is absent, has no value in a row, or two rows have the same ID.
    """
    check_known(sample, ids, "--id")
    cells = list(zip(*(sample.columns[name] for name in ids), strict=True))
    void = sum(not all(parts) for parts in cells)
    repeated = len(cells) - len(set(cells))
    named = ", ".join(map(repr, ids))
    if void:
        raise DataError(
            f"{void} rows of {sample.file} have no value in {named}",
            "give each row an ID, or remove the row",
        )
    if repeated:
        raise DataError(
            f"{repeated} rows of {sample.file} have the ID ({named}) of an earlier row",
            "name more columns with --id, or remove the repeated rows",
        )


def label_candidates(sample: TableSample, ids: Sequence[str]) -> list[str]:
    """Return the columns that may be the label, the best one first.

    A label has 2 to 20 classes and no missing value. A column with a usual name for labels comes
    first, then one with fewer classes, then a later one.
    """
    found = []
    for at, (name, cells) in enumerate(sample.columns.items()):
        kinds = len(set(cells))
        suits = MIN_CLASSES <= kinds <= MAX_CLASSES and "" not in cells
        if suits and name not in {*ids, *sample.dates, *sample.inexact}:
            found.append((not _LABEL_NAMES.search(_spaced(name)), kinds, -at, name))
    return [name for *_, name in sorted(found)]


def check_known(sample: TableSample, names: Sequence[str], option: str) -> None:
    """Check that the columns ``names``, given by ``option``, exist.

    Raises:
        DataError: the table has no such column; the hint lists the columns.
    """
    for name in names:
        if name not in sample.columns:
            raise DataError(
                f"{option}: {sample.file} has no column {name!r}",
                f"its columns are {', '.join(list(sample.columns)[:20])}",
            )


def _classes(
    sample: TableSample, label: str, marks: frozenset[str], decimal: Decimal
) -> tuple[str, ...]:
    """Return the classes of the label; empty if it is a number: more than 20, or with decimals."""
    cells = sample.columns[label]
    void = sum(not cell or cell in marks for cell in cells)
    if void:
        raise DataError(
            f"{void} rows of {sample.file} have no value in the label column {label!r}",
            "remove these rows, or choose another column with --label COLUMN",
        )
    classes = set(cells)
    if len(classes) > 1 and _are_numbers(classes, decimal):
        if len(classes) > MAX_CLASSES or not all(map(_is_whole, classes)):
            return ()
        if label in sample.inexact:
            raise DataError(
                f"column {label!r} of {sample.file} has few whole numbers, stored as binary "
                "fractions, so its classes have no names",
                "store the label as text or as a whole number, or choose another column with "
                "--label",
            )
    if not MIN_CLASSES <= len(classes) <= MAX_CLASSES:
        raise DataError(
            f"column {label!r} of {sample.file} has {len(classes)} different values",
            f"a label has {MIN_CLASSES} to {MAX_CLASSES} classes, or is a number; choose another "
            "column with --label COLUMN",
        )
    if all(_WHOLE.fullmatch(each) for each in classes):
        return tuple(sorted(classes, key=lambda each: (int(each), each)))
    return tuple(sorted(classes))


_DATE_REASON: Final = (
    "a date; only the key time uses it, for split.kind = 'time': derive a number, such as days, to "
    "use it as a feature"
)


def _use(name: str, values: Sequence[str], decimal: Decimal) -> tuple[ColumnUse, str]:
    """Return the use of a column of features, and the reason, by its present ``values``."""
    different = set(values)
    reason = ""
    if len(different) < 2:
        reason = "the same value in all rows" if values else "no value in any row"
    elif all(map(_is_date, different)):
        reason = _DATE_REASON
    elif _are_numbers(different, decimal):
        return _use_of_numbers(name, different)
    elif has_thousands(different, decimal):
        reason = "numbers with separators of thousands: write them without, and list it as numeric"
    elif not _are_few(values):
        reason = f"free text: {len(different)} different texts"
    if reason:
        return ColumnUse.IGNORED, reason
    return ColumnUse.CATEGORICAL, f"{len(different)} different texts"


def _are_few(values: Sequence[str]) -> bool:
    """Return whether a column has so few different values that they are categories."""
    different = len(set(values))
    return different <= MAX_TEXTS and different * 2 <= len(values)


def _use_of_numbers(name: str, different: set[str]) -> tuple[ColumnUse, str]:
    codes = any(map(_LEADING_ZERO.fullmatch, different))
    named = _CODE_NAMES.search(_spaced(name)) and all(map(_WHOLE.fullmatch, different))
    if codes and len(different) > MAX_TEXTS:
        return ColumnUse.IGNORED, f"codes with leading zeros: {len(different)} different ones"
    if codes or (named and len(different) <= MAX_CODES):
        why = "leading zeros" if codes else "its name"
        return ColumnUse.CATEGORICAL, f"{len(different)} codes, by {why}"
    return ColumnUse.NUMERIC, "numbers"


def _marks_of_missing(sample: TableSample, others: set[str | None]) -> frozenset[str]:
    """Return the usual marks of missing values that occur in a column of features."""
    found: set[str] = set()
    for name, cells in sample.columns.items():
        if name not in others:
            found |= {text for text in set(cells) if text.lower() in MISSING_MARKS}
    return frozenset(found)


def _words_of_classes(label: Sequence[str], decimal: Decimal) -> set[str]:
    """Return the texts of a label that are classes here, and elsewhere mark missing values.

    In a label of numbers, every mark is one of a missing value.
    """
    texts = set(label)
    others = {text for text in texts if text and text.lower() not in MISSING_MARKS}
    if others and _are_numbers(others, decimal):
        return set()
    return {text for text in texts if text.lower() in _CLASS_NAMES}


def _has_decimals(cells: Sequence[str]) -> bool:
    """Return whether a column has numbers with decimal places, which are no IDs."""
    return any(map(_DECIMALS.fullmatch, cells))


def _is_whole(text: str) -> bool:
    """Return whether a number is whole; ``1.0`` and ``1,00`` are."""
    return not text.replace(",", ".").partition(".")[2].strip("0")


def _are_numbers(texts: set[str], decimal: Decimal) -> bool:
    return all(map(isfinite, parse_numbers(sorted(texts), frozenset(), decimal).tolist()))


def _is_date(text: str) -> bool:
    """Return whether a text is a date, with or without a time of day."""
    if _COMPACT_DATE.fullmatch(text):
        return True
    day = _TIME.sub("", text)
    for form in _DATES:
        try:
            datetime.strptime(day, form)
        except ValueError:
            continue
        return True
    return False


def _spaced(name: str) -> str:
    """Return a name in lower case, with a blank between the words of ``camelCase``."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()
