"""The KKT report between parties equals that of one process."""

import json
import math
from pathlib import Path

import pytest
import torch
from monolith import Monolith
from three_parties import forget_some, inputs, networks, open_split_model, start_training
from whole_run import run

from parties.common.json_files import canonical_json
from parties.report.pages.scientist import report_page
from parties.vertical.engine.train import TrainingPlan, train_epochs
from parties.vertical.methods.kkt import ANCHOR, KktTerms, kkt_report
from parties.vertical.methods.network_run import NetworkRun
from parties.vertical.methods.run import Batch
from protocol import vfl_pb2
from unlearning.objectives import forgetting_scores

FORGET = ({"name": "request", "classes": ["a"], "fraction": 0.5},)
GAMMA, PRICE, RHO = 0.5, 0.4, 0.2


def scores(batch: Batch) -> torch.Tensor:
    return forgetting_scores(batch.logits.flatten(0, 1), 2.0)


TERMS = KktTerms(scores, proximal=RHO, tolerance=1e-3)


def norm(tensors: list[object]) -> float:
    return math.sqrt(sum(float((t * t).sum()) for t in tensors))  # type: ignore[operator]


def test_residuals_equal_one_process(tmp_path: Path) -> None:
    fedora = {"proximal": RHO}
    with open_split_model(tmp_path, unlearning={"fedora": fedora}) as (split_model, sessions):
        forget_some(split_model)
        start_training(split_model, "original")
        split_model.keep_copy(ANCHOR, vfl_pb2.TRAIN)
        start = [
            p.detach().clone()
            for name in ("hub", "left", "right")
            for p in networks(split_model, sessions)[name].parameters()
        ]
        train_epochs(split_model, TrainingPlan("training", vfl_pb2.TRAIN_ROWS, 1, 16))
        report = kkt_report(NetworkRun(split_model), GAMMA, PRICE, TERMS)
        party_networks, features = networks(split_model, sessions), inputs(split_model, sessions)
        model = Monolith.copy(party_networks, features, split_model.labels)
        rows = split_model.rows
    assert report is not None
    score = model.score(rows.forgotten, 2.0)
    of_score = model.gradient(score)
    of_loss = model.gradient(model.loss(rows.retain))
    residuals = [
        g - PRICE * u + RHO * (p.detach() - p0)
        for g, u, p, p0 in zip(of_loss, of_score, model.parameters, start, strict=True)
    ]
    wanted = norm(residuals) / (1 + norm(of_loss))  # type: ignore[arg-type]
    assert report["stationarity"] == pytest.approx(wanted, rel=1e-9)
    assert report["primal"] == pytest.approx(max(0.0, GAMMA - score.item()))
    assert report["complementarity"] == pytest.approx(PRICE * abs(GAMMA - score.item()))
    assert report["dual"] == PRICE
    assert report["converged"] is False


def test_report_is_printed_and_not_counted_in_the_cost(tmp_path: Path) -> None:
    (tmp_path / "strict").mkdir()
    (tmp_path / "lax").mkdir()
    strict = run(tmp_path / "strict", unlearn=FORGET)["requests"][0]["methods"][1]
    metrics = run(tmp_path / "lax", unlearn=FORGET, fedora={"tolerance": 1e3})
    lax = metrics["requests"][0]["methods"][1]
    assert strict["name"] == lax["name"] == "fedora"
    assert strict["details"]["kkt"]["converged"] is False
    assert lax["details"]["kkt"]["converged"] is True
    assert [each["guarantee"] for each in (strict, lax)] == ["heuristic", "KKT report"]
    assert "does not show that anything was forgotten" in report_page(
        json.loads(canonical_json(metrics))
    )


def test_literal_dual_has_no_kkt_report(tmp_path: Path) -> None:
    with open_split_model(tmp_path) as (split_model, _):
        assert kkt_report(NetworkRun(split_model), GAMMA, None, TERMS) is None
