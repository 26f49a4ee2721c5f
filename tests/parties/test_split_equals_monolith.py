"""The split model equals one process: gradients, training and FedORA."""

from pathlib import Path
from typing import Any

import pytest
from apart import fedora_apart, gradients_apart, training_apart


def test_gradients_of_loss_and_forgetting_score(tmp_path: Path) -> None:
    assert gradients_apart(tmp_path) < 1e-10


@pytest.mark.parametrize("optimiser", ["adam", "sgd"])
def test_parameters_after_twenty_training_steps(tmp_path: Path, optimiser: str) -> None:
    steps, apart = training_apart(tmp_path, optimiser)
    assert steps >= 20
    assert apart < 1e-8


def test_parameters_after_twenty_fedora_iterations(tmp_path: Path) -> None:
    price, alone, apart = fedora_apart(tmp_path)
    assert price > 0  # the constraint pushed
    assert price == pytest.approx(alone, rel=1e-9)
    assert apart < 1e-8


SHRINK = {"start": "shrink", "shrink": 0.3, "shrink_top": "fresh"}


@pytest.mark.parametrize(
    ("changes", "alone_with"),
    [
        ({"retain_share": 0.0}, {"gamma": 2.0}),
        ({"extrapolate": True}, {"extrapolate": True}),
        ({"score": False}, {"cap": 0.0}),
        (SHRINK, {"gamma": 2.19}),
    ],
    ids=["no retained rows", "extrapolated", "no score", "shrunk start"],
)
def test_parameters_of_fedora_s_other_forms(
    tmp_path: Path, changes: dict[str, Any], alone_with: dict[str, Any]
) -> None:
    price, alone, apart = fedora_apart(tmp_path, alone_with, **changes)
    assert price == pytest.approx(alone, rel=1e-9)
    assert (price > 0) is changes.get("score", True)
    assert apart < 1e-8
