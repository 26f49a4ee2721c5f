"""A seat: what one party keeps to itself: its data, addresses, keys and devices."""

from pathlib import Path
from typing import Annotated, Literal, Self, TypeAlias
from urllib.parse import parse_qsl, urlsplit

from pydantic import Field, field_validator, model_validator

from configs.address import checked_address, checked_target
from configs.table import Count, Fraction, Name, Pin, Table

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


class Noise(Table):
    """Gaussian noise on this party's pixels: feature-noise heterogeneity between the parties."""

    sigma: Fraction  # of pixels that go from 0 to 1
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0


class Source(Table):
    """What every kind of data has."""

    id: IdSource = "row"
    sample: Sample | None = None
    origin: str = ""  # where one gets the data
    # Where the agreement says preprocessing = "declared": of every numeric column what becomes -1
    # and 1, of every other column its categories; known without a look at the rows.
    ranges: dict[str, tuple[float, float]] = Field(default={})
    vocabulary: dict[str, tuple[str, ...]] = Field(default={})

    @field_validator("ranges")
    @classmethod
    def _apart(cls, ranges: dict[str, tuple[float, float]]) -> dict[str, tuple[float, float]]:
        for column, (low, high) in ranges.items():
            if not low < high:
                raise ValueError(f"the range of {column} is [low, high], low below high")
        return ranges


class TableSource(Source):
    """What all tables have; features are numeric unless listed as categorical."""

    numeric: tuple[str, ...] | None = None  # None: all but id, label and categorical
    categorical: tuple[str, ...] = ()
    label: str | None = None
    label_strip: str = ""  # characters to take off the end of labels
    missing: tuple[str, ...] = ()  # markers of absent values, beside empty cells and NULL
    dedupe: Literal["first"] | None = None  # of rows with one ID; None: they are refused
    max_rows: Count = 100_000_000  # above these a table is refused unread
    max_columns: Count = 10_000


class CsvData(TableSource):
    """Text tables."""

    kind: Literal["csv"]
    path: PathText
    test_path: PathText | None = None
    names: tuple[str, ...] | None = None  # of the columns, for files without a header
    comment: str | None = None  # lines that begin with it are skipped


class ParquetData(TableSource):
    """Parquet files; integers, decimals and dates as IDs are their exact text."""

    kind: Literal["parquet"]
    path: PathText
    test_path: PathText | None = None


class SqlData(TableSource):
    """What a database answers to a query, read in one read-only transaction."""

    kind: Literal["sql"]
    url: str | None = None  # postgresql://user@host/db or sqlite:///file; never with a password
    url_file: PathText | None = None  # a file with the URL, in the data folder, of mode 600
    query: str | None = None
    table: str | None = None  # instead of a query; schema.table or table
    test_query: str | None = None

    @field_validator("url")
    @classmethod
    def _no_secret(cls, url: str | None) -> str | None:
        if url is not None and _holds_secret(url):
            raise ValueError(
                "no password may stand in a seat: write the URL into a file that only this "
                'account may read, and name it, url_file = "database.url"'
            )
        return url

    @model_validator(mode="after")
    def _one_of_each(self) -> Self:
        if self.id == "row":
            raise ValueError(
                "rows of a database have no order: name columns, id = {columns = [..]}"
            )
        if (self.url is None) == (self.url_file is None):
            raise ValueError("give the database as url_file or as url, one of them")
        if (self.query is None) == (self.table is None):
            raise ValueError("give query or table, one of them")
        return self


def _holds_secret(url: str) -> bool:
    """Whether a password stands in it; what cannot be taken apart is taken for a secret."""
    try:
        parts = urlsplit(url)
        words = [word.lower() for word, _ in parse_qsl(parts.query, keep_blank_values=True)]
        return parts.password is not None or any("password" in word for word in words)
    except ValueError:
        return True


class NumpyData(Source):
    """An .npz archive with arrays ``features`` [rows, width] and, where needed, ids and labels."""

    kind: Literal["numpy"]
    path: PathText
    test_path: PathText | None = None
    features: str | None = "features"
    label: str | None = None


class ImageSource(Source):
    """What all images have."""

    part: Part = Part()
    noise: Noise | None = None


