"""Helpers of the source tests: read a holding, or return the text of the error."""

from pathlib import Path

import pytest

from configs.party_settings import Data
from parties.common.errors import DataError
from parties.data.holding import Holding, read_holding

CLASSES = tuple("0123456789")


def held(folder: Path, data: Data, active: bool = False) -> Holding:
    return read_holding(data, folder=folder, classes=CLASSES, active=active)


def refusal(folder: Path, data: Data, active: bool = False) -> str:
    with pytest.raises(DataError) as caught:
        held(folder, data, active)
    return f"{caught.value} | {caught.value.hint}"
