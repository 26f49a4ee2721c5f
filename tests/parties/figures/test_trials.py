"""Extra audits: exchanged parties, parameter distances, shadow models, relearning."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from three_parties import forget_some, networks, open_split_model

from models.arithmetic import squared_distance
from parties.common.errors import NoCopy
from parties.vertical.evaluation.extra_audits import (
    _accuracies,
    _shadow_outputs,
    parameter_distances,
    restore_party,
)
from protocol import vfl_pb2
from unlearning.audit.relearning import steps_to_relearn

PARTIES = ("hub", "left", "right")


def parameters(leading, answerers) -> dict[str, torch.Tensor]:
    leading.logits(vfl_pb2.VALIDATION)  # a round trip: all have done what was said before
    found = networks(leading, answerers)
    return {
        name: torch.cat([p.detach().flatten() for p in each.parameters()])
        for name, each in found.items()
    }


def two_models(leading) -> None:
    for slot in ("old", "new"):
        leading.initialise(slot, vfl_pb2.TRAIN_ROWS, vfl_pb2.TRAIN)
        leading.keep_copy(slot, vfl_pb2.TRAIN)


@pytest.mark.parametrize("name", PARTIES)
def test_one_partys_half_is_exchanged_and_no_other(tmp_path: Path, name: str) -> None:
    with open_split_model(tmp_path) as (leading, answerers):
        two_models(leading)
        new = parameters(leading, answerers)
        leading.restore_copy("old", "old", vfl_pb2.EVALUATE)
        old = parameters(leading, answerers)
        leading.restore_copy("new", "old", vfl_pb2.EVALUATE)
        restore_party(leading, name, "old")
        mixed = parameters(leading, answerers)
    for each in PARTIES:
        assert torch.equal(mixed[each], (old if each == name else new)[each])
        assert not torch.equal(old[each], new[each])


def test_distances_are_every_partys_own(tmp_path: Path) -> None:
    with open_split_model(tmp_path) as (leading, answerers):
        two_models(leading)
        new = parameters(leading, answerers)
        found = parameter_distances(leading, "old")
        leading.restore_copy("old", "old", vfl_pb2.EVALUATE)
        old = parameters(leading, answerers)
    for name in PARTIES:
        wanted = math.sqrt(squared_distance([new[name]], [old[name]]))
        assert found[name] == pytest.approx(wanted)


def test_a_copy_of_another_shape_has_no_distance(tmp_path: Path) -> None:
    with open_split_model(tmp_path) as (leading, _):
        two_models(leading)
        half = leading.local_model
        half._slots["narrow"] = (half.model, tuple(p[:1] for p in half.model.block))
        assert not half.report("narrow").HasField("distance_square")
        with pytest.raises(NoCopy, match="no copy 'nothing'"):
            half.report("nothing")


def test_a_shadow_model_learns_one_half_of_the_rows_that_stay(tmp_path: Path) -> None:
    with open_split_model(tmp_path) as (leading, _):
        forget_some(leading)
        halves = []
        for stream in ("shadow-1", "shadow-2"):
            leading.initialise(stream, vfl_pb2.SHADOW_HALF, vfl_pb2.TRAIN)
            one, other = (
                leading.rows.select(rows)
                for rows in (vfl_pb2.SHADOW_HALF, vfl_pb2.SHADOW_OTHER_HALF)
            )
            assert np.array_equal(np.sort(np.concatenate([one, other])), leading.rows.retain)
            assert abs(len(one) - len(other)) <= 1
            halves.append(one)
        assert not np.array_equal(*halves)
        found = _shadow_outputs(leading, 2)
    for each, half in zip(found, halves, strict=True):
        assert len(each.members.labels) == len(half) == len(each.members.logits)
        assert torch.equal(each.members.labels, leading.labels[torch.from_numpy(half)])


def test_relearning_ends_when_the_rows_are_known(tmp_path: Path) -> None:
    relearn = {"learning_rate": 0.3, "batch": 8, "max_steps": 60}
    with open_split_model(tmp_path, evaluation={"relearn": relearn}) as (leading, _):
        forget_some(leading)
        leading.initialise("original", vfl_pb2.RETAIN, vfl_pb2.TRAIN)
        leading.keep_copy("slot", vfl_pb2.TRAIN)
        leading.restore_copy("slot", "relearn-1", vfl_pb2.RELEARN)
        plan = leading.agreement.evaluation.relearn
        steps = steps_to_relearn(_accuracies(leading, plan), 0.9, plan.max_steps)
        assert 1 < steps < 60
        leading.restore_copy("slot", "relearn-1", vfl_pb2.RELEARN)
        assert (
            steps_to_relearn(_accuracies(leading, plan), 0.9, plan.max_steps) == steps
        )  # the same again


def test_relearning_that_diverges_counts_as_the_cap(tmp_path: Path) -> None:
    relearn = {"learning_rate": 1e9, "batch": 8, "max_steps": 7}
    with open_split_model(tmp_path, evaluation={"relearn": relearn}) as (leading, _):
        forget_some(leading)
        leading.initialise("original", vfl_pb2.RETAIN, vfl_pb2.TRAIN)
        leading.keep_copy("slot", vfl_pb2.TRAIN)
        leading.restore_copy("slot", "relearn-1", vfl_pb2.RELEARN)
        plan = leading.agreement.evaluation.relearn
        assert steps_to_relearn(_accuracies(leading, plan), 1.0, plan.max_steps) == 7
