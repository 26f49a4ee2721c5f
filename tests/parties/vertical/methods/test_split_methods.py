"""Each method between parties equals the same method in one process."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import single_process_methods as single_process
import torch
from monolith import Monolith
from monolith_difference import (
    copy_to_one_process,
    largest_difference,
    new_networks,
    shrink_towards,
)
from three_parties import agreement, forget_some, open_split_model, start_training

from parties.requests.driver import carry_out
from parties.vertical.engine.local_model import ORIGINAL
from parties.vertical.engine.rows import RowSets, Sample
from parties.vertical.engine.split_model import SplitModel
from parties.vertical.engine.train import TrainingPlan, train_epochs
from parties.vertical.methods.cvfu import CvfuMethod
from parties.vertical.methods.fine_tune import FineTuneMethod
from parties.vertical.methods.gradient_ascent import GradientAscentMethod
from parties.vertical.methods.ico_like import IcoLikeMethod
from parties.vertical.methods.network_run import NetworkRun
from parties.vertical.methods.registry import AnyMethod
from parties.vertical.methods.relabel import RelabelMethod
from parties.vertical.methods.retrain import RetrainMethod
from parties.vertical.methods.shrink_perturb import ShrinkPerturbMethod
from parties.vertical.methods.top_only import TopOnlyMethod
from parties.vertical.passive import PassiveSession
from protocol import vfl_pb2

BATCH, RATE = 16, 0.01
Trained = tuple[SplitModel, dict[str, PassiveSession], Monolith]


@contextmanager
def trained(folder: Path, unlearning: dict[str, Any], **changes: Any) -> Iterator[Trained]:
    """A split model with a trained model in the slot ``original``, and its copy in one process."""
    with open_split_model(folder, unlearning=unlearning, **changes) as (split_model, sessions):
        forget_some(split_model)
        start_training(split_model, ORIGINAL)
        train_epochs(split_model, TrainingPlan("training", vfl_pb2.TRAIN_ROWS, 2, BATCH))
        split_model.keep_copy(ORIGINAL, vfl_pb2.TRAIN)
        yield split_model, sessions, copy_to_one_process(split_model, sessions)


def parameter_distance(parties: Trained, method: AnyMethod) -> float:
    """Run the method between the parties; return the distance from the single process."""
    split_model, sessions, model = parties
    carry_out(method, NetworkRun(split_model))
    return largest_difference(split_model, sessions, model)


def batches(sets: RowSets, rows: vfl_pb2.Rows, stream: str, epochs: int) -> Iterator[np.ndarray]:
    for epoch in range(1, epochs + 1):
        yield from single_process.shuffled(sets.shuffled(rows, stream, epoch), BATCH)  # type: ignore[misc]


def adam(model: Monolith) -> torch.optim.Optimizer:
    return torch.optim.Adam(model.parameters, RATE)


def test_fine_tune_equals_one_process(tmp_path: Path) -> None:
    with trained(tmp_path, {"fine_tune": {"epochs": 2, "learning_rate": RATE}}) as parties:
        split_model, _, model = parties
        orders = batches(split_model.rows, vfl_pb2.RETAIN, "fine-tune", 2)
        single_process.descend(model, orders, adam(model), model.labels)
        assert parameter_distance(parties, FineTuneMethod()) < 1e-8


def test_gradient_ascent(tmp_path: Path) -> None:
    plan = {"learning_rate": 0.05, "steps": 4, "clip": 0.5}
    with trained(tmp_path, {"gradient_ascent": plan}) as parties:
        split_model, _, model = parties
        single_process.ascend(model, split_model.rows.forgotten, 0.05, 0.5, 4)
        assert parameter_distance(parties, GradientAscentMethod()) < 1e-8


def test_relabel(tmp_path: Path) -> None:
    with trained(tmp_path, {"relabel": {"epochs": 2, "learning_rate": RATE}}) as parties:
        split_model, _, model = parties
        wrong = RelabelMethod().labels(NetworkRun(split_model))[0]
        changed = (wrong != split_model.labels).nonzero().flatten().tolist()
        assert changed == sorted(split_model.rows.forgotten.tolist())
        orders = batches(split_model.rows, vfl_pb2.TRAIN_ROWS, "relabel", 2)
        single_process.descend(model, orders, adam(model), wrong)
        assert parameter_distance(parties, RelabelMethod()) < 1e-8


def test_top_only(tmp_path: Path) -> None:
    with trained(tmp_path, {"top_only": {"epochs": 3, "learning_rate": RATE}}) as parties:
        split_model, sessions, model = parties
        shrink_towards(model, new_networks(split_model, sessions, "top-only"), 0.0, 1.0)
        top = torch.optim.Adam(model.networks["hub"].top.parameters(), RATE)  # type: ignore[union-attr]
        orders = batches(split_model.rows, vfl_pb2.RETAIN, "top-only", 3)
        single_process.descend(model, orders, top, model.labels)
        sent = split_model.party.traffic.total("Embedding").rows
        assert parameter_distance(parties, TopOnlyMethod()) < 1e-8
        shown = split_model.party.traffic.total("Embedding").rows - sent
        assert shown == 2 * len(
            split_model.rows.retain
        )  # once, by two passive parties; and counted


@pytest.mark.parametrize(("word", "top"), [("keep", 0.0), ("shrink", 0.4), ("fresh", 1.0)])
def test_shrink_perturb(tmp_path: Path, word: str, top: float) -> None:
    plan = {"share": 0.4, "top": word, "epochs": 1, "learning_rate": RATE}
    with trained(tmp_path, {"shrink_perturb": plan}) as parties:
        split_model, sessions, model = parties
        shrink_towards(model, new_networks(split_model, sessions, "shrink-perturb"), 0.4, top)
        orders = batches(split_model.rows, vfl_pb2.RETAIN, "shrink-perturb", 1)
        single_process.descend(model, orders, adam(model), model.labels)
        assert parameter_distance(parties, ShrinkPerturbMethod()) < 1e-8


@pytest.mark.parametrize("limit", [10.0, 1e-3], ids=["unclipped", "clipped"])
def test_ico_like(tmp_path: Path, limit: float) -> None:
    plan = {"step": 2.0, "limit": limit, "share": 0.5, "steps": 9, "learning_rate": 0.1}
    with trained(tmp_path, {"ico_like": plan}) as parties:
        split_model, _, model = parties
        rows = replace(split_model.rows, sample=Sample("correction", 0.5))
        step = 2.0 * len(rows.forgotten) / len(rows.train)
        factor = single_process.ico(model, rows.forgotten, step, limit)
        assert (factor < step) is (limit < 1)
        assert len(rows.select(vfl_pb2.SAMPLE)) == -(-len(rows.retain) // 2)
        orders = batches(rows, vfl_pb2.SAMPLE, "ico-like", 9)
        sgd = torch.optim.SGD(model.parameters, 0.1)
        single_process.descend(model, single_process.first(orders, 9), sgd, model.labels)
        assert parameter_distance(parties, IcoLikeMethod()) < 1e-8


def votes() -> dict[str, Any]:
    """Three parties with a sum of votes."""
    parties = agreement()["parties"]
    return {
        "parties": {name: each | {"width": 3} for name, each in parties.items()},
        "top": {"kind": "sum"},
    }


@pytest.mark.parametrize("offline", [(), ("left",)], ids=["all there", "one offline"])
def test_cvfu(tmp_path: Path, offline: tuple[str, ...]) -> None:
    plan = {"learning_rate": 0.1, "batch": BATCH, "epochs": 3, "ascent": 0.5, "offline": offline}
    with trained(tmp_path, {"cvfu": plan}, **votes()) as parties:
        split_model, sessions, model = parties
        rows = split_model.rows
        one = single_process.Cvfu(model, rows.forgotten, rows.retain, offline, 0.1, BATCH)
        for number in range(1, 4):
            one.epoch(number, 0.5 if number == 1 else 0.0)
        result = carry_out(CvfuMethod(), NetworkRun(split_model))
        assert result.figures["kept"] == 3  # every epoch made progress, so the last model stays
        assert largest_difference(split_model, sessions, model) < 1e-8


def test_retrain(tmp_path: Path) -> None:
    training = {"learning_rate": RATE, "batch": BATCH, "epochs": 2}
    with trained(tmp_path, {}, training=training) as (split_model, sessions, _):
        start_training(split_model, "retrain", vfl_pb2.RETAIN)
        model = copy_to_one_process(split_model, sessions)
        orders = batches(split_model.rows, vfl_pb2.RETAIN, "retrain", 2)
        single_process.descend(model, orders, adam(model), model.labels)
        assert (
            parameter_distance((split_model, sessions, model), RetrainMethod("retrain", "retrain"))
            < 1e-8
        )
