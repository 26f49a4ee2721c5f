"""Settings of a training in clusters: settings that cannot return to an earlier model."""

from pathlib import Path

import pytest

from configs.errors import ConfigError
from tests.configs.wards import agreed

BESIDE = """
model = { kind = "mlp", hidden = [4] }
training = { clusters = 2 }
unlearning = { method = "knot" }

[settings.server]
listen = "127.0.0.1:7709"

[settings.client]
data = { kind = "sklearn", name = "digits", label = true }
"""

REFUSED = {
    "more clusters than clients": ("training.clusters=5", "5 clusters are too many for 4 clients"),
    "moments": (
        "training.rule.kind='fedavgm'",
        "the server has no moments: training.rule.kind = 'fedavg'",
    ),
    "own parameters": ("personal.kind='fedper'", "personal parameters: personal.kind = 'none'"),
    "a history": ("history.every=1", "history.every = 0"),
    "knot in one cluster": ("training.clusters=1", "the method 'knot' go together"),
    "clusters without knot": ("unlearning.method='fedosd'", "the method 'knot' go together"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_go_back_is_refused(tmp_path: Path, case: str) -> None:
    change, told = REFUSED[case]
    with pytest.raises(ConfigError, match=told):
        agreed(tmp_path, BESIDE, change)


@pytest.mark.parametrize(
    "changes", [(), ("personal.kind='per-fedavg'",), ("unlearning.compare=['fedosd']",)]
)
def test_what_can_is_not(tmp_path: Path, changes: tuple[str, ...]) -> None:
    assert agreed(tmp_path, BESIDE, *changes).training.clusters == 2


def test_knot_may_be_what_others_are_compared_with(tmp_path: Path) -> None:
    found = agreed(tmp_path, BESIDE, "unlearning.method='fedosd'", "unlearning.compare=['knot']")
    assert found.unlearning.compare == ("knot",)
