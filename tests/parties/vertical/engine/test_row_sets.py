"""The row sets of a vertical run: the rows of each epoch, and of the fitted preprocessing."""

from pathlib import Path

import numpy as np
import pytest
from three_parties import forget_some, open_split_model, start_training

from parties.vertical.engine.rows import RowSets
from protocol import vfl_pb2

EPOCHS = range(1, 6)


def row_sets() -> RowSets:
    """Twelve training rows, 0 to 11, of which the rows 2, 5 and 8 are forgotten."""
    train = np.arange(12)
    sets = RowSets(7, train, train, np.array([12, 13]), np.array([14]), np.empty(0, np.int64))
    return sets.forget(np.array([2, 5, 8, 13]))


def test_forgotten_rows_are_in_no_epoch_of_the_remaining_rows() -> None:
    for epoch in EPOCHS:
        remaining = row_sets().shuffled(vfl_pb2.RETAIN, "original", epoch).tolist()
        assert sorted(remaining) == [0, 1, 3, 4, 6, 7, 9, 10, 11]


def test_remaining_rows_have_the_order_of_the_trained_model_in_each_epoch() -> None:
    orders = []
    for epoch in EPOCHS:
        whole = row_sets().shuffled(vfl_pb2.TRAIN_ROWS, "original", epoch).tolist()
        remaining = row_sets().shuffled(vfl_pb2.RETAIN, "original", epoch).tolist()
        assert remaining == [row for row in whole if row not in (2, 5, 8)]
        orders.append(tuple(whole))
    assert len(set(orders)) == len(EPOCHS)


def test_a_request_leaves_its_rows_in_no_set_but_the_forgotten_one() -> None:
    sets = row_sets()
    assert sets.forgotten.tolist() == [2, 5, 8]
    assert sets.validation.tolist() == [12]
    after = sets.without_forgotten()
    assert after.train.tolist() == [0, 1, 3, 4, 6, 7, 9, 10, 11]
    assert len(after.forgotten) == 0


@pytest.mark.parametrize("which", [vfl_pb2.TRAIN_ROWS, vfl_pb2.RETAIN], ids=["training", "remain"])
def test_preprocessing_is_fitted_on_the_rows_of_its_set_alone(
    tmp_path: Path, which: vfl_pb2.Rows
) -> None:
    with open_split_model(tmp_path) as (split_model, sessions):
        forget_some(split_model)
        start_training(split_model, "original", which)
        split_model.logits(vfl_pb2.VALIDATION)  # a round trip: the passive parties have fitted
        states = {"hub": split_model.state} | {n: each.state for n, each in sessions.items()}
        for party, state in states.items():
            model, ids = state.local_model.model, state.features.ids()
            chosen = [ids[row] for row in state.rows.select(which)]
            assert len(chosen) < len(ids)
            values = numbers(tmp_path / f"{party}.csv", chosen)
            assert model.inputs is not None
            fitted = model.inputs.fitted.numeric
            assert list(fitted) == ["x", "y", "z"]
            assert [each.mean for each in fitted.values()] == pytest.approx(values.mean(axis=0))
            assert [each.scale for each in fitted.values()] == pytest.approx(values.std(axis=0))


def numbers(path: Path, ids: list[bytes]) -> np.ndarray:
    """The numeric cells of the rows with these IDs, ``[rows, 3]``."""
    lines = (line.split(",") for line in path.read_text().split()[1:])
    cells = {line[0].encode(): [float(cell) for cell in line[1:4]] for line in lines}
    return np.array([cells[each] for each in ids])
