"""Party settings: data, addresses, keys and devices of one party, never sent to other parties."""

from pathlib import Path
from typing import Annotated, Literal, Self, TypeAlias
from urllib.parse import parse_qsl, urlsplit

from pydantic import Field, field_validator, model_validator

from configs.address import checked_address, checked_target
from configs.table import ConfigTable, Count, Fraction, Name, Pin

PathText: TypeAlias = Annotated[Path, Field(strict=False)]


class IdColumns(ConfigTable):
    """The columns of the data whose cells together form the ID of a row."""

    # Names of the columns that together form the ID.
    columns: Annotated[tuple[str, ...], Field(min_length=1)]


IdSource: TypeAlias = Literal["row"] | IdColumns


class SampleSettings(ConfigTable):
    """A random sample of the rows in random order, to simulate parties with few common rows."""

    fraction: Fraction = 1.0  # fraction of the rows that are in the sample
    seed: int = 0


class ImagePart(ConfigTable):
    """The rectangle of each image that this party holds."""

    rows: tuple[int, int] | None = None  # first row, and the row after the last; absent: all
    # First column, and the column after the last; absent: all.
    columns: tuple[int, int] | None = None

    @field_validator("rows", "columns")
    @classmethod
    def _is_ordered(cls, span: tuple[int, int] | None) -> tuple[int, int] | None:
        if span is not None and not 0 <= span[0] < span[1]:
            raise ValueError("the value must be [first, end] with 0 <= first < end")
        return span


class FeatureNoise(ConfigTable):
    """Gaussian noise on this party's pixels, so that the parties' images differ in quality."""

    sigma: Fraction  # standard deviation, for pixels from 0 to 1
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0


class DataSettings(ConfigTable):
    """Keys that all data sources have."""

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


class TableSettings(DataSettings):
    """Keys that all table sources have."""

    # Numeric columns; absent: all except the ID, the label and the categorical columns.
    numeric: tuple[str, ...] | None = None
    categorical: tuple[str, ...] = ()  # categorical columns
    label: str | None = None  # column with the labels; only for the active party and for clients
    label_strip: str = ""  # characters that are removed from the end of labels
    missing: tuple[str, ...] = ()  # texts that mark a missing value, besides empty cells and NULL
    # Which of several rows with the same ID is used; absent: duplicate IDs are an error.
    dedupe: Literal["first"] | None = None
    max_rows: Count = 100_000_000  # largest number of rows; a larger table is refused
    max_columns: Count = 10_000  # largest number of columns; a wider table is refused


class CsvData(TableSettings):
    """CSV files."""

    kind: Literal["csv"]
    path: PathText
    test_path: PathText | None = None
    names: tuple[str, ...] | None = None  # names of the columns, for files without a header
    comment: str | None = None  # text at the beginning of lines that are skipped


class ParquetData(TableSettings):
    """Parquet files; integers, decimals and dates in ID columns are converted to exact text."""

    kind: Literal["parquet"]
    path: PathText
    test_path: PathText | None = None


class SqlData(TableSettings):
    """Rows of a database, read in one read-only transaction."""

    kind: Literal["sql"]
    # URL without a password: postgresql://user@host/db or sqlite:///file.
    url: str | None = None
    url_file: PathText | None = None  # file of mode 600 with the URL, in the data folder
    query: str | None = None  # SQL query
    table: str | None = None  # table instead of a query, as schema.table or table
    test_query: str | None = None  # SQL query for the official test rows

    @field_validator("url")
    @classmethod
    def _no_secret(cls, url: str | None) -> str | None:
        if url is not None and _holds_secret(url):
            raise ValueError(
                "the key 'url' contains a password or is not a valid URL; passwords are not "
                "allowed in the party settings: write the URL into a file that only this account "
                'can read, and set url_file = "database.url"'
            )
        return url

    @model_validator(mode="after")
    def _one_of_each(self) -> Self:
        if self.id == "row":
            raise ValueError(
                "the line number cannot be the ID, because rows of a database have no order: set "
                "id = {columns = [...]}"
            )
        if (self.url is None) == (self.url_file is None):
            raise ValueError("expected exactly one of the keys 'url_file' and 'url'")
        if (self.query is None) == (self.table is None):
            raise ValueError("expected exactly one of the keys 'query' and 'table'")
        return self


def _holds_secret(url: str) -> bool:
    """Whether a database URL contains a password; True also for an invalid URL."""
    try:
        parts = urlsplit(url)
        words = [word.lower() for word, _ in parse_qsl(parts.query, keep_blank_values=True)]
        return parts.password is not None or any("password" in word for word in words)
    except ValueError:
        return True


class NumpyData(DataSettings):
    """An .npz archive with an array of features, `[rows, width]`, and arrays of IDs and labels."""

    kind: Literal["numpy"]
    path: PathText
    test_path: PathText | None = None
    features: str | None = "features"  # array with the features
    label: str | None = None  # array with the labels; only for the active party and for clients


class ImageSettings(DataSettings):
    """Keys that all image data sets have."""

    part: ImagePart = ImagePart()
    noise: FeatureNoise | None = None


