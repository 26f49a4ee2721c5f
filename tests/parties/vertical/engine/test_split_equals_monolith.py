"""The split model equals one process: gradients, training and FedORA."""

from pathlib import Path
from typing import Any

import pytest
from monolith_difference import fedora_difference, gradient_difference, training_difference


def test_gradients_of_loss_and_forgetting_score_are_equal(tmp_path: Path) -> None:
    assert gradient_difference(tmp_path) < 1e-10


@pytest.mark.parametrize("optimiser", ["adam", "sgd"])
def test_parameters_after_twenty_training_steps_are_equal(tmp_path: Path, optimiser: str) -> None:
    steps, difference = training_difference(tmp_path, optimiser)
    assert steps >= 20
    assert difference < 1e-8


def test_parameters_after_twenty_fedora_iterations_are_equal(tmp_path: Path) -> None:
    multiplier, single_process_multiplier, difference = fedora_difference(tmp_path)
    assert multiplier > 0  # the constraint pushed
    assert multiplier == pytest.approx(single_process_multiplier, rel=1e-9)
    assert difference < 1e-8


SHRINK = {"start": "shrink", "shrink": 0.3, "shrink_top": "fresh"}


@pytest.mark.parametrize(
    ("changes", "settings_of_single_process"),
    [
        ({"retain_share": 0.0}, {"gamma": 2.0}),
        ({"extrapolate": True}, {"extrapolate": True}),
        ({"score": False}, {"cap": 0.0}),
        (SHRINK, {"gamma": 2.19}),
    ],
    ids=["no retained rows", "extrapolated", "no score", "shrunk start"],
)
def test_parameters_of_fedora_variants_are_equal(
    tmp_path: Path, changes: dict[str, Any], settings_of_single_process: dict[str, Any]
) -> None:
    multiplier, single_process_multiplier, difference = fedora_difference(
        tmp_path, settings_of_single_process, **changes
    )
    assert multiplier == pytest.approx(single_process_multiplier, rel=1e-9)
    assert (multiplier > 0) is changes.get("score", True)
    assert difference < 1e-8
