"""The inversion of one party's change: a step on one row gives the row away."""

from pathlib import Path

import numpy as np
import pytest
from trio import federation

from parties.vertical.engine.train import Plan, learn
from parties.vertical.evaluation.extra_audits import inversions
from protocol import vfl_pb2


@pytest.mark.parametrize("count", [1, 9])
def test_steps_on_one_row_point_to_it(tmp_path: Path, count: int) -> None:
    training = {"optimiser": "sgd", "learning_rate": 0.1, "batch": 16, "epochs": 2}
    with federation(tmp_path, training=training) as (leading, _):
        leading.forget(np.sort(leading.rows.learn[:count]))
        leading.fresh("original", vfl_pb2.LEARN, vfl_pb2.TRAIN)
        leading.keep("original", vfl_pb2.TRAIN)
        learn(leading, Plan("one row", vfl_pb2.FINE_TUNE, vfl_pb2.FORGOTTEN, 2, 16))
        found = inversions(leading, "original")
    if count > 1:
        assert found == {}
        return
    assert found["left"]["cosine"] > 0.99
    assert found["left"]["rank"] < 0.05
