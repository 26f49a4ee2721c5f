"""The reconstruction attack on one party's change: a step on one row reveals the row."""

from pathlib import Path

import numpy as np
import pytest
from three_parties import open_split_model, start_training

from parties.vertical.evaluation.extra_audits import reconstruction_attacks
from parties.vertical.methods.fine_tune import FineTuneMethod
from parties.vertical.methods.network_run import NetworkRun
from parties.vertical.methods.run import train_epoch
from protocol import vfl_pb2


@pytest.mark.parametrize("count", [1, 9])
def test_steps_on_one_row_reveal_the_row(tmp_path: Path, count: int) -> None:
    training = {"optimiser": "sgd", "learning_rate": 0.1, "batch": 16, "epochs": 2}
    unlearning = {"fine_tune": {"learning_rate": 0.1}}
    with open_split_model(tmp_path, training=training, unlearning=unlearning) as (split_model, _):
        split_model.forget(np.sort(split_model.rows.train[:count]))
        start_training(split_model, "original")
        split_model.keep_copy("original", vfl_pb2.TRAIN)
        run = NetworkRun(split_model)
        FineTuneMethod().prepare(run)
        for number in (1, 2):
            train_epoch(run, vfl_pb2.FORGOTTEN, number)
        results = reconstruction_attacks(split_model, "original")
    if count > 1:
        assert results == {}
        return
    assert results["left"]["cosine"] > 0.99
    assert results["left"]["rank"] < 0.05
