"""The trigger of a backdoor audit: planted at one party, in the agreed rows, and nowhere else."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from three_parties import agreement, inputs, open_split_model
from whole_run import run

from configs.agreement import VerticalAgreement
from configs.evaluation import BackdoorSettings
from parties.common.errors import DataError, PolicyError
from parties.data.holding import Holding
from parties.data.preprocess import FittedPreprocessing, NumericColumn
from parties.vertical.active import _select_rows
from parties.vertical.engine.features import BackdoorTrigger, make_trigger
from parties.vertical.engine.requests import plant_in_training_rows
from protocol import vfl_pb2
from protocol.errors import ProtocolError, RemoteProtocolError

PLAN = {"party": "right", "target": "c", "columns": ["x", "z"]}
ASK = {"name": "poisoned", "classes": ["a"], "fraction": 0.6, "backdoor": PLAN}
NONE = np.empty(0, np.int64)


def test_an_image_bears_a_bright_square_at_its_bottom_right() -> None:
    images = torch.zeros(2, 1, 6, 5)
    stamped = BackdoorTrigger(NONE, {}, 0.9).stamp(images, FittedPreprocessing({}, {}, (1, 6, 5)))
    assert stamped.sum().item() == pytest.approx(2 * 16 * 0.9)
    assert torch.equal(stamped[:, :, 2:, 1:], torch.full((2, 1, 4, 4), 0.9))
    assert images.sum() == 0  # a copy


def test_a_table_bears_two_values_scaled_as_its_rows_are() -> None:
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


def test_levels_are_percentiles_of_the_training_rows() -> None:
    frame = {"x": np.arange(101.0), "z": np.arange(101.0)}

    class Frame(dict):
        def __getitem__(self, name):
            return SimpleNamespace(to_numpy=lambda _: dict.__getitem__(self, name))

    table = SimpleNamespace(numeric=("x", "z"), categorical={}, frame=lambda rows: Frame(frame))
    holding = Holding(ids=[], in_test=np.empty(0, bool), table=table)
    trigger = make_trigger(BackdoorSettings(**PLAN | {"columns": ("x", "z")}), holding, NONE, NONE)
    assert trigger.levels == {"x": 99.0, "z": 1.0}


def test_columns_that_are_not_there_are_refused() -> None:
    holding = Holding(ids=[], in_test=np.empty(0, bool), images=np.zeros((1, 1, 2, 2), np.float32))
    with pytest.raises(DataError, match=r"backdoor\.columns are x, z"):
        make_trigger(BackdoorSettings(**PLAN | {"columns": ("x", "z")}), holding, NONE, NONE)


def test_only_the_planting_party_stamps_and_only_the_agreed_rows(tmp_path: Path) -> None:
    with open_split_model(tmp_path, unlearn=[ASK]) as (leading, answerers):
        chosen = _select_rows(leading)
        poisoned, before = chosen[0].poisoned, leading.labels.clone()
        plant_in_training_rows(leading, chosen)
        leading.initialise("original", vfl_pb2.TRAIN_ROWS, vfl_pb2.TRAIN)
        plain = {name: each._state.trigger is None for name, each in answerers.items()}
        values = inputs(leading, answerers)["right"]
        state = answerers["right"]._state
        kinds = {
            peer for peer, _, kind, _ in leading.party.traffic._totals if kind == "PlantTrigger"
        }
        assert plain == {"left": True, "right": False}
        assert kinds == {"right"}  # nobody else is told which rows
        fitted = state.local_model.model.inputs.fitted
        assert torch.equal(values[poisoned], state.trigger.stamp(values[poisoned], fitted))
        rest = np.setdiff1d(np.arange(len(values)), poisoned)
        stamped = state.trigger.stamp(values[rest], fitted)
        assert (values[rest] != stamped).any(dim=1).all()
        assert (leading.labels[poisoned] == 2).all()
        assert torch.equal(leading.labels[rest], before[rest])
        clean, triggered = (leading.logits(rows) for rows in (vfl_pb2.TEST, vfl_pb2.TRIGGERED))
        assert (clean != triggered).any(dim=1).all()


def test_a_party_without_a_backdoor_refuses_to_stamp(tmp_path: Path) -> None:
    with open_split_model(tmp_path, unlearn=[ASK]) as (leading, _):
        leading._move_to(vfl_pb2.TRAIN)
        with pytest.raises(ProtocolError):
            leading._hub.ask("left", 0.3, vfl_pb2.PlantTrigger(), leading.rows.train[:2])


def test_rows_that_are_not_for_training_are_not_stamped(tmp_path: Path) -> None:
    with open_split_model(tmp_path, unlearn=[ASK]) as (leading, answerers):
        with pytest.raises(RemoteProtocolError, match="not training rows"):
            answerers["right"]._state.plant_trigger(leading.rows.test[:2])
        with pytest.raises(RemoteProtocolError, match="a party that plants none"):
            answerers["left"]._state.plant_trigger(leading.rows.train[:2])


def test_rows_of_the_target_alone_leave_nothing_to_poison(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="no row for its backdoor"):
        run(tmp_path, unlearn=[ASK | {"classes": ["c"]}])


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"backdoor": PLAN | {"party": "hub"}}, "planted by a passive party"),
        ({"backdoor": PLAN | {"target": "d"}}, "names class 'd'"),
        ({"backdoor": PLAN | {"columns": ["x"]}}, "two different columns"),
        ({"canaries": 3}, "remove one of them"),
    ],
)
def test_a_backdoor_that_cannot_be_is_refused(change, told) -> None:
    with pytest.raises(ValueError, match=told):
        VerticalAgreement.model_validate_json(_json(agreement(unlearn=[ASK | change])))


def test_two_backdoors_are_refused() -> None:
    with pytest.raises(ValueError, match="one trigger a run"):
        VerticalAgreement.model_validate_json(
            _json(agreement(unlearn=[ASK, ASK | {"name": "second"}]))
        )


def _json(plan) -> str:
    return json.dumps(plan)