class SklearnData(ImageSettings):
    """A data set that comes with scikit-learn."""

    kind: Literal["sklearn"]
    name: Literal["digits", "breast_cancer", "iris", "wine"]  # data set
    features: bool = True  # whether the party has the features
    columns: tuple[int, ...] | None = None  # indices of the columns of a table; absent: all
    label: bool = False  # whether the party has the labels


class IdxData(ImageSettings):
    """Images and labels in the idx format of MNIST."""

    kind: Literal["idx"]
    images: PathText | None = None  # file with the images
    test_images: PathText | None = None  # file with the official test images
    labels: PathText | None = None  # file with the labels; only for the active party and clients
    test_labels: PathText | None = None  # file with the labels of the official test images


class MedMnistData(ImageSettings):
    """Images and labels in one .npz archive, by default with the array names of MedMNIST."""

    kind: Literal["medmnist"]
    path: PathText
    # Parts of the archive whose rows are not test rows.
    train: Annotated[tuple[str, ...], Field(min_length=1)] = ("train", "val")
    test: str | None = "test"  # part of the archive with the official test rows
    # Names of the arrays with the images and the labels; {} stands for the part.
    names: tuple[str, str] = ("{}_images", "{}_labels")
    features: bool = True  # whether the party has the images
    label: bool = False  # whether the party has the labels

    @field_validator("names")
    @classmethod
    def _have_a_placeholder(cls, names: tuple[str, str]) -> tuple[str, str]:
        if any(name.count("{}") != 1 for name in names):
            raise ValueError(
                "each entry of the key 'names' must contain {} exactly once; {} stands for a part "
                "of the archive, such as train"
            )
        return names


class CifarData(ImageSettings):
    """CIFAR batches, binary or pickled; pickles are parsed and never executed."""

    kind: Literal["cifar"]
    name: Literal["cifar10", "cifar100"]  # data set; for cifar100 the fine labels are used
    train: Annotated[tuple[PathText, ...], Field(min_length=1)]  # files with the training rows
    test: PathText | None = None  # file with the official test rows
    features: bool = True  # whether the party has the images
    label: bool = False  # whether the party has the labels


class SvhnData(ImageSettings):
    """Cropped digits of SVHN in their MATLAB files."""

    kind: Literal["svhn"]
    train: Annotated[tuple[PathText, ...], Field(min_length=1)]  # files with the training rows
    test: PathText | None = None  # file with the official test rows
    features: bool = True  # whether the party has the images
    label: bool = False  # whether the party has the labels


class TinyImageNetData(ImageSettings):
    """Folder of Tiny ImageNet; the validation images are the official test rows."""

    kind: Literal["tiny-imagenet"]
    path: PathText
    features: bool = True  # whether the party has the images
    label: bool = False  # whether the party has the labels


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

# Device of a model; a GPU needs a CUDA build of torch.
Device: TypeAlias = Annotated[str, Field(pattern=r"^(cpu|cuda(:[0-9]{1,2})?)$")]


class PartySettingsBase(ConfigTable):
    """Settings that all parties have; a server of the horizontal mode has no other settings."""

    hub: str | None = None  # address of the hub, host:port, at a passive party or a client
    listen: str | None = None  # address to listen on, host:port, at an active party or a server
    certificates: PathText = Path("certs")  # folder with ca.pem, NAME.pem and NAME.key
    # Folder of relative data paths; absent: the folder of the config.
    folder: PathText | None = None
    denied: tuple[Pin, ...] = ()  # pins of revoked keys
    # File with more pins of revoked keys, one per line; the file is read again after a change.
    denied_file: PathText | None = None
    strict: bool = False  # whether warnings about keys and certificates are errors
    threads: Annotated[int, Field(ge=1, le=1024)] = 1  # number of threads for computation

    @field_validator("hub")
    @classmethod
    def _target(cls, address: str | None) -> str | None:
        return address if address is None else checked_target(address)

    @field_validator("listen")
    @classmethod
    def _address(cls, address: str | None) -> str | None:
        return address if address is None else checked_address(address)


class RowPartySettings(PartySettingsBase):
    """Settings of a client in the horizontal mode."""

    data: Data  # rows of the party


class VerticalPartySettings(RowPartySettings):
    """Settings of a party in the vertical mode."""

    device: Device = "cpu"  # device of the party's network: cpu, cuda or cuda:NUMBER
    # JSON file with statistics of public rows for preprocessing; absent: statistics of the
    # training rows.
    statistics: PathText | None = None
    module: str | None = None  # import path of the party's own bottom, "package.module:Class"
    # For each request without classes, a file with the IDs to forget, one ID per line; only for the
    # active party.
    unlearn: dict[Name, PathText] = Field(default={})

    @model_validator(mode="after")
    def _module_is_an_import_path(self) -> Self:
        if self.module is not None and self.module.count(":") != 1:
            raise ValueError(
                "the key 'module' must be an import path such as mypackage.nets:Bottom"
            )
        return self
