"""The convex head between parties: one optimum, a valid bound, noise if it is agreed."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from monolith import ORDER, Monolith
from test_resume import assert_equal_metrics, prepare, run_parties
from three_parties import inputs, networks, open_split_model
from torch import Tensor
from torch.nn.functional import cross_entropy
from whole_run import QUICK, run

from parties.common.json_files import canonical_json
from parties.report.pages.scientist import report_page
from parties.requests.driver import carry_out
from parties.vertical.engine.train import NewtonRun, distance_to_copy, run_newton
from parties.vertical.methods.network_run import NetworkRun
from parties.vertical.methods.newton_cg import NewtonCgMethod
from parties.vertical.methods.train_model import train_model
from protocol import vfl_pb2
from unlearning.guarantee import Guarantee

LINEAR = {"kind": "mlp", "hidden": []}
HEAD: dict[str, Any] = {
    "parties": {
        name: {"role": "active" if name == "hub" else "passive", "width": 3, "bottom": LINEAR}
        for name in ORDER
    },
    "top": {"kind": "sum"},
    "preprocessing": "declared",
    "training": {"optimiser": "newton-cg"},
    "newton": {"weight": 1e-2, "bound": 1e-5},
}
FORGET = ({"name": "request", "classes": ["a"], "fraction": 0.5},)
WALK = NewtonRun("training", vfl_pb2.TRAIN, vfl_pb2.TRAIN_ROWS, 1e-6)


def optimum(model: Monolith, rows: Any, weight: float) -> list[Tensor]:
    """The minimum of F in one process, by L-BFGS."""
    parameters = model.parameters

    def loss() -> Tensor:
        squares = torch.stack([p.square().sum() for p in parameters]).sum()
        objective = cross_entropy(model.logits(rows), model.labels[rows]) + weight / 2 * squares
        solver.zero_grad()
        objective.backward()  # type: ignore[no-untyped-call]
        return objective

    options = {"tolerance_grad": 1e-12, "tolerance_change": 0.0, "line_search_fn": "strong_wolfe"}
    solver = torch.optim.LBFGS(parameters, max_iter=2000, **options)  # type: ignore[arg-type]
    solver.step(loss)  # type: ignore[no-untyped-call]
    return [p.detach() for p in parameters]


def test_parties_reach_the_optimum_of_one_process_within_their_bound(tmp_path: Path) -> None:
    with open_split_model(tmp_path, **HEAD) as (split_model, sessions):
        split_model.initialise("original", vfl_pb2.TRAIN_ROWS, vfl_pb2.TRAIN)
        steps = run_newton(split_model, WALK)
        single_process = Monolith.copy(
            networks(split_model, sessions), inputs(split_model, sessions), split_model.labels
        )
        current = [p.detach().clone() for p in single_process.parameters]
        best = optimum(single_process, split_model.rows.train, 1e-2)
    difference = (
        sum(float((a - b).square().sum()) for a, b in zip(current, best, strict=True)) ** 0.5
    )
    assert steps[-1].bound <= 1e-6
    assert difference <= steps[-1].bound + 1e-9
    bounds = [each.bound for each in steps]
    assert bounds == sorted(bounds, reverse=True)


def test_products_with_the_hessian_are_bounded(tmp_path: Path) -> None:
    few = HEAD | {"newton": {"weight": 1e-2, "products": 7, "bound": 1e-9}}
    with open_split_model(tmp_path, **few) as (split_model, _):
        split_model.initialise("original", vfl_pb2.TRAIN_ROWS, vfl_pb2.TRAIN)
        steps = run_newton(split_model, WALK)
    assert sum(each.step.products for each in steps) == 7


def test_the_report_holds_bounds_and_true_distances(tmp_path: Path) -> None:
    plan = QUICK | {"method": "newton-cg", "compare": ("fine-tune", "relabel")}
    metrics = run(tmp_path, unlearn=FORGET, unlearning=plan, **HEAD)
    rows = {each["name"]: each for each in metrics["requests"][0]["methods"]}
    certificate, reference = rows["newton-cg"]["details"]["certificate"], rows["retrain-paired"]
    bounds = [each["bound"] for each in certificate["steps"]]
    difference = [each["distance"] for each in reference["details"]["distances"]]
    nearest = reference["details"]["bound"]
    assert len(bounds) == len(difference) > 1
    assert all(b + nearest >= d for b, d in zip(bounds, difference, strict=True))
    assert difference[0] > 1e-3  # the original was another model
    assert certificate["bound"] <= certificate["wanted"] == 1e-5
    assert difference[-1] <= 1e-5
    assert rows["newton-cg"]["guarantee"] == "distance-certified"
    assert "distance-certified" in report_page(json.loads(canonical_json(metrics)))


def test_noise_is_added_once_the_bound_is_reached(tmp_path: Path) -> None:
    newton = {"weight": 1e-2, "bound": 1e-2, "release": {"epsilon": 1.0, "delta": 1e-5}}
    with open_split_model(tmp_path, **(HEAD | {"newton": newton})) as (split_model, sessions):
        train_model(split_model, vfl_pb2.TRAIN_ROWS, "original", "training")
        split_model.keep_copy("original", vfl_pb2.TRAIN)
        split_model.forget(split_model.rows.train[:20])
        facts = carry_out(NewtonCgMethod(), NetworkRun(split_model))
        last = len(facts.figures["certificate"]["steps"]) - 1
        moved = distance_to_copy(split_model, f"newton-cg, step {last}")
        count = sum(
            p.numel() for n in networks(split_model, sessions).values() for p in n.parameters()
        )
    assert facts.guarantee is Guarantee.CERTIFIED
    assert facts.figures["certificate"]["noise"] == pytest.approx(3.7306e-2, rel=1e-3)
    assert moved == pytest.approx(3.7306e-2 * count**0.5, rel=0.5)


def test_no_noise_and_no_guarantee_if_the_budget_ends_before_the_bound(tmp_path: Path) -> None:
    newton = {"weight": 1e-2, "bound": 1e-9, "products": 2, "release": {"epsilon": 1.0}}
    with open_split_model(tmp_path, **(HEAD | {"newton": newton})) as (split_model, _):
        train_model(split_model, vfl_pb2.TRAIN_ROWS, "original", "training")
        split_model.keep_copy("original", vfl_pb2.TRAIN)
        split_model.forget(split_model.rows.train[:20])
        facts = carry_out(NewtonCgMethod(), NetworkRun(split_model))
        last = len(facts.figures["certificate"]["steps"]) - 1
        assert distance_to_copy(split_model, f"newton-cg, step {last}") == 0
    assert facts.guarantee is None
    assert facts.stopped == "the effort was spent"
    assert facts.figures["certificate"]["epsilon"] is None


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("hub", 500),
        pytest.param("left", 150, marks=pytest.mark.slow),
        pytest.param("right", 420, marks=pytest.mark.slow),
    ],
)
def test_newton_run_after_a_crash_has_the_same_result(
    tmp_path: Path, name: str, message: int
) -> None:
    plan = QUICK | {"method": "newton-cg", "compare": ("fine-tune", "relabel")}
    changes = HEAD | {"unlearn": FORGET, "unlearning": plan}
    for folder in ("whole", "crashed"):
        (tmp_path / folder).mkdir()
        prepare(tmp_path / folder)
    uninterrupted = run_parties(tmp_path / "whole", **changes)
    run_parties(tmp_path / "crashed", (name, message), **changes)
    result = run_parties(tmp_path / "crashed", **changes)
    assert any(note.startswith("resumed checkpoint") for note in result.notes)
    assert result.files == uninterrupted.files
    assert_equal_metrics(result.metrics, uninterrupted.metrics)
