"""Each backbone trains and unlearns between parties, a few steps on a few images."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import three_parties
import torch
from fixed_threshold import run_fedora
from three_parties import (
    LIMITS,
    TRAIN,
    forget_some,
    networks,
    open_split_model,
    start_training,
)

from configs.config_file import validate_table
from models import arithmetic
from parties.data.party_settings import VerticalPartySettings
from parties.vertical.engine.local_model import ORIGINAL
from parties.vertical.engine.party_state import PartyState
from parties.vertical.engine.train import TrainingPlan, train_epochs
from parties.vertical.passive import PassiveSession
from protocol import vfl_pb2
from unlearning import thresholds

ROWS, CLASSES = 16, ["dark", "bright"]
HALVES = {"left": [0, 8], "right": [8, 16]}


def write_images(folder: Path, rows: int = ROWS) -> None:
    """Write colour images of 8 x 16 pixels in MedMNIST's format, bright at the top for label 1."""
    generator, arrays = np.random.default_rng(2), {}
    for part, count in (("train", rows), ("val", rows // 4)):
        label = np.arange(count) % 2
        images = generator.integers(0, 60, (count, 8, 16, 3))
        images[label == 1, :4] += 180
        arrays |= {f"{part}_images": images.astype(np.uint8), f"{part}_labels": label[:, None]}
    np.savez(folder / "images.npz", **arrays)


def image_settings(folder: Path, requests: Iterable[str] = ()) -> dict[str, VerticalPartySettings]:
    """Labels at the hub, half of each image at each passive party."""
    data: dict[str, Any] = {"kind": "medmnist", "path": "images.npz", "test": None}
    plan = {name: {**data, "part": {"columns": span}} for name, span in HALVES.items()}
    plan["hub"] = {**data, "features": False, "label": True}
    return {
        name: validate_table(
            VerticalPartySettings, {"folder": str(folder), "data": each}, folder, ""
        )
        for name, each in plan.items()
    }


def parties(kind: str) -> dict[str, Any]:
    bottom = {"role": "passive", "width": 8, "bottom": {"kind": kind}}
    return {"hub": {"role": "active"}, "left": bottom, "right": bottom}


@pytest.mark.parametrize(
    ("kind", "overlap", "share"),
    [
        ("resnet18", "none", 0.0),
        ("resnet18", "pipeline", 0.1),
        ("resnet50", "none", 0.0),
        ("densenet121", "none", 0.0),
    ],
)
def test_backbone_learns_and_unlearns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, overlap: str, share: float
) -> None:
    monkeypatch.setattr(three_parties, "write_data", write_images)
    monkeypatch.setattr(three_parties, "party_settings", image_settings)
    changes: dict[str, Any] = {
        "dtype": "float32",
        "parties": parties(kind),
        "labels": {"classes": CLASSES},
        "limits": LIMITS | {"checkpoint_seconds": 1e6, "step_seconds": 60.0},
        "training": {"learning_rate": 1e-4, "batch": 5, "epochs": 2, "overlap": overlap},
        "unlearning": {"fedora": three_parties.PAPER | {
            "policy": "uniform", "iterations": 2, "batch": 12, "primal_step": 0.01,
            "retain_share": share,
            "dual_step": 1.0, "check_every": 9, "utility_loss": 1.0,
        }},
    }  # fmt: skip
    with open_split_model(tmp_path, ROWS, **changes) as (split_model, sessions):
        start_training(split_model, ORIGINAL)
        epochs = train_epochs(split_model, TrainingPlan("training", vfl_pb2.TRAIN_ROWS, 2, 5))
        assert epochs[-1].loss < epochs[0].loss
        whole = networks(split_model, sessions)
        before = {name: arithmetic.snapshot(each.parameters()) for name, each in whole.items()}
        split_model.keep_copy(ORIGINAL, TRAIN)
        forget_some(split_model, 4)
        result = run_fedora(split_model, thresholds.uniform_threshold(2, 2.0), 0.0)
        first, last = result.iterations[0], result.iterations[-1]
        assert last["forgetting"] > first["forgetting"]
        for name, network in whole.items():
            assert arithmetic.all_finite(network.parameters())
            assert arithmetic.squared_distance(network.parameters(), before[name]) > 0
        assert torch.isfinite(split_model.logits(vfl_pb2.FORGOTTEN)).all()
        if overlap == "pipeline":
            split_model.checkpoint()
            for session in sessions.values():
                assert_same_after_reading(session)


def assert_same_after_reading(session: PassiveSession) -> None:
    """Check that the newest checkpoint restores each parameter bit by bit."""
    ours, here = session._checkpoints, session.state.local_model.model.network
    content = ours.read(ours.offer().numbers[-1])
    read = PartyState.from_content(
        session._party, content, session._network
    ).local_model.model.network
    pairs = zip(here.parameters(), read.parameters(), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)
