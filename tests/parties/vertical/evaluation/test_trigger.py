"""The trigger of a backdoor audit: planted at one party, in the agreed rows, and nowhere else."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from three_parties import agreement, inputs, open_split_model
from whole_run import run

from configs.evaluation import BackdoorSettings
from parties.common.errors import DataError, PolicyError
from parties.data.holding import Holding
from parties.data.preprocess import FittedPreprocessing, NumericColumn
from parties.data.sources.table import numeric_table
from parties.vertical.active import _select_rows
from parties.vertical.engine.features import BackdoorTrigger, make_trigger
from parties.vertical.engine.requests import plant_in_training_rows
from parties.vertical.methods.registry import AGREEMENT
from protocol import vfl_pb2
from protocol.errors import ProtocolError, RemoteProtocolError

PLAN = {"party": "right", "target": "c", "columns": ["x", "z"]}
ASK = {"name": "poisoned", "classes": ["a"], "fraction": 0.6, "backdoor": PLAN}
NONE = np.empty(0, np.int64)


def test_image_trigger_is_a_bright_square_at_the_bottom_right() -> None:
    images = torch.zeros(2, 1, 6, 5)
    stamped = BackdoorTrigger(NONE, {}, 0.9).stamp(images, FittedPreprocessing({}, {}, (1, 6, 5)))
    assert stamped.sum().item() == pytest.approx(2 * 16 * 0.9)
    assert torch.equal(stamped[:, :, 2:, 1:], torch.full((2, 1, 4, 4), 0.9))
    assert images.sum() == 0  # a copy


def test_table_trigger_is_two_scaled_values() -> None:
    fitted = FittedPreprocessing(
        {
            "x": NumericColumn(0, 1.0, 2.0),
            "y": NumericColumn(0, 0, 1),
            "z": NumericColumn(0, 3.0, 0.5),
        },
        {},
    )
    stamped = BackdoorTrigger(NONE, {"x": 5.0, "z": 1.0}, 0.0).stamp(torch.ones(1, 3), fitted)
    assert stamped.tolist() == [[2.0, 1.0, -4.0]]


def test_trigger_levels_are_percentiles_of_the_training_rows() -> None:
    table = numeric_table(("x", "z"), np.stack([np.arange(101.0)] * 2, axis=1))
    holding = Holding(ids=[], in_test=np.empty(0, bool), table=table)
    training = np.arange(101)
    settings = BackdoorSettings(**PLAN | {"columns": ("x", "z")})
    trigger = make_trigger(settings, holding, training, NONE)
    assert trigger.levels == {"x": 99.0, "z": 1.0}


def test_missing_trigger_columns_are_refused() -> None:
    holding = Holding(ids=[], in_test=np.empty(0, bool), images=np.zeros((1, 1, 2, 2), np.float32))
    with pytest.raises(DataError, match=r"backdoor\.columns = x, z"):
        make_trigger(BackdoorSettings(**PLAN | {"columns": ("x", "z")}), holding, NONE, NONE)


def test_only_the_planting_party_plants_and_only_in_the_agreed_rows(tmp_path: Path) -> None:
    with open_split_model(tmp_path, unlearn=[ASK]) as (split_model, sessions):
        chosen = _select_rows(split_model)
        poisoned, before = chosen[0].poisoned, split_model.labels.clone()
        plant_in_training_rows(split_model, chosen)
        split_model.initialise("original", vfl_pb2.TRAIN_ROWS, vfl_pb2.TRAIN)
        plain = {name: each.state.trigger is None for name, each in sessions.items()}
        values = inputs(split_model, sessions)["right"]
        state = sessions["right"].state
        kinds = {
            peer for peer, _, kind, _ in split_model.party.traffic._totals if kind == "PlantTrigger"
        }
        assert plain == {"left": True, "right": False}
        assert kinds == {"right"}  # nobody else is told which rows
        fitted = state.local_model.model.inputs.fitted
        assert torch.equal(values[poisoned], state.trigger.stamp(values[poisoned], fitted))
        rest = np.setdiff1d(np.arange(len(values)), poisoned)
        stamped = state.trigger.stamp(values[rest], fitted)
        assert (values[rest] != stamped).any(dim=1).all()
        assert (split_model.labels[poisoned] == 2).all()
        assert torch.equal(split_model.labels[rest], before[rest])
        clean, triggered = (split_model.logits(rows) for rows in (vfl_pb2.TEST, vfl_pb2.TRIGGERED))
        assert (clean != triggered).any(dim=1).all()


def test_party_without_a_backdoor_refuses_to_plant(tmp_path: Path) -> None:
    with open_split_model(tmp_path, unlearn=[ASK]) as (split_model, _):
        split_model._move_to(vfl_pb2.TRAIN)
        with pytest.raises(ProtocolError):
            split_model._hub.ask("left", 0.3, vfl_pb2.PlantTrigger(), split_model.rows.train[:2])


def test_rows_outside_training_get_no_trigger(tmp_path: Path) -> None:
    with open_split_model(tmp_path, unlearn=[ASK]) as (split_model, sessions):
        with pytest.raises(RemoteProtocolError, match="not training rows"):
            sessions["right"].state.plant_trigger(split_model.rows.test[:2])
        with pytest.raises(RemoteProtocolError, match="defines no backdoor for this party"):
            sessions["left"].state.plant_trigger(split_model.rows.train[:2])


def test_rows_of_the_target_class_only_are_refused(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="no row that can carry the trigger of its backdoor"):
        run(tmp_path, unlearn=[ASK | {"classes": ["c"]}])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"backdoor": PLAN | {"party": "hub"}}, "must be a passive party .got 'hub'"),
        ({"backdoor": PLAN | {"target": "d"}}, "must be a class .got 'd'"),
        ({"backdoor": PLAN | {"columns": ["x"]}}, "two different columns"),
        ({"canaries": 3}, "remove one of the two keys"),
    ],
)
def test_impossible_backdoor_is_refused(change, message) -> None:
    with pytest.raises(ValueError, match=message):
        AGREEMENT.model_validate_json(_json(agreement(unlearn=[ASK | change])))


def test_two_backdoors_are_refused() -> None:
    with pytest.raises(ValueError, match="a run can measure only one"):
        AGREEMENT.model_validate_json(_json(agreement(unlearn=[ASK, ASK | {"name": "second"}])))


def _json(plan) -> str:
    return json.dumps(plan)
