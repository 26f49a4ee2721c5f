"""Noise on the wire: its distribution, when it is fresh, and when it is repeated."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import three_parties
import torch
from privacy_wire import is_gaussian, raw, recorded, released

from models.noise import clip_rows
from parties.vertical.engine.train import TrainingPlan, train_epochs
from parties.vertical.privacy.claims import collect_spending
from protocol import vfl_pb2
from protocol.errors import RemoteProtocolError

WIDE = 640  # times the common rows: enough numbers for statistics


def parties(width: int) -> dict[str, Any]:
    linear = {"kind": "mlp", "hidden": []}
    return {
        "hub": {"role": "active"},
        "left": {"role": "passive", "width": width, "bottom": linear},
        "right": {"role": "passive", "width": 2, "bottom": linear},
    }


def test_noise_of_a_single_release_on_the_wire(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = {"embed_once": {"clip": 0.5, "noise_multiplier": 3.0}}
    settings: dict[str, Any] = {"parties": parties(WIDE), "dtype": "float32", "privacy": plan}
    with recorded(tmp_path, monkeypatch, **settings) as (split_model, sessions, wire):
        sets = (vfl_pb2.TRAIN_ROWS, vfl_pb2.VALIDATION, vfl_pb2.TEST)
        for rows in sets:
            split_model.logits(rows)
        sent = np.concatenate(wire.embeddings("left"))
        clipped = [clip_rows(raw(sessions["left"], rows).double(), 0.5) for rows in sets]
        noise = sent - torch.cat(clipped).numpy()
    assert np.linalg.norm(torch.cat(clipped), axis=1).max() == pytest.approx(0.5)
    is_gaussian(noise, 1.5)


def test_noise_of_many_visits_on_the_wire(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = {"embed_train": {"sigma": 0.02, "clip": 0.3}}
    settings: dict[str, Any] = {"parties": parties(90), "dtype": "float64", "privacy": plan}
    with recorded(tmp_path, monkeypatch, **settings) as (split_model, sessions, wire):
        for _ in range(8):
            split_model.logits(vfl_pb2.TRAIN_ROWS)
        sent = np.concatenate(wire.embeddings("left"))
        clipped = clip_rows(raw(sessions["left"], vfl_pb2.TRAIN_ROWS), 0.3).numpy()
    is_gaussian(sent - np.tile(clipped, (8, 1)), 0.02)


def test_plain_noise_of_a_sweep_has_its_sigma_and_clips_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = {"embed_train": {"sigma": 5e-4}}
    settings: dict[str, Any] = {"parties": parties(WIDE), "dtype": "float64", "privacy": plan}
    with recorded(tmp_path, monkeypatch, **settings) as (split_model, sessions, wire):
        split_model.logits(vfl_pb2.TRAIN_ROWS)
        split_model.logits(vfl_pb2.TEST)
        sent = np.concatenate(wire.embeddings("left"))
        own = torch.cat(
            [raw(sessions["left"], rows) for rows in (vfl_pb2.TRAIN_ROWS, vfl_pb2.TEST)]
        )
    is_gaussian(sent - own.numpy(), 5e-4)


def test_noise_on_gradients_on_the_wire(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the noise each row is at most ``clip`` long: gradients are small beside this σ."""
    plan = {"grad_noise": {"sigma": 10.0, "clip": 1e-6}}
    settings: dict[str, Any] = {"parties": parties(WIDE), "dtype": "float64", "privacy": plan}
    with recorded(tmp_path, monkeypatch, **settings) as (split_model, _, wire):
        train_epochs(split_model, TrainingPlan("original", vfl_pb2.TRAIN_ROWS, epochs=2, batch=16))
        steps = [*wire.messages("hub", "Step"), *wire.messages("hub", "Gradient")]
        sent = [each.tensors[0] for each in steps if each.tensors[0].shape[1] == WIDE]
        assert len(sent) == 2 * np.ceil(len(split_model.rows.train) / 16)
        is_gaussian(np.concatenate(sent), 10.0)
        assert released(tmp_path, "hub") == 4  # two peers, two epochs


def test_noise_differs_by_row_step_party_and_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = {"embed_train": {"sigma": 1.0, "clip": 1e-9}}  # what is sent is the noise
    sent: list[float] = []
    for session in ("first", "second"):
        folder = tmp_path / session
        folder.mkdir()
        # The passive parties have one entropy for both sessions, as copied machines may.
        with recorded(folder, monkeypatch, hub=session, privacy=plan) as (split_model, _, wire):
            split_model.logits(vfl_pb2.TEST)
            split_model.logits(vfl_pb2.TEST)
            for name in ("left", "right"):
                sent += [number for each in wire.embeddings(name) for number in each.ravel()]
    assert len(set(sent)) == len(sent)


