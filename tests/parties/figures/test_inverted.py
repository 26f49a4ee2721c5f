"""The reconstruction attack on one party's change: a step on one row reveals the row."""

from pathlib import Path

import numpy as np
import pytest
from three_parties import open_split_model

from parties.vertical.engine.train import TrainingPlan, train_epochs
from parties.vertical.evaluation.extra_audits import reconstruction_attacks
from protocol import vfl_pb2


@pytest.mark.parametrize("count", [1, 9])
def test_steps_on_one_row_point_to_it(tmp_path: Path, count: int) -> None:
    training = {"optimiser": "sgd", "learning_rate": 0.1, "batch": 16, "epochs": 2}
    with open_split_model(tmp_path, training=training) as (leading, _):
        leading.forget(np.sort(leading.rows.train[:count]))
        leading.initialise("original", vfl_pb2.TRAIN_ROWS, vfl_pb2.TRAIN)
        leading.keep_copy("original", vfl_pb2.TRAIN)
        train_epochs(leading, TrainingPlan("one row", vfl_pb2.FINE_TUNE, vfl_pb2.FORGOTTEN, 2, 16))
        found = reconstruction_attacks(leading, "original")
    if count > 1:
        assert found == {}
        return
    assert found["left"]["cosine"] > 0.99
    assert found["left"]["rank"] < 0.05