class SklearnData(ImageSource):
    """A data set that comes with scikit-learn."""

    kind: Literal["sklearn"]
    name: Literal["digits", "breast_cancer", "iris", "wine"]
    features: bool = True
    columns: tuple[int, ...] | None = None  # of a table
    label: bool = False


class IdxData(ImageSource):
    """Images and labels in the idx format of MNIST."""

    kind: Literal["idx"]
    images: PathText | None = None
    test_images: PathText | None = None
    labels: PathText | None = None
    test_labels: PathText | None = None


class MedMnistData(ImageSource):
    """Images and labels in one .npz archive, by default in the arrays that MedMNIST has."""

    kind: Literal["medmnist"]
    path: PathText
    train: Annotated[tuple[str, ...], Field(min_length=1)] = ("train", "val")  # parts to learn from
    test: str | None = "test"
    names: tuple[str, str] = ("{}_images", "{}_labels")  # of a part's arrays
    features: bool = True
    label: bool = False

    @field_validator("names")
    @classmethod
    def _with_a_place(cls, names: tuple[str, str]) -> tuple[str, str]:
        if any(name.count("{}") != 1 for name in names):
            raise ValueError("each name has one {}, in whose place the part's name stands")
        return names


class CifarData(ImageSource):
    """CIFAR's batches, binary or pickled; pickles are taken apart and never run."""

    kind: Literal["cifar"]
    name: Literal["cifar10", "cifar100"]  # of cifar100 the fine labels
    train: Annotated[tuple[PathText, ...], Field(min_length=1)]
    test: PathText | None = None
    features: bool = True
    label: bool = False


class SvhnData(ImageSource):
    """The cropped digits of SVHN in their MATLAB files."""

    kind: Literal["svhn"]
    train: Annotated[tuple[PathText, ...], Field(min_length=1)]
    test: PathText | None = None
    features: bool = True
    label: bool = False


class TinyImageNetData(ImageSource):
    """The folder of Tiny ImageNet; its validation images are the test rows."""

    kind: Literal["tiny-imagenet"]
    path: PathText
    features: bool = True
    label: bool = False


Data: TypeAlias = Annotated[
    CsvData
    | ParquetData
    | SqlData
    | NumpyData
    | SklearnData
    | IdxData
    | MedMnistData
    | CifarData
    | SvhnData
    | TinyImageNetData,
    Field(discriminator="kind"),
]

# Where a model is computed; a GPU needs a CUDA build of torch.
Device: TypeAlias = Annotated[str, Field(pattern=r"^(cpu|cuda(:[0-9]{1,2})?)$")]


class Chair(Table):
    """What every seat has, with data or without: a horizontal server has none."""

    hub: str | None = None  # where a passive party dials, host:port
    listen: str | None = None  # where the active party listens, host:port
    certificates: PathText = Path("certs")
    folder: PathText | None = None  # where relative data paths begin; the config's own folder
    denied: tuple[Pin, ...] = ()  # pins of keys that are no longer believed
    denied_file: PathText | None = None  # more of them, one a line; read again when it changes
    strict: bool = False  # refuse what is else a warning about identities
    threads: Annotated[int, Field(ge=1, le=1024)] = 1

    @field_validator("hub")
    @classmethod
    def _target(cls, address: str | None) -> str | None:
        return address if address is None else checked_target(address)

    @field_validator("listen")
    @classmethod
    def _address(cls, address: str | None) -> str | None:
        return address if address is None else checked_address(address)


class RowSeat(Chair):
    """A client's in the horizontal mode: its rows, and what every seat has."""

    data: Data


class Seat(RowSeat):
    """A vertical party's own settings, its data among them."""

    # Where this party's half of the model is computed.
    device: Device = "cpu"
    statistics: PathText | None = None  # preprocessing that no private row entered, as JSON
    module: str | None = None  # import path of this party's own bottom, "package.module:Class"
    unlearn: dict[Name, PathText] = Field(default={})  # request -> file of IDs, one a line

    @model_validator(mode="after")
    def _module_path(self) -> Self:
        if self.module is not None and self.module.count(":") != 1:
            raise ValueError("module is an import path like mypackage.nets:Bottom")
        return self
