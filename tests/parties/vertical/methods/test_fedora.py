"""FedORA between parties: the schedule of the primal step, and when the score counts as reached."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fixed_threshold import run_fedora
from three_parties import PAPER, forget_some, open_split_model, start_training

from parties.vertical.methods.fedora import calibrate_top
from parties.vertical.methods.method import MethodResult
from parties.vertical.methods.network_run import NetworkRun
from protocol import vfl_pb2

PLAN = PAPER | {"adaptive": False, "iterations": 4, "check_every": 9, "utility_loss": 1.0}


def fedora(folder: Path, gamma: float, **settings: Any) -> MethodResult:
    """Run FedORA with the threshold ``gamma`` from a model that was not trained."""
    with open_split_model(folder, unlearning={"fedora": PLAN | settings}) as (split_model, _):
        forget_some(split_model)
        start_training(split_model, "original")
        split_model.keep_copy("original", vfl_pb2.TRAIN)
        return run_fedora(split_model, gamma, 0.0)


def test_primal_steps_follow_the_schedule_by_hand(tmp_path: Path) -> None:
    """Iterations begin at 0, 1/4, 1/2 and 3/4; at 3/4 the cosine is half-way from 1 to 0.2."""
    anneal = {"warmup": 0.25, "hold": 0.5, "floor": 0.2}
    result = fedora(tmp_path, 1.0, anneal=anneal, primal_step=0.01)
    steps = [each["primal_step"] for each in result.iterations]
    assert steps == pytest.approx([0.002, 0.01, 0.01, 0.006])


@pytest.mark.parametrize(
    ("gamma", "iterations", "stopped"),
    [(-2.19, 2, "converged"), (2.19, 4, "out of iterations")],
    ids=["score above", "score below"],
)
def test_only_a_score_of_at_least_the_threshold_ends_unlearning(
    tmp_path: Path, gamma: float, iterations: int, stopped: str
) -> None:
    """ω log C = 2.197 bounds the score; the second iteration is the first with a known change."""
    result = fedora(tmp_path, gamma, primal_step=1e-6)
    assert (len(result.iterations), result.stopped) == (iterations, stopped)


@pytest.mark.parametrize("calibrate", [True, False])
def test_calibration_restores_the_median_confidence(tmp_path: Path, calibrate: bool) -> None:
    """The original's logits are 1.4 times as large, so the top model is scaled by 1.4.

    All forgotten rows are of class 0, so the validation rows of the other classes are compared.
    """
    plan = {"fedora": PLAN | {"calibrate": calibrate}}
    with open_split_model(tmp_path, unlearning=plan) as (split_model, _):
        train = split_model.rows.train
        split_model.forget(np.sort(train[(split_model.labels[train] == 0).numpy()][:5]))
        start_training(split_model, "original")
        run = NetworkRun(split_model)
        before = run.logits(vfl_pb2.VALIDATION)[0]
        factor = calibrate_top(run, [1.4 * before])
        after = run.logits(vfl_pb2.VALIDATION)[0]
    expected = 1.4 if calibrate else 1.0
    assert factor == (pytest.approx(1.4, rel=1e-5) if calibrate else None)
    torch.testing.assert_close(after, expected * before, rtol=1e-4, atol=1e-5)
