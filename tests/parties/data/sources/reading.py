"""Helpers of the source tests: read a holding, or return the text of the error."""

from pathlib import Path

import pytest

from parties.common.errors import DataError
from parties.data.holding import Holding, read_holding
from parties.data.sources.source import DataSettings

CLASSES = tuple("0123456789")


def held(folder: Path, data: DataSettings, active: bool = False) -> Holding:
    return read_holding(data, folder=folder, classes=CLASSES, active=active)


def refusal(folder: Path, data: DataSettings, active: bool = False) -> str:
    with pytest.raises(DataError) as caught:
        held(folder, data, active)
    return f"{caught.value} | {caught.value.hint}"
