"""Trials with the halves of a federation: one party's exchanged, distances, shadows, relearning."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from trio import federation, forget_some, networks

from models.arithmetic import squared_distance
from parties.common.errors import NoCopy
from parties.vertical.evaluation.extra_audits import _climb, _shadows, distances, exchange
from protocol import vfl_pb2
from unlearning.audit.relearning import steps_until

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
        leading.fresh(slot, vfl_pb2.LEARN, vfl_pb2.TRAIN)
        leading.keep(slot, vfl_pb2.TRAIN)


@pytest.mark.parametrize("name", PARTIES)
def test_one_partys_half_is_exchanged_and_no_other(tmp_path: Path, name: str) -> None:
    with federation(tmp_path) as (leading, answerers):
        two_models(leading)
        new = parameters(leading, answerers)
        leading.restore("old", "old", vfl_pb2.EVALUATE)
        old = parameters(leading, answerers)
        leading.restore("new", "old", vfl_pb2.EVALUATE)
        exchange(leading, name, "old")
        mixed = parameters(leading, answerers)
    for each in PARTIES:
        assert torch.equal(mixed[each], (old if each == name else new)[each])
        assert not torch.equal(old[each], new[each])


def test_distances_are_every_partys_own(tmp_path: Path) -> None:
    with federation(tmp_path) as (leading, answerers):
        two_models(leading)
        new = parameters(leading, answerers)
        found = distances(leading, "old")
        leading.restore("old", "old", vfl_pb2.EVALUATE)
        old = parameters(leading, answerers)
    for name in PARTIES:
        wanted = math.sqrt(squared_distance([new[name]], [old[name]]))
        assert found[name] == pytest.approx(wanted)


def test_a_copy_of_another_shape_has_no_distance(tmp_path: Path) -> None:
    with federation(tmp_path) as (leading, _):
        two_models(leading)
        half = leading.half
        half._slots["narrow"] = (half.model, tuple(p[:1] for p in half.model.block))
        assert not half.report("narrow").HasField("slot_square")
        with pytest.raises(NoCopy, match="no copy 'nothing'"):
            half.report("nothing")


def test_a_shadow_model_learns_one_half_of_the_rows_that_stay(tmp_path: Path) -> None:
    with federation(tmp_path) as (leading, _):
        forget_some(leading)
        halves = []
        for stream in ("shadow-1", "shadow-2"):
            leading.fresh(stream, vfl_pb2.HALF, vfl_pb2.TRAIN)
            one, other = (leading.rows.of(rows) for rows in (vfl_pb2.HALF, vfl_pb2.OTHER_HALF))
            assert np.array_equal(np.sort(np.concatenate([one, other])), leading.rows.retain)
            assert abs(len(one) - len(other)) <= 1
            halves.append(one)
        assert not np.array_equal(*halves)
        found = _shadows(leading, 2)
    for each, half in zip(found, halves, strict=True):
        assert len(each.members.labels) == len(half) == len(each.members.logits)
        assert torch.equal(each.members.labels, leading.labels[torch.from_numpy(half)])


def test_relearning_ends_when_the_rows_are_known(tmp_path: Path) -> None:
    relearn = {"learning_rate": 0.3, "batch": 8, "cap": 60}
    with federation(tmp_path, evaluation={"relearn": relearn}) as (leading, _):
        forget_some(leading)
        leading.fresh("original", vfl_pb2.RETAIN, vfl_pb2.TRAIN)
        leading.keep("slot", vfl_pb2.TRAIN)
        leading.restore("slot", "relearn-1", vfl_pb2.RELEARN)
        plan = leading.agreement.evaluation.relearn
        steps = steps_until(_climb(leading, plan), 0.9, plan.cap)
        assert 1 < steps < 60
        leading.restore("slot", "relearn-1", vfl_pb2.RELEARN)
        assert steps_until(_climb(leading, plan), 0.9, plan.cap) == steps  # the same again


def test_relearning_that_diverges_counts_as_the_cap(tmp_path: Path) -> None:
    relearn = {"learning_rate": 1e9, "batch": 8, "cap": 7}
    with federation(tmp_path, evaluation={"relearn": relearn}) as (leading, _):
        forget_some(leading)
        leading.fresh("original", vfl_pb2.RETAIN, vfl_pb2.TRAIN)
        leading.keep("slot", vfl_pb2.TRAIN)
        leading.restore("slot", "relearn-1", vfl_pb2.RELEARN)
        plan = leading.agreement.evaluation.relearn
        assert steps_until(_climb(leading, plan), 1.0, plan.cap) == 7
