"""Data source: the keys that the settings of all sources have, and how a source is read."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, TypeAlias

from pydantic import Field, field_validator

from configs.table import ConfigTable, Fraction
from configs.targets import Task
from parties.common.errors import DataError
from parties.data.sources.arrays import Progress

if TYPE_CHECKING:  # the settings of a source need neither records nor the libraries of records
    from parties.data.sources.records import Records


MAX_NAMED = 20  # columns in one error message


class IdColumns(ConfigTable):
    """The columns of the data whose cells together form the ID of a row."""

    # Names of the columns that together form the ID.
    columns: Annotated[tuple[str, ...], Field(min_length=1)]


IdSource: TypeAlias = Literal["row"] | IdColumns


class SampleSettings(ConfigTable):
    """A random sample of the rows in random order, to simulate parties with few common rows."""

    fraction: Fraction = 1.0  # fraction of the rows that are in the sample
    seed: int = 0


@dataclass(frozen=True, slots=True)
class AgreedFeatures:
    """The feature columns that the agreement requires of the data of a party.

    Attributes:
        party: the party.
        names: names of the columns.
    """

    party: str
    names: frozenset[str]

    def check(self, place: str, present: Collection[str], features: Collection[str]) -> None:
        """Check that the data has the agreed columns, and no other column as a feature.

        Args:
            place: name of the data in messages, such as the name of a file.
            present: names of all columns of the data.
            features: names of the columns that are features.

        Raises:
            DataError: a column is missing, or is no agreed feature.
        """
        missing = sorted(self.names.difference(present))
        if missing:
            raise DataError(
                f"{place} of {self.party} lacks {_listed(missing)}, which the agreement lists "
                "under 'columns'",
                "add the column to the data, with empty cells where a value is not known, or agree "
                "on other columns",
            )
        more = [name for name in features if name not in self.names]
        if more:
            raise DataError(
                f"{place} of {self.party} has {_listed(more)} as a feature, but the agreement does "
                "not list it under 'columns'",
                "remove it from data.numeric or data.categorical; without data.numeric all columns "
                "beside ID and label are features, so list the agreed ones there",
            )


def _listed(columns: Sequence[str]) -> str:
    shown = ", ".join(map(repr, columns[:MAX_NAMED]))
    more = ", ..." if len(columns) > MAX_NAMED else ""
    return f"column{'s' if len(columns) > 1 else ''} {shown}{more}"


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Options for reading a party's data.

    Attributes:
        folder: folder in which relative paths are resolved.
        classes: names of all classes; a label is an index into these names.
        progress: called with the number of rows read since the last call.
        task: what the labels are: a class, a number, or several binary labels, named ``classes``.
        agreed: the agreed feature columns of a table; None: the party decides.
    """

    folder: Path
    classes: Sequence[str]
    progress: Progress = lambda _: None
    task: Task = "classification"
    agreed: AgreedFeatures | None = None


class DataSettings(ConfigTable):
    """Keys that all data sources have.

    A source is a subclass with the key ``kind``, its own keys, and the method ``read``.
    """

    # The keys that name labels; a source without labels sets none of the keys.
    label_keys: ClassVar[tuple[str, ...]] = ("label",)
    # What the labels of the source can be.
    tasks: ClassVar[tuple[Task, ...]] = ("classification",)

    # IDs of the rows; the parties find common rows by these IDs. "row": the ID is the file name and
    # the line number. A table: the key columns names the columns that form the ID.
    id: IdSource = "row"
    sample: SampleSettings | None = None  # random part of the rows; absent: all rows in file order
    origin: str = ""  # address from which the data can be downloaded, for error messages
    # For preprocessing = "declared": for each numeric column, the values that are mapped to -1 and
    # 1.
    ranges: dict[str, tuple[float, float]] = Field(default={})
    # For preprocessing = "declared": for each categorical column, its categories.
    vocabulary: dict[str, tuple[str, ...]] = Field(default={})

    @field_validator("ranges")
    @classmethod
    def _are_ordered(cls, ranges: dict[str, tuple[float, float]]) -> dict[str, tuple[float, float]]:
        for column, (low, high) in ranges.items():
            if not low < high:
                raise ValueError(f"the range of {column} must be [low, high] with low < high")
        return ranges

    @property
    def has_labels(self) -> bool:
        """Whether the settings name labels."""
        return any(getattr(self, key) for key in self.label_keys)

    @property
    def label_columns(self) -> tuple[str, ...]:
        """Names of the columns with labels, as in ``ranges``; empty if labels have no column."""
        return ()

    def read(self, options: ReadOptions) -> "Records":
        """Read the records of all files, or of all queries.

        Raises:
            DataError: the data does not match the settings.
            ResourceError: the data exceeds a limit in the settings.
            IntegrityError: a file changed while it was read.
            StorageError: the temporary folder has no space for large columns.
            NotImplementedError: always, in this base class.
        """
        raise NotImplementedError

    def check_head(self, file: str, head: bytes) -> str | None:
        """Check the first bytes ``head`` of a file, as ``vfl doctor`` does before a run.

        Returns:
            What the bytes show, in words; None for a source without such a check.

        Raises:
            DataError: the file does not match the settings.
        """

    def files(self) -> list[Path]:
        """Return the files that the settings name; a path may be relative to the data folder."""
        named: list[object] = []
        for key in type(self).model_fields:
            value = getattr(self, key)
            named += value if isinstance(value, tuple) else [value]
        return [path for path in named if isinstance(path, Path)]


def data_paths(path: Path, test_path: Path | None, identity: IdSource) -> list[Path]:
    """Return the path of the file, and of the test file if there is one.

    Raises:
        DataError: IDs are made of file name and row number, but both files have the same name.
    """
    if test_path is None:
        return [path]
    if identity == "row" and path.name == test_path.name:
        raise DataError(
            f"both files are named {path.name}, so their rows would have the same IDs",
            "rename one of the files, or set ID columns with data.id",
        )
    return [path, test_path]
