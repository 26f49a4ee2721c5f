"""Tests that a population equals the run between parties, except for rounding."""

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from three_parties import agreement, forget_some, inputs, networks, open_split_model

from models.ensemble import Ensemble
from parties.experiments.population.pooled_data import PooledData, WholeModel
from parties.experiments.population.run import run_population_method
from parties.experiments.population.trained import TrainedPopulation
from parties.requests.driver import carry_out
from parties.vertical.engine.local_model import ORIGINAL
from parties.vertical.engine.optimiser import UpdateRule
from parties.vertical.engine.split_model import SplitModel
from parties.vertical.engine.train import TrainingPlan, train_epochs
from parties.vertical.methods.network_run import NetworkRun
from parties.vertical.methods.registry import vertical_method
from parties.vertical.passive import PassiveSession
from protocol import vfl_pb2

BATCH, RATE = 16, 0.01
FEDORA: dict[str, Any] = {
    "policy": "present",
    "iterations": 4,
    "retain_share": 0.3,
    "batch": 16,
    "primal_step": 0.02,
    "utility_loss": 1.0,
    "check_every": 100,
}
HELD = {"margin": 0.0, "dual_step": 1.0}
PAPER = {
    "start": "original",
    "primal": "plain",
    "anneal": False,
    "calibrate": False,
    "adaptive": {},
    "policy": "uniform",
}
COUNTERFACTUAL = {"policy": "counterfactual", "iterations": 3, "redraw_epochs": 3}
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "fine-tune": ("fine-tune", {}),
    "gradient-ascent": ("gradient-ascent", {"gradient_ascent": {"steps": 4, "clip": 0.5}}),
    "relabel": ("relabel", {}),
    "top-only": ("top-only", {"top_only": {"epochs": 3}}),
    "shrink-perturb": ("shrink-perturb", {"shrink_perturb": {"top": "fresh"}}),
    "ico-like": ("ico-like", {"ico_like": {"steps": 9, "share": 0.5}}),
    "scrub": ("scrub", {"scrub": {"epochs": 2, "forget_epochs": 1}}),
    "cvfu": ("cvfu", {"cvfu": {"epochs": 3}}),
    "short-retrain": ("short-retrain", {"short_retrain": {"rows": 0.6}}),
    "fine-tune-rewind": ("fine-tune", {"fine_tune": {"start": "rewind"}}),
    "retrain-local": ("retrain-local", {"retrain_local": {"fit_epochs": 3, "top_epochs": 2}}),
    "retrain-local-projection": ("retrain-local", {"retrain_local": {"codes": "projection"}}),
    "retrain-local-fixed": ("retrain-local", {"retrain_local": {"codes": "fixed"}}),
    "fedora": ("fedora", {"fedora": FEDORA}),
    "fedora-heldout": ("fedora", {"fedora": FEDORA | HELD | {"policy": "heldout"}}),
    "fedora-present": ("fedora", {"fedora": FEDORA | HELD | {"check_every": 2}}),
    "fedora-fresh-top": ("fedora", {"fedora": FEDORA | {"start": "fresh-top"}}),
    "fedora-shrink": ("fedora", {"fedora": FEDORA | {"start": "shrink", "shrink_top": "shrink"}}),
    "fedora-paper": ("fedora", {"fedora": FEDORA | PAPER}),
    "fedora-proxy": ("fedora", {"fedora": FEDORA | PAPER | {"policy": "proxy", "score_rows": 20}}),
    "fedora-counterfactual": ("fedora", {"fedora": COUNTERFACTUAL}),
    "fedora-noise": ("fedora", {"fedora": COUNTERFACTUAL | {"noise": 2.0}}),
    "fedora-redrawn": ("fedora", {"fedora": COUNTERFACTUAL | {"start": "redrawn"}}),
    "fedora-no-rows": ("fedora", {"fedora": FEDORA | PAPER | {"retain_share": 0.0}}),
}


def whole_model(split_model: SplitModel, sessions: Mapping[str, PassiveSession]) -> WholeModel:
    """Return the current model of all parties as one module."""
    party_networks = networks(split_model, sessions)
    hub = party_networks["hub"]
    bottoms = {"hub": hub.bottom, "left": party_networks["left"], "right": party_networks["right"]}
    return WholeModel(bottoms, hub.top)


# SCRUB begins where its gradient is zero; there, Adam makes rounding errors larger.
ROUNDING = {"scrub": 1e-7}


def votes() -> dict[str, Any]:
    parties = agreement()["parties"]
    return {
        "parties": {name: each | {"width": 3} for name, each in parties.items()},
        "top": {"kind": "sum"},
    }


@pytest.mark.parametrize("method", METHODS)
def test_population_method_equals_the_method_between_parties(tmp_path: Path, method: str) -> None:
    name, unlearning = METHODS[method]
    changes = votes() if name == "cvfu" else {}
    # These fit preprocessing to D_r, but a population has one for all rows.
    policy = unlearning.get("fedora", {}).get("policy")
    if name in ("retrain-local", "short-retrain") or policy == "counterfactual":
        changes = {"preprocessing": "declared"}
    training = {"batch": BATCH, "learning_rate": RATE, "epochs": 2}
    with open_split_model(tmp_path, unlearning=unlearning, training=training, **changes) as opened:
        split_model, sessions = opened
        forget_some(split_model)
        rule = UpdateRule.like_training(split_model.agreement.training, RATE)
        split_model.initialise(ORIGINAL, vfl_pb2.TRAIN_ROWS, vfl_pb2.TRAIN, rule=rule)
        plan = TrainingPlan("training", vfl_pb2.TRAIN_ROWS, 2, BATCH, early=1)
        early: list[WholeModel] = []
        keep_copy = split_model.keep_copy

        def watched(slot: str, task: vfl_pb2.Task) -> None:
            keep_copy(slot, task)
            if slot == "early checkpoint":
                early.append(copy.deepcopy(whole_model(split_model, sessions)))

        split_model.keep_copy = watched  # type: ignore[method-assign]
        train_epochs(split_model, plan)
        split_model.keep_copy(ORIGINAL, vfl_pb2.TRAIN)
        original = copy.deepcopy(whole_model(split_model, sessions))
        values = {each: inputs(split_model, sessions)[each] for each in ("hub", "left", "right")}
        pooled = PooledData(split_model.agreement, split_model.rows, values, split_model.labels)
        trained = TrainedPopulation(
            pooled,
            [split_model.rows] * 2,
            ["", ""],
            Ensemble.of([original, original]),
            {0.2: Ensemble.of([early[0], early[0]])},
        )
        carry_out(vertical_method(name), NetworkRun(split_model))
        expected = Ensemble.of([whole_model(split_model, sessions)]).parameters
        models = run_population_method(trained, name).models  # type: ignore[arg-type]
        moved = 0.0
        for each, tensor in models.parameters.items():
            assert (tensor - expected[each]).abs().max() < ROUNDING.get(method, 1e-8), each
            moved = max(moved, (tensor - trained.original.parameters[each]).abs().max().item())
        assert moved > 1e-4
