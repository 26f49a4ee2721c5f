"""The split model of a number, or of several binary labels, equals one process."""

from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from monolith import Monolith
from monolith_difference import BATCH, EPOCHS, OPTIMISERS, batches, largest_difference
from other_labels import LABELS, NUMBER, truth, write_diabetes, write_multilabel
from three_parties import inputs, networks, open_split_model, start_training
from torch import Tensor

from parties.common.progress import ProgressReporter
from parties.vertical.engine.train import TrainingPlan, train_epochs
from protocol import vfl_pb2

WRITES = {"regression": write_diabetes, "multilabel": write_multilabel}


class OtherMonolith(Monolith):
    """One process with the loss of the labels, written without the code of the split model."""

    def loss(self, rows: Any) -> Tensor:
        """The loss of the standardised number, or the binary cross entropy of the labels."""
        found, labels = self.logits(rows), self.labels[rows]
        if labels.dim() == 2:
            p = torch.sigmoid(found)
            return -(labels * p.log() + (1 - labels) * (1 - p).log()).mean()
        error = found[:, 0] - labels
        return error.abs().mean() if self.absolute else (error * error).mean()

    absolute = False


@pytest.mark.parametrize("optimiser", ["adam", "sgd"])
@pytest.mark.parametrize(
    "labels", [NUMBER, NUMBER | {"loss": "absolute"}, LABELS], ids=["squared", "absolute", "labels"]
)
def test_parameters_after_twenty_steps_are_equal(
    tmp_path: Path, labels: dict[str, Any], optimiser: str
) -> None:
    training = {"optimiser": optimiser, "learning_rate": 0.01, "batch": BATCH, "epochs": EPOCHS}
    with open_split_model(
        tmp_path, 300, WRITES[labels["task"]], labels=labels, training=training
    ) as (split_model, sessions):
        start_training(split_model, "original")
        rows = split_model.rows
        ids = [each.decode() for each in split_model.state.features.ids()]
        known = torch.from_numpy(truth(tmp_path, ids))
        if labels["task"] == "regression":
            learned = known[rows.train, 0]
            known = (known[:, 0] - learned.mean()) / learned.std(correction=0)
        model = OtherMonolith.copy(
            networks(split_model, sessions), inputs(split_model, sessions), known
        )
        model.absolute = "loss" in labels
        descent = OPTIMISERS[optimiser](model.parameters, 0.01)
        train_epochs(split_model, TrainingPlan("training", vfl_pb2.TRAIN_ROWS, EPOCHS, BATCH))
        steps = EPOCHS * -(-len(rows.train) // BATCH)
        assert steps >= 20
        for batch in islice(batches(split_model, vfl_pb2.TRAIN_ROWS), steps):
            descent.zero_grad()
            model.loss(batch).backward()
            descent.step()
        assert largest_difference(split_model, sessions, model) < 1e-8
        outputs = split_model.logits(vfl_pb2.TEST).numpy()
        expected = model.logits(rows.test).detach().numpy()
        if labels["task"] == "regression":
            expected = expected * learned.std(correction=0).item() + learned.mean().item()
        assert np.abs(outputs - expected).max() < 1e-6


@pytest.mark.parametrize(("moved", "warns"), [(0, False), (10**9, True)])
def test_a_label_far_above_its_spread_is_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moved: int, warns: bool
) -> None:
    def write(folder: Path, rows: int) -> None:
        write_diabetes(folder, rows)
        header, *lines = (folder / "hub.csv").read_text().splitlines()
        at = header.split(",").index("label")
        cells = [line.split(",") for line in lines]
        table = [[*row[:at], str(int(row[at]) + moved), *row[at + 1 :]] for row in cells]
        (folder / "hub.csv").write_text("\n".join([header, *map(",".join, table)]) + "\n")

    warnings: list[str] = []
    monkeypatch.setattr(ProgressReporter, "warn", lambda _, text: warnings.append(text))
    with open_split_model(tmp_path, 300, write, labels=NUMBER) as (split_model, _):
        start_training(split_model, "original")
    assert any("subtract a constant from the label" in each for each in warnings) is warns