def test_repeated_release_has_equal_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a restart of both sides the same bytes go out, and nothing is charged."""
    plan = {"embed_once": {"noise_multiplier": 4.0}}
    sent = []
    for start in ("first", "second"):
        with recorded(tmp_path, monkeypatch, seed=start, privacy=plan) as (split_model, _, wire):
            split_model.logits(vfl_pb2.TRAIN_ROWS)
            split_model.logits(vfl_pb2.TRAIN_ROWS)
            split_model.logits(vfl_pb2.TEST)
            sent.append(wire.embeddings("left"))
            assert len(sent[-1]) == 2  # the third question was answered by the cache
            assert collect_spending(split_model)["left"].releases == 1
    assert [each.tobytes() for each in sent[0]] == [each.tobytes() for each in sent[1]]
    assert released(tmp_path, "left") == 1


def test_changed_row_is_a_new_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = {"embed_once": {"noise_multiplier": 4.0}}
    with recorded(tmp_path, monkeypatch, seed="1", privacy=plan) as (split_model, _, wire):
        split_model.logits(vfl_pb2.TRAIN_ROWS)
        before, rows = wire.embeddings("left")[0], split_model.rows.train
        person = split_model.party.holding.ids[split_model.state.features.rows[rows[3]]].decode()
    write = three_parties.write_data

    def change(folder: Path, count: int = 240) -> None:
        write(folder, count)
        lines = (folder / "left.csv").read_text().splitlines()
        place = next(at for at, line in enumerate(lines) if line.startswith(f"{person},"))
        _, *numbers = lines[place].split(",")
        lines[place] = ",".join([person, *(f"{float(number) + 1e-3:.6f}" for number in numbers)])
        (folder / "left.csv").write_text("\n".join(lines) + "\n")

    with monkeypatch.context() as patch:
        patch.setattr("three_parties.write_data", change)
        with recorded(tmp_path, monkeypatch, seed="2", privacy=plan) as (split_model, _, wire):
            split_model.logits(vfl_pb2.TRAIN_ROWS)
            after = wire.embeddings("left")[0]
            assert (split_model.rows.train == rows).all()
            spent = collect_spending(split_model)
    moved = np.abs(after - before).max(axis=1)
    assert np.flatnonzero(moved).tolist() == [3]
    assert moved.max() > 0.5  # by fresh noise of σ = 4, and not by the 1e-3 that changed
    assert (spent["left"].releases, spent["right"].releases) == (2, 1)


def test_frozen_bottom_refuses_training_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = {"embed_once": {"noise_multiplier": 4.0}}
    with recorded(tmp_path, monkeypatch, privacy=plan) as (split_model, sessions, _):
        ask = next(split_model.loop.epoch_requests(vfl_pb2.TRAIN_ROWS, 1, 8))
        with pytest.raises(
            RemoteProtocolError, match="does not allow the training of bottom models"
        ):
            sessions["left"]._check_batch(ask, vfl_pb2.TRAIN)


def test_training_with_a_cache_sends_no_gradient(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = {"embed_once": {"noise_multiplier": 4.0}}
    with recorded(tmp_path, monkeypatch, privacy=plan) as (split_model, sessions, wire):
        before = raw(sessions["left"], vfl_pb2.TEST)
        epochs = train_epochs(
            split_model,
            TrainingPlan("original", vfl_pb2.TRAIN_ROWS, epochs=3, batch=16, patience=3),
        )
        assert epochs[-1].loss < epochs[0].loss
        assert torch.equal(raw(sessions["left"], vfl_pb2.TEST), before)
        assert not wire.messages("hub", "Step") + wire.messages("hub", "Gradient")
        assert len(wire.embeddings("left")) == 2  # training and validation rows, once


def test_evaluation_is_charged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = {"embed_train": {"sigma": 0.1}}
    with recorded(tmp_path, monkeypatch, privacy=plan) as (split_model, _, _wire):
        train_epochs(split_model, TrainingPlan("original", vfl_pb2.TRAIN_ROWS, epochs=2, batch=16))
        assert released(tmp_path, "left") == 2
        split_model.logits(vfl_pb2.TRAIN_ROWS)
        assert released(tmp_path, "left") == 3
