"""The folder of real data sets: $VFL_DATA, or ../shared/data beside the repository."""

import os
from pathlib import Path

import pytest

from parties.data.sources.source import DataSettings

BESIDE = Path(__file__).parents[2] / "shared" / "data"


VARIABLE, KEPT = "VFL_DATA", "VFL_DATA_OF_TESTS"
GIVEN = Path(os.environ.get(KEPT) or os.environ.get(VARIABLE) or BESIDE)


def hide() -> None:
    """Hide the folder from processes that a test starts; other test workers still use it."""
    os.environ[KEPT] = str(GIVEN)
    os.environ.pop(VARIABLE, None)


def folder() -> Path:
    return GIVEN


def needed(*data: DataSettings) -> Path:
    """The folder, if it has all files of ``data``; the test is skipped with their names if not."""
    absent = [str(folder() / path) for one in data for path in one.files()]
    absent = [path for path in absent if not Path(path).is_file()]
    if absent:
        pytest.skip(f"NOT RUN, no {', '.join(sorted(set(absent)))}; set VFL_DATA")
    return folder()
