"""Each method between parties equals the same method in one process."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import alone
import numpy as np
import pytest
import torch
from apart import copied, fresh, furthest, shrunk
from monolith import Monolith
from three_parties import agreement, forget_some, open_split_model

from parties.vertical.engine.local_model import ORIGINAL
from parties.vertical.engine.split_model import SplitModel
from parties.vertical.engine.train import TrainingPlan, train_epochs
from parties.vertical.methods.cvfu import CvfuMethod
from parties.vertical.methods.fine_tune import FineTuneMethod
from parties.vertical.methods.gradient_ascent import GradientAscentMethod
from parties.vertical.methods.ico_like import IcoLikeMethod
from parties.vertical.methods.method import VerticalMethod
from parties.vertical.methods.relabel import RelabelMethod, wrong_forget_labels
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
    with open_split_model(folder, unlearning=unlearning, **changes) as (leading, answerers):
        forget_some(leading)
        leading.initialise(ORIGINAL, vfl_pb2.TRAIN_ROWS, vfl_pb2.TRAIN)
        train_epochs(leading, TrainingPlan("training", vfl_pb2.TRAIN, vfl_pb2.TRAIN_ROWS, 2, BATCH))
        leading.keep_copy(ORIGINAL, vfl_pb2.TRAIN)
        yield leading, answerers, copied(leading, answerers)


def apart(found: Trained, method: VerticalMethod) -> float:
    """Run the method between the parties; return the distance from the single process."""
    leading, answerers, model = found
    method.run(leading)
    return furthest(leading, answerers, model)


def batches(
    leading: SplitModel, rows: vfl_pb2.Rows, stream: str, epochs: int
) -> Iterator[np.ndarray]:
    for epoch in range(1, epochs + 1):
        yield from alone.shuffled(leading.rows.shuffled(rows, stream, epoch), BATCH)  # type: ignore[misc]


def adam(model: Monolith) -> torch.optim.Optimizer:
    return torch.optim.Adam(model.parameters, RATE)


def test_fine_tune(tmp_path: Path) -> None:
    with trained(tmp_path, {"fine_tune": {"epochs": 2, "learning_rate": RATE}}) as found:
        leading, _, model = found
        orders = batches(leading, vfl_pb2.RETAIN, "fine-tune", 2)
        alone.descend(model, orders, adam(model), model.labels)
        assert apart(found, FineTuneMethod()) < 1e-8


def test_gradient_ascent(tmp_path: Path) -> None:
    plan = {"learning_rate": 0.05, "steps": 4, "clip": 0.5}
    with trained(tmp_path, {"ascent": plan}) as found:
        leading, _, model = found
        alone.ascend(model, leading.rows.forgotten, 0.05, 0.5, 4)
        assert apart(found, GradientAscentMethod()) < 1e-8


def test_relabel(tmp_path: Path) -> None:
    with trained(tmp_path, {"relabel": {"epochs": 2, "learning_rate": RATE}}) as found:
        leading, _, model = found
        wrong = wrong_forget_labels(leading)
        changed = (wrong != leading.labels).nonzero().flatten().tolist()
        assert changed == sorted(leading.rows.forgotten.tolist())
        orders = batches(leading, vfl_pb2.TRAIN_ROWS, "relabel", 2)
        alone.descend(model, orders, adam(model), wrong)
        assert apart(found, RelabelMethod()) < 1e-8


def test_top_only(tmp_path: Path) -> None:
    with trained(tmp_path, {"top_only": {"epochs": 3, "learning_rate": RATE}}) as found:
        leading, answerers, model = found
        shrunk(model, fresh(leading, answerers, "top-only"), 0.0, 1.0)
        top = torch.optim.Adam(model.halves["hub"].top.parameters(), RATE)  # type: ignore[union-attr]
        orders = batches(leading, vfl_pb2.RETAIN, "top-only", 3)
        alone.descend(model, orders, top, model.labels)
        sent = leading.party.traffic.total("Embedding").rows
        assert apart(found, TopOnlyMethod()) < 1e-8
        shown = leading.party.traffic.total("Embedding").rows - sent
        assert shown == 2 * len(leading.rows.retain)  # once, by two passive parties; and counted


@pytest.mark.parametrize(("word", "top"), [("keep", 0.0), ("shrink", 0.4), ("fresh", 1.0)])
def test_shrink_perturb(tmp_path: Path, word: str, top: float) -> None:
    plan = {"share": 0.4, "top": word, "epochs": 1, "learning_rate": RATE}
    with trained(tmp_path, {"shrink_perturb": plan}) as found:
        leading, answerers, model = found
        shrunk(model, fresh(leading, answerers, "shrink-perturb"), 0.4, top)
        orders = batches(leading, vfl_pb2.RETAIN, "shrink-perturb", 1)
        alone.descend(model, orders, adam(model), model.labels)
        assert apart(found, ShrinkPerturbMethod()) < 1e-8


@pytest.mark.parametrize("limit", [10.0, 1e-3], ids=["unclipped", "clipped"])
def test_ico_like(tmp_path: Path, limit: float) -> None:
    plan = {"step": 2.0, "limit": limit, "share": 0.5, "steps": 9, "learning_rate": 0.1}
    with trained(tmp_path, {"ico_like": plan}) as found:
        leading, _, model = found
        rows = leading.rows
        step = 2.0 * len(rows.forgotten) / len(rows.train)
        factor = alone.ico(model, rows.forgotten, step, limit)
        assert (factor < step) is (limit < 1)
        assert len(rows.select(vfl_pb2.CORRECTION_SAMPLE)) == -(-len(rows.retain) // 2)
        orders = batches(leading, vfl_pb2.CORRECTION_SAMPLE, "ico-like", 9)
        sgd = torch.optim.SGD(model.parameters, 0.1)
        alone.descend(model, alone.first(orders, 9), sgd, model.labels)
        assert apart(found, IcoLikeMethod()) < 1e-8


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
    with trained(tmp_path, {"cvfu": plan}, **votes()) as found:
        leading, answerers, model = found
        rows = leading.rows
        one = alone.Cvfu(model, rows.forgotten, rows.retain, offline, 0.1, BATCH)
        for number in range(1, 4):
            one.epoch(number, 0.5 if number == 1 else 0.0)
        went = CvfuMethod().run(leading)
        assert went.figures["kept"] == 3  # every epoch made progress, so the last model stays
        assert furthest(leading, answerers, model) < 1e-8


def test_retrain(tmp_path: Path) -> None:
    training = {"learning_rate": RATE, "batch": BATCH, "epochs": 2}
    with trained(tmp_path, {}, training=training) as (leading, answerers, _):
        leading.initialise("retrain", vfl_pb2.RETAIN, vfl_pb2.TRAIN)
        model = copied(leading, answerers)
        orders = batches(leading, vfl_pb2.RETAIN, "retrain", 2)
        alone.descend(model, orders, adam(model), model.labels)
        assert apart((leading, answerers, model), RetrainMethod("retrain", "retrain")) < 1e-8
