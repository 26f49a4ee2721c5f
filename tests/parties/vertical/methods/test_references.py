"""The reference models of the counterfactual targets: h⁻ knows nothing of D_u, h⁺ does."""

from pathlib import Path

import numpy as np
import pytest
import torch
from three_parties import open_split_model, start_training

from parties.vertical.engine.requests import next_labels, select_request_rows
from parties.vertical.engine.rows import part_of
from parties.vertical.engine.training_loop import largest_reading
from parties.vertical.methods.counterfactual import LEARNED, References
from parties.vertical.methods.network_run import NetworkRun
from protocol import vfl_pb2
from protocol.errors import Aborted

FORGETS = {"unlearn": ({"name": "some", "classes": ["a", "b", "c"], "fraction": 0.3},)}


COUNT = 64  # rows of D_r that the reference models learn: a number that every party accepts


class Changed(NetworkRun):
    """A run in which the rows of D_u have other embeddings."""

    def embeddings(self, rows: vfl_pb2.Rows, most: int | None = None) -> torch.Tensor:
        return super().embeddings(rows, most) + float(rows == vfl_pb2.FORGOTTEN)


def fitted(run: NetworkRun, probe: torch.Tensor) -> list[torch.Tensor]:
    """The outputs of h⁺ and h⁻, trained for two epochs, on the embeddings ``probe``."""
    references = References(run, COUNT)
    for epoch in range(2):
        references.fit(epoch)
    return list(references.outputs(references.models, probe))


def test_reference_without_the_forgotten_rows_depends_on_none_of_them(tmp_path: Path) -> None:
    with open_split_model(tmp_path, **FORGETS) as (split_model, _):
        (chosen,) = select_request_rows(
            split_model.party, split_model.state.features.rows, split_model.rows, split_model.labels
        )
        start_training(split_model, "original")
        split_model.forget(chosen.rows)
        probe = NetworkRun(split_model).embeddings(vfl_pb2.TEST)
        before = fitted(NetworkRun(split_model), probe)
        split_model.learned_labels[split_model.rows.forgotten] = 0
        after = fitted(Changed(split_model), probe)
    assert not torch.equal(before[0], before[1])
    assert not torch.equal(before[0], after[0])
    assert torch.equal(before[1], after[1])


def test_corrected_rows_are_learned_once_by_both(tmp_path: Path) -> None:
    """Each with the labels that it is to learn, wherever the rows stand in D_r."""
    corrects = {"unlearn": ({**FORGETS["unlearn"][0], "corrects": True},)}
    with open_split_model(tmp_path, **corrects) as (split_model, _):
        (chosen,) = select_request_rows(
            split_model.party, split_model.state.features.rows, split_model.rows, split_model.labels
        )
        start_training(split_model, "original")
        wrong = chosen.mislabelled
        right = (split_model.labels[wrong] + 1) % 3
        split_model.correct(wrong, next_labels(right.numpy(), "abc"), right.numpy())
        run = NetworkRun(split_model)
        references = References(run, COUNT)
        rows = np.concatenate([split_model.rows.retain[:COUNT], split_model.rows.forgotten])
        learned = references.learns.bool()
    for number, labels in enumerate((split_model.learned_labels, split_model.labels)):
        taken = learned[number].numpy()
        assert sorted(rows[taken]) == sorted(set(rows))
        assert torch.equal(references.labels[number][learned[number]], labels[rows[taken]])


def test_part_of_a_row_set_may_be_larger_than_a_message(tmp_path: Path) -> None:
    limits = {"pass_rows": 2}
    with open_split_model(tmp_path, limits=limits) as (split_model, _):
        message = largest_reading(split_model.agreement)
        start_training(split_model, "original")
        run = NetworkRun(split_model, vfl_pb2.TRAIN)
        whole = run.embeddings(vfl_pb2.TRAIN_ROWS)
        count = message + 8
        assert message < count < whole.shape[1] - 1
        assert torch.equal(run.embeddings(vfl_pb2.TRAIN_ROWS, count), whole[:, :count])


@pytest.mark.parametrize("rows", [vfl_pb2.RETAIN, vfl_pb2.TRAIN_ROWS])
def test_parties_send_the_agreed_part_of_the_remaining_rows_only(
    tmp_path: Path, rows: vfl_pb2.Rows
) -> None:
    with open_split_model(tmp_path, **FORGETS) as (split_model, _):
        (chosen,) = select_request_rows(
            split_model.party, split_model.state.features.rows, split_model.rows, split_model.labels
        )
        start_training(split_model, "original")
        split_model.forget(chosen.rows)
        run = NetworkRun(split_model)
        count = part_of(LEARNED, run.row_count(rows))
        if rows == vfl_pb2.RETAIN:
            assert run.embeddings(rows, count).shape[1] == count
            count += 1
        with pytest.raises(Aborted, match=f"orders batches of {count} rows in index order"):
            run.embeddings(rows, count)
