"""The registry of data sources: the settings of all sources, one of which is a party's data."""

from typing import Annotated, TypeAlias

from pydantic import Field

from parties.data.sources.cifar_source import CifarData
from parties.data.sources.csv_source import CsvData
from parties.data.sources.idx_source import IdxData
from parties.data.sources.medmnist_source import MedMnistData
from parties.data.sources.npz_source import NumpyData
from parties.data.sources.parquet_source import ParquetData
from parties.data.sources.sklearn_source import SklearnData
from parties.data.sources.sql_source import SqlData
from parties.data.sources.svhn_source import SvhnData
from parties.data.sources.tiny_imagenet_source import TinyImageNetData

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
