"""Reading a row set: many rows cross in one message, and few are computed at once."""

from math import ceil
from pathlib import Path

import pytest
import torch
from three_parties import LIMITS, open_split_model, start_training
from torch import Tensor, nn

from configs.agreement import Bottom, CnnBottom, MlpBottom
from parties.vertical.engine import networks as network_module
from parties.vertical.engine.party_state import fit_steps
from parties.vertical.engine.training_loop import READING_PARTS, RowOutputs
from parties.vertical.methods import fedora
from protocol import vfl_pb2

PART = 3  # rows that are computed at once


def read(folder: Path, pass_rows: int) -> tuple[RowOutputs, int, int]:
    """What a fresh model computes for the training rows, their number, and the messages."""
    folder.mkdir()
    with open_split_model(folder, limits=LIMITS | {"pass_rows": pass_rows}) as (split_model, _):
        start_training(split_model, "original")
        found = split_model.read(vfl_pb2.TRAIN_ROWS)
        traffic = split_model.party.traffic.total("Embedding")
        return found, len(split_model.rows.train), traffic.messages


def test_parts_give_the_same_outputs_with_few_messages(tmp_path: Path) -> None:
    whole, rows, messages = read(tmp_path / "whole", 4096)
    assert messages == 2  # one of each passive party
    parts, same, messages = read(tmp_path / "parts", PART)
    assert (same, messages) == (rows, 2 * ceil(rows / (READING_PARTS * PART)))
    assert torch.allclose(parts.logits, whole.logits, rtol=0, atol=1e-12)
    assert torch.allclose(parts.embeddings, whole.embeddings, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("most", "rows"), [(7, 7), (10_000, None)], ids=["few", "all"])
def test_first_rows_are_read_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, rows: int | None
) -> None:
    """The common order is random, so the first rows are a random sample."""
    monkeypatch.setattr(fedora, "VALIDATED", most)  # the other parties allow no other number
    with open_split_model(tmp_path) as (split_model, _):
        start_training(split_model, "original")
        whole = split_model.logits(vfl_pb2.VALIDATION)
        before = split_model.party.traffic.total("Embedding").messages
        first = split_model.loop.read(vfl_pb2.VALIDATION, vfl_pb2.UNLEARN, most).logits
        assert split_model.party.traffic.total("Embedding").messages == before + 2
    assert len(first) == (rows or len(whole)) <= len(whole)
    torch.testing.assert_close(first, whole[:rows], rtol=0, atol=1e-12)


def test_no_party_computes_more_rows_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []

    class Noted(nn.Linear):
        def forward(self, features: Tensor) -> Tensor:
            sizes.append(len(features))
            return super().forward(features)

    monkeypatch.setattr(network_module, "mlp", lambda size, _, width: Noted(size, width))
    monkeypatch.setattr("models.tops.mlp", lambda size, _, width: Noted(size, width))
    _, rows, _ = read(tmp_path / "parts", PART)
    assert max(sizes) == PART
    assert sum(sizes) == 4 * rows  # three bottom models and the top model


BOTTOMS: dict[str, tuple[Bottom, int]] = {
    "mlp": (MlpBottom(), 64),
    "cnn": (CnnBottom(kind="cnn"), 16),
}


@pytest.mark.parametrize("name", BOTTOMS)
def test_a_command_has_more_steps_of_a_perceptron(tmp_path: Path, name: str) -> None:
    bottom, steps = BOTTOMS[name]
    with open_split_model(tmp_path) as (split_model, _):
        agreed = split_model.agreement
    parties = dict(agreed.parties)
    parties["left"] = parties["left"].model_copy(update={"bottom": bottom})
    assert fit_steps(agreed.model_copy(update={"parties": parties})) == steps
