"""Settings of a training in clusters: settings that cannot return to an earlier model."""

from pathlib import Path

import pytest

from configs.errors import ConfigError
from tests.configs.four_clients import agreed

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
    "more clusters than clients": ("training.clusters=5", "5 clusters and 4 clients"),
    "moments": (
        "training.rule.kind='fedavgm'",
        "set training.rule.kind = 'fedavg'",
    ),
    "own parameters": ("personal.kind='fedper'", "set personal.kind = 'none'"),
    "a history": ("history.every=1", "history.every = 0"),
    "knot in one cluster": ("training.clusters=1", "and the method 'knot' must be used together"),
    "clusters without knot": (
        "unlearning.method='fedosd'",
        "and the method 'knot' must be used together",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_invalid_cluster_settings_are_refused(tmp_path: Path, case: str) -> None:
    change, message = REFUSED[case]
    with pytest.raises(ConfigError, match=message):
        agreed(tmp_path, BESIDE, change)


@pytest.mark.parametrize(
    "changes", [(), ("personal.kind='per-fedavg'",), ("unlearning.compare=['fedosd']",)]
)
def test_valid_cluster_settings_are_accepted(tmp_path: Path, changes: tuple[str, ...]) -> None:
    assert agreed(tmp_path, BESIDE, *changes).training.clusters == 2


def test_knot_is_accepted_as_comparison(tmp_path: Path) -> None:
    agreement = agreed(
        tmp_path, BESIDE, "unlearning.method='fedosd'", "unlearning.compare=['knot']"
    )
    assert agreement.unlearning.compare == ("knot",)
