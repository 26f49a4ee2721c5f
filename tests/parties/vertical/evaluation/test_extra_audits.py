"""Extra audits: exchanged parties, parameter distances, shadow models, relearning."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from three_parties import forget_some, networks, open_split_model

from models.arithmetic import squared_distance
from parties.common.errors import NoCopy
from parties.vertical.engine.optimiser import UpdateRule
from parties.vertical.evaluation.extra_audits import (
    _accuracies,
    _shadow_outputs,
    parameter_distances,
    restore_party,
)
from protocol import vfl_pb2
from unlearning.audit.relearning import steps_to_relearn

PARTIES = ("hub", "left", "right")


def parameters(split_model, sessions) -> dict[str, torch.Tensor]:
    split_model.logits(vfl_pb2.VALIDATION)  # a round trip: all earlier commands are done
    party_networks = networks(split_model, sessions)
    return {
        name: torch.cat([p.detach().flatten() for p in each.parameters()])
        for name, each in party_networks.items()
    }


def two_models(split_model) -> None:
    for slot in ("old", "new"):
        split_model.initialise(slot, vfl_pb2.TRAIN_ROWS, vfl_pb2.TRAIN)
        split_model.keep_copy(slot, vfl_pb2.TRAIN)


@pytest.mark.parametrize("name", PARTIES)
def test_only_one_local_model_is_exchanged(tmp_path: Path, name: str) -> None:
    with open_split_model(tmp_path) as (split_model, sessions):
        two_models(split_model)
        new = parameters(split_model, sessions)
        split_model.restore_copy("old", "old", vfl_pb2.EVALUATE)
        old = parameters(split_model, sessions)
        split_model.restore_copy("new", "old", vfl_pb2.EVALUATE)
        restore_party(split_model, name, "old")
        mixed = parameters(split_model, sessions)
    for each in PARTIES:
        assert torch.equal(mixed[each], (old if each == name else new)[each])
        assert not torch.equal(old[each], new[each])


def test_distances_are_computed_per_party(tmp_path: Path) -> None:
    with open_split_model(tmp_path) as (split_model, sessions):
        two_models(split_model)
        new = parameters(split_model, sessions)
        distances = parameter_distances(split_model, "old")
        split_model.restore_copy("old", "old", vfl_pb2.EVALUATE)
        old = parameters(split_model, sessions)
    for name in PARTIES:
        wanted = math.sqrt(squared_distance([new[name]], [old[name]]))
        assert distances[name] == pytest.approx(wanted)


def test_a_copy_of_another_shape_has_no_distance(tmp_path: Path) -> None:
    with open_split_model(tmp_path) as (split_model, _):
        two_models(split_model)
        half = split_model.local_model
        half._slots["narrow"] = (half.model, tuple(p[:1] for p in half.model.block))
        assert not half.report("narrow").HasField("distance_square")
        with pytest.raises(NoCopy, match="no copy 'nothing'"):
            half.report("nothing")


def test_shadow_model_trains_on_half_of_the_retained_rows(tmp_path: Path) -> None:
    with open_split_model(tmp_path, evaluation={"shadows": 4}) as (split_model, _):
        forget_some(split_model)
        halves = []
        for stream in ("shadow-1", "shadow-2"):
            split_model.initialise(stream, vfl_pb2.SHADOW_HALF, vfl_pb2.TRAIN)
            one, other = (
                split_model.rows.select(rows)
                for rows in (vfl_pb2.SHADOW_HALF, vfl_pb2.SHADOW_OTHER_HALF)
            )
            assert np.array_equal(np.sort(np.concatenate([one, other])), split_model.rows.retain)
            assert abs(len(one) - len(other)) <= 1
            halves.append(one)
        assert not np.array_equal(*halves)
        outputs = _shadow_outputs(split_model, 2)
    for each, half in zip(outputs, halves, strict=True):
        assert len(each.members.labels) == len(half) == len(each.members.logits)
        assert torch.equal(each.members.labels, split_model.labels[torch.from_numpy(half)])


def test_relearning_stops_when_the_rows_are_learned(tmp_path: Path) -> None:
    relearn = {"learning_rate": 0.3, "batch": 8, "max_steps": 60}
    with open_split_model(tmp_path, evaluation={"relearn": relearn}) as (split_model, _):
        forget_some(split_model)
        split_model.initialise("original", vfl_pb2.RETAIN, vfl_pb2.TRAIN)
        split_model.keep_copy("slot", vfl_pb2.TRAIN)
        plan = split_model.agreement.evaluation.relearn
        rule = UpdateRule("sgd", plan.learning_rate)
        split_model.restore_copy("slot", "relearn-1", vfl_pb2.RELEARN, rule)
        steps = steps_to_relearn(_accuracies(split_model, plan), 0.9, plan.max_steps)
        assert 1 < steps < 60
        split_model.restore_copy("slot", "relearn-1", vfl_pb2.RELEARN, rule)
        assert (
            steps_to_relearn(_accuracies(split_model, plan), 0.9, plan.max_steps) == steps
        )  # the same again


def test_diverged_relearning_counts_as_the_maximum(tmp_path: Path) -> None:
    relearn = {"learning_rate": 1e9, "batch": 8, "max_steps": 7}
    with open_split_model(tmp_path, evaluation={"relearn": relearn}) as (split_model, _):
        forget_some(split_model)
        split_model.initialise("original", vfl_pb2.RETAIN, vfl_pb2.TRAIN)
        split_model.keep_copy("slot", vfl_pb2.TRAIN)
        plan = split_model.agreement.evaluation.relearn
        rule = UpdateRule("sgd", plan.learning_rate)
        split_model.restore_copy("slot", "relearn-1", vfl_pb2.RELEARN, rule)
        assert steps_to_relearn(_accuracies(split_model, plan), 1.0, plan.max_steps) == 7
