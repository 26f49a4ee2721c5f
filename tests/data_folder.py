"""The folder of real data sets: $VFL_DATA, or ../shared/data beside the repository."""

import os
from pathlib import Path

import pytest

from parties.data.sources.cifar_source import CifarData
from parties.data.sources.csv_source import CsvData
from parties.data.sources.idx_source import IdxData
from parties.data.sources.medmnist_source import MedMnistData
from parties.data.sources.npz_source import NumpyData
from parties.data.sources.parquet_source import ParquetData
from parties.data.sources.sklearn_source import SklearnData
from parties.data.sources.source import DataSettings
from parties.data.sources.sql_source import SqlData
from parties.data.sources.tiny_imagenet_source import TinyImageNetData

BESIDE = Path(__file__).parents[2] / "shared" / "data"


VARIABLE, KEPT = "VFL_DATA", "VFL_DATA_OF_TESTS"
GIVEN = Path(os.environ.get(KEPT) or os.environ.get(VARIABLE) or BESIDE)


def hide() -> None:
    """Hide the folder from processes that a test starts; other test workers still use it."""
    os.environ[KEPT] = str(GIVEN)
    os.environ.pop(VARIABLE, None)


def folder() -> Path:
    return GIVEN


def files(data: DataSettings) -> list[Path]:
    """The files that a party's data settings name."""
    match data:
        case CsvData() | ParquetData() | NumpyData():
            named = [data.path, data.test_path]
        case IdxData():
            named = [data.images, data.labels, data.test_images, data.test_labels]
        case MedMnistData():
            named = [data.path]
        case CifarData():
            named = [*data.train, data.test]
        case TinyImageNetData():
            named = [data.path / "val" / "val_annotations.txt"]
        case SklearnData() | SqlData():
            named = []
    return [path for path in named if path is not None]


def needed(*data: DataSettings) -> Path:
    """The folder, if it has all files of ``data``; the test is skipped with their names if not."""
    absent = [str(folder() / path) for one in data for path in files(one)]
    absent = [path for path in absent if not Path(path).is_file()]
    if absent:
        pytest.skip(f"NOT RUN, no {', '.join(sorted(set(absent)))}; set VFL_DATA")
    return folder()
