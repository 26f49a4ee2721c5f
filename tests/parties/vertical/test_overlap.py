"""Modes that overlap computation and network: what they may change in a run, and what not."""

from pathlib import Path
from typing import Any

import pytest
from three_parties import agreement
from whole_run import TRAINING, run

from parties.vertical.methods.registry import AGREEMENT


def losses(folder: Path, **training: Any) -> list[float]:
    folder.mkdir()
    metrics = run(folder, training={**TRAINING, "epochs": 4, **training})
    assert metrics["run"]["overlap"] == training.get("overlap", "none")
    return [epoch["loss"] for epoch in metrics["training"]["steps"]]


def test_micro_batches_give_equal_losses_except_for_rounding(tmp_path: Path) -> None:
    exact = losses(tmp_path / "exact")
    microbatched = losses(tmp_path / "halves", overlap="microbatch")
    assert microbatched == pytest.approx(exact, rel=1e-9)


def test_pipelining_changes_losses_by_delayed_gradients(tmp_path: Path) -> None:
    exact, late = losses(tmp_path / "exact"), losses(tmp_path / "late", overlap="pipeline")
    assert late != exact
    assert late[-1] < late[0]
    assert late == pytest.approx(exact, rel=0.2)
    assert late == losses(tmp_path / "again", overlap="pipeline")


@pytest.mark.parametrize("overlap", ["microbatch", "pipeline"])
def test_unlearning_runs_in_every_overlap_mode(tmp_path: Path, overlap: str) -> None:
    request = ({"name": "half", "classes": ["a"], "fraction": 0.5},)
    metrics = run(tmp_path, training={**TRAINING, "overlap": overlap}, unlearn=request)
    names = [method["name"] for method in metrics["requests"][0]["methods"]]
    assert names[:4] == ["original", "fedora", "fine-tune", "gradient-ascent"]
    assert names[-1] == "retrain-paired"


def test_an_odd_batch_cannot_be_halved() -> None:
    plan = agreement(training={"batch": 15, "overlap": "microbatch"})
    with pytest.raises(ValueError, match="an even number"):
        AGREEMENT.model_validate(plan, strict=False)
