"""Methods that restore the original model, or the last model with finite numbers."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from test_every_method import votes
from three_parties import forget_some, open_split_model

from parties.common.errors import Diverged
from parties.vertical.engine.local_model import ORIGINAL
from parties.vertical.engine.split_model import SplitModel
from parties.vertical.engine.train import TrainingPlan, train_epochs
from parties.vertical.methods import fedora
from parties.vertical.methods.cvfu import CvfuMethod
from parties.vertical.methods.ico_like import IcoLikeMethod
from parties.vertical.methods.top_only import TopOnlyMethod
from protocol import vfl_pb2


@contextmanager
def trained(folder: Path, unlearning: dict[str, Any], **changes: Any) -> Iterator[SplitModel]:
    with open_split_model(folder, unlearning=unlearning, **changes) as (leading, _):
        forget_some(leading)
        leading.initialise(ORIGINAL, vfl_pb2.TRAIN_ROWS, vfl_pb2.TRAIN)
        train_epochs(leading, TrainingPlan("training", vfl_pb2.TRAIN, vfl_pb2.TRAIN_ROWS, 4, 16))
        leading.keep_copy(ORIGINAL, vfl_pb2.TRAIN)
        yield leading


def test_a_fresh_top_is_given_time_and_goes_back_if_it_does_not_recover(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = {"iterations": 4, "check_every": 1, "start": "fresh-top", "utility_loss": 1e-9}
    with trained(tmp_path, {"fedora": plan | {"primal_step": 1e-6}}) as leading:
        told: list[str] = []
        monkeypatch.setattr(leading.party.progress, "warn", told.append)
        before = leading.logits(vfl_pb2.VALIDATION)
        leading.restore_copy(ORIGINAL, ORIGINAL, vfl_pb2.UNLEARN)
        went = fedora.run_fedora(leading, 1.0, 1.0)
        assert len(went.iterations) == 4  # looked at after each, and given time
        assert went.decision.value == "utility lost"
        assert len(told) == 1
        assert "'utility lost': all parties restored" in told[0]
        assert "may still contain the forgotten rows" in told[0]
        assert torch.equal(leading.logits(vfl_pb2.VALIDATION), before)


def test_a_start_that_recovers_is_kept(tmp_path: Path) -> None:
    plan = {"iterations": 3, "check_every": 1, "start": "shrink", "utility_loss": 1.0}
    with trained(tmp_path, {"fedora": plan}) as leading:
        before = leading.logits(vfl_pb2.VALIDATION)
        leading.restore_copy(ORIGINAL, ORIGINAL, vfl_pb2.UNLEARN)
        went = fedora.run_fedora(leading, 1.0, 0.5)
        assert went.decision.value == "out of iterations"
        assert not torch.equal(leading.logits(vfl_pb2.VALIDATION), before)


def test_ico_like_goes_back_when_numbers_are_not_finite(tmp_path: Path) -> None:
    plan = {"learning_rate": 1e30, "steps": 5}
    with trained(tmp_path, {"ico_like": plan}) as leading:
        before = leading.logits(vfl_pb2.VALIDATION)
        went = IcoLikeMethod().run(leading)
        assert went.stopped == "not finite"
        assert torch.equal(leading.logits(vfl_pb2.VALIDATION), before)


def test_cvfu_goes_back_when_numbers_are_not_finite(tmp_path: Path) -> None:
    plan = {"learning_rate": 1e30, "epochs": 5, "batch": 16}
    with trained(tmp_path, {"cvfu": plan}, **votes()) as leading:
        before = leading.logits(vfl_pb2.VALIDATION)
        assert CvfuMethod().run(leading).figures["kept"] == 0
        assert torch.equal(leading.logits(vfl_pb2.VALIDATION), before)


def test_cvfu_ends_at_the_model_of_the_last_epoch_that_made_progress(tmp_path: Path) -> None:
    plan = {"learning_rate": 3.0, "epochs": 12, "batch": 16, "patience": 1}
    with trained(tmp_path, {"cvfu": plan}, **votes()) as leading:
        figures = CvfuMethod().run(leading).figures
        assert figures["kept"] == len(figures["losses"]) - 1 < 12


def test_noise_of_cvfu_is_drawn_from_the_seed(tmp_path: Path) -> None:
    found = []
    for number, noise in enumerate((0.0, 1e-2, 1e-2)):
        folder = tmp_path / str(number)
        folder.mkdir()
        with trained(folder, {"cvfu": {"epochs": 1, "noise": noise}}, **votes()) as leading:
            CvfuMethod().run(leading)
            found.append(leading.logits(vfl_pb2.VALIDATION))
    without, one, again = found
    assert torch.equal(one, again)
    assert not torch.equal(without, one)


def test_an_offline_party_is_asked_nothing_and_does_not_move(tmp_path: Path) -> None:
    plan = {"epochs": 2, "batch": 16, "offline": ("left",)}
    with trained(tmp_path, {"cvfu": plan}, **votes()) as leading:
        told = asked(leading, "left")
        CvfuMethod().run(leading)
        assert asked(leading, "left") == told + len(leading.rows.train)  # for the cache alone


def asked(leading: SplitModel, name: str) -> int:
    """Number of rows that a party embedded until now."""
    totals = leading.party.traffic._totals.items()
    return sum(
        each.rows for (peer, _, kind, _), each in totals if (peer, kind) == (name, "Embedding")
    )


def test_a_fresh_top_that_diverges_says_so(tmp_path: Path) -> None:
    with trained(tmp_path, {}) as leading:
        with torch.no_grad():
            next(leading.local_model.model.network.bottom.parameters()).fill_(torch.nan)
        leading.keep_copy(ORIGINAL, vfl_pb2.TRAIN)
        with pytest.raises(Diverged, match="fresh top model is not finite"):
            TopOnlyMethod().run(leading)


def test_of_a_class_that_goes_altogether_no_row_counts_for_utility(tmp_path: Path) -> None:
    """Otherwise whoever forgets a class loses utility, and goes back to the model that knows it."""
    with open_split_model(tmp_path, unlearning={}) as (leading, _):
        rows, labels = leading.rows, leading.labels
        truth, classes = labels[rows.validation], len(leading.agreement.labels.classes)
        never_class_0 = torch.nn.functional.one_hot(truth.clamp(min=1), classes).double()
        assert fedora._utility(leading, never_class_0) < 1.0
        leading.forget(rows.train[labels[rows.train].numpy() == 0])
        assert fedora._utility(leading, never_class_0) == 1.0
