"""A seat: what one party keeps to itself: its data, addresses, keys and devices."""

from pathlib import Path
from typing import Annotated, Literal, Self, TypeAlias

from pydantic import Field, field_validator, model_validator

from configs.address import checked_address, checked_target
from configs.agreement import Fraction, Name, Pin, Table

PathText: TypeAlias = Annotated[Path, Field(strict=False)]


class Columns(Table):
    """IDs stand in these columns."""

    columns: Annotated[tuple[str, ...], Field(min_length=1)]


IdSource: TypeAlias = Literal["row"] | Columns  # row: file name and line number


class Sample(Table):
    """A random part of the rows in random order, so that parties overlap only partly."""

    keep: Fraction = 1.0
    seed: int = 0


class Part(Table):
    """The rectangle of each image that this party holds: first (included) to last (excluded)."""

    rows: tuple[int, int] | None = None
    columns: tuple[int, int] | None = None

    @field_validator("rows", "columns")
    @classmethod
    def _forward(cls, span: tuple[int, int] | None) -> tuple[int, int] | None:
        if span is not None and not 0 <= span[0] < span[1]:
            raise ValueError("a span is [first, last), first below last")
        return span


class Source(Table):
    """What every kind of data has."""

    id: IdSource = "row"
    sample: Sample | None = None
    origin: str = ""  # where one gets the data


class CsvData(Source):
    """Text tables; features are numeric unless listed as categorical."""

    kind: Literal["csv"]
    path: PathText
    test_path: PathText | None = None
    names: tuple[str, ...] | None = None  # of the columns, for files without a header
    numeric: tuple[str, ...] | None = None  # None: all but id, label and categorical
    categorical: tuple[str, ...] = ()
    label: str | None = None
    label_strip: str = ""  # characters to take off the end of labels
    missing: tuple[str, ...] = ()  # markers of absent values
    comment: str | None = None  # lines that begin with it are skipped


class NumpyData(Source):
    """An .npz archive with arrays ``features`` [rows, width] and, where needed, ids and labels."""

    kind: Literal["numpy"]
    path: PathText
    test_path: PathText | None = None
    features: str | None = "features"
    label: str | None = None


class SklearnData(Source):
    """A data set that comes with scikit-learn."""

    kind: Literal["sklearn"]
    name: Literal["digits", "breast_cancer", "iris", "wine"]
    features: bool = True
    part: Part = Part()
    columns: tuple[int, ...] | None = None  # of a table
    label: bool = False


class IdxData(Source):
    """Images and labels in the idx format of MNIST."""

    kind: Literal["idx"]
    images: PathText | None = None
    test_images: PathText | None = None
    labels: PathText | None = None
    test_labels: PathText | None = None
    part: Part = Part()


Data: TypeAlias = Annotated[
    CsvData | NumpyData | SklearnData | IdxData, Field(discriminator="kind")
]


class Seat(Table):
    """One party's own settings."""

    hub: str | None = None  # where a passive party dials, host:port
    listen: str | None = None  # where the active party listens, host:port
    certificates: PathText = Path("certs")
    folder: PathText | None = None  # where relative data paths begin; the config's own folder
    denied: tuple[Pin, ...] = ()  # pins of keys that are no longer believed
    denied_file: PathText | None = None  # more of them, one a line; read again when it changes
    strict: bool = False  # refuse what is else a warning about identities
    threads: Annotated[int, Field(ge=1, le=1024)] = 1
    module: str | None = None  # import path of this party's own bottom, "package.module:Class"
    unlearn: dict[Name, PathText] = Field(default={})  # request -> file of IDs, one a line
    data: Data

    @field_validator("hub")
    @classmethod
    def _target(cls, address: str | None) -> str | None:
        return address if address is None else checked_target(address)

    @field_validator("listen")
    @classmethod
    def _address(cls, address: str | None) -> str | None:
        return address if address is None else checked_address(address)

    @model_validator(mode="after")
    def _module_path(self) -> Self:
        if self.module is not None and self.module.count(":") != 1:
            raise ValueError("module is an import path like mypackage.nets:Bottom")
        return self
