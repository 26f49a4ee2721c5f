"""Methods that restore the original model, or the last model with finite numbers."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from fixed_threshold import run_fedora
from test_every_method import votes
from three_parties import LONG, forget_some, open_split_model, start_training

from parties.requests.driver import carry_out
from parties.vertical.engine.local_model import ORIGINAL
from parties.vertical.engine.split_model import SplitModel
from parties.vertical.engine.train import TrainingPlan, train_epochs
from parties.vertical.methods import fedora
from parties.vertical.methods.cvfu import CvfuMethod
from parties.vertical.methods.ico_like import IcoLikeMethod
from parties.vertical.methods.network_run import NetworkRun
from parties.vertical.methods.top_only import TopOnlyMethod
from protocol import vfl_pb2


@contextmanager
def trained(folder: Path, unlearning: dict[str, Any], **changes: Any) -> Iterator[SplitModel]:
    agreed = {"unlearning": unlearning, "training": LONG, **changes}
    with open_split_model(folder, **agreed) as (split_model, _):
        forget_some(split_model)
        start_training(split_model, ORIGINAL)
        train_epochs(split_model, TrainingPlan("training", vfl_pb2.TRAIN_ROWS, 4, 16))
        split_model.keep_copy(ORIGINAL, vfl_pb2.TRAIN)
        yield split_model


def test_fresh_top_is_rolled_back_if_it_does_not_recover(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = {"iterations": 4, "check_every": 1, "start": "fresh-top", "utility_loss": 1e-9}
    plan |= {"policy": "present", "anneal": False}
    with trained(tmp_path, {"fedora": plan | {"primal_step": 1e-6}}) as split_model:
        warnings: list[str] = []
        monkeypatch.setattr(split_model.party.progress, "warn", warnings.append)
        before = split_model.logits(vfl_pb2.VALIDATION)
        result = run_fedora(split_model, 1.0, 1.0)
        assert len(result.iterations) == 4  # evaluated after each iteration, without an early stop
        assert result.stopped == "utility lost"
        assert len(warnings) == 1
        assert "'utility lost': no model of FedORA passed validation" in warnings[0]
        assert result.restored is not None
        assert result.restored.startswith("utility lost: no model of FedORA passed validation")
        assert torch.equal(split_model.logits(vfl_pb2.VALIDATION), before)


@pytest.mark.parametrize(("anneal", "iterations"), [(True, 4), (False, 1)])
def test_annealed_run_is_judged_after_its_last_iteration(
    tmp_path: Path, anneal: bool, iterations: int
) -> None:
    plan = {"policy": "present", "start": "original", "iterations": 4, "check_every": 1}
    plan |= {"primal_step": 0.5, "utility_loss": 1e-9} | ({} if anneal else {"anneal": False})
    with trained(tmp_path, {"fedora": plan}) as split_model:
        before = split_model.logits(vfl_pb2.VALIDATION)
        result = run_fedora(split_model, 1.0, 1.0)
        assert result.stopped == "utility lost"
        assert len(result.iterations) == iterations
        assert torch.equal(split_model.logits(vfl_pb2.VALIDATION), before)


def test_recovered_start_is_kept(tmp_path: Path) -> None:
    plan = {"iterations": 3, "check_every": 1, "start": "shrink", "utility_loss": 1.0}
    plan |= {"policy": "present"}
    with trained(tmp_path, {"fedora": plan}) as split_model:
        before = split_model.logits(vfl_pb2.VALIDATION)
        result = run_fedora(split_model, 1.0, 0.5)
        assert result.stopped == "out of iterations"
        assert result.restored is None
        assert not torch.equal(split_model.logits(vfl_pb2.VALIDATION), before)


def test_ico_like_is_rolled_back_on_non_finite_numbers(tmp_path: Path) -> None:
    plan = {"learning_rate": 1e30, "steps": 5}
    with trained(tmp_path, {"ico_like": plan}) as split_model:
        before = split_model.logits(vfl_pb2.VALIDATION)
        result = carry_out(IcoLikeMethod(), NetworkRun(split_model))
        assert result.stopped == "not finite"
        assert torch.equal(split_model.logits(vfl_pb2.VALIDATION), before)


def test_cvfu_is_rolled_back_on_non_finite_numbers(tmp_path: Path) -> None:
    plan = {"learning_rate": 1e30, "epochs": 5, "batch": 16}
    with trained(tmp_path, {"cvfu": plan}, **votes()) as split_model:
        before = split_model.logits(vfl_pb2.VALIDATION)
        assert carry_out(CvfuMethod(), NetworkRun(split_model)).figures["kept"] == 0
        assert torch.equal(split_model.logits(vfl_pb2.VALIDATION), before)


def test_cvfu_ends_at_the_model_of_the_last_epoch_that_made_progress(tmp_path: Path) -> None:
    plan = {"learning_rate": 3.0, "epochs": 12, "batch": 16, "patience": 1}
    with trained(tmp_path, {"cvfu": plan}, **votes()) as split_model:
        figures = carry_out(CvfuMethod(), NetworkRun(split_model)).figures
        assert figures["kept"] == len(figures["losses"]) - 1 < 12


def test_noise_of_cvfu_is_drawn_from_the_seed(tmp_path: Path) -> None:
    outputs = []
    for number, noise in enumerate((0.0, 1e-2, 1e-2)):
        folder = tmp_path / str(number)
        folder.mkdir()
        with trained(folder, {"cvfu": {"epochs": 1, "noise": noise}}, **votes()) as split_model:
            carry_out(CvfuMethod(), NetworkRun(split_model))
            outputs.append(split_model.logits(vfl_pb2.VALIDATION))
    without, one, again = outputs
    assert torch.equal(one, again)
    assert not torch.equal(without, one)


def test_offline_party_gets_no_request_and_keeps_its_parameters(tmp_path: Path) -> None:
    plan = {"epochs": 2, "batch": 16, "offline": ("left",)}
    with trained(tmp_path, {"cvfu": plan}, **votes()) as split_model:
        rows_before = embedded_rows(split_model, "left")
        carry_out(CvfuMethod(), NetworkRun(split_model))
        assert embedded_rows(split_model, "left") == rows_before + len(
            split_model.rows.train
        )  # for the cache alone


def embedded_rows(split_model: SplitModel, name: str) -> int:
    """Number of rows that a party embedded until now."""
    totals = split_model.party.traffic._totals.items()
    return sum(
        each.rows for (peer, _, kind, _), each in totals if (peer, kind) == (name, "Embedding")
    )


def test_diverged_fresh_top_is_stopped_and_rolled_back(tmp_path: Path) -> None:
    with trained(tmp_path, {}) as split_model:
        with torch.no_grad():
            next(split_model.local_model.model.network.bottom.parameters()).fill_(torch.nan)
        split_model.keep_copy(ORIGINAL, vfl_pb2.TRAIN)
        before = [each.clone() for each in split_model.local_model.model.block]
        result = carry_out(TopOnlyMethod(), NetworkRun(split_model))
        assert result.stopped == "not finite"
        assert [each["epoch"] for each in result.figures["epochs"]] == [1]
        after = split_model.local_model.model.block
        assert all(
            torch.equal(one.nan_to_num(7.0), other.nan_to_num(7.0))
            for one, other in zip(before, after, strict=True)
        )


def test_forgotten_class_is_excluded_from_utility(tmp_path: Path) -> None:
    """Otherwise a method that forgets a class would lose utility and be rolled back."""
    with open_split_model(tmp_path, unlearning={}) as (split_model, _):
        rows, labels = split_model.rows, split_model.labels
        truth, classes = labels[rows.validation], len(split_model.agreement.labels.classes)
        never_class_0 = torch.nn.functional.one_hot(truth.clamp(min=1), classes).double()
        assert fedora._utility(NetworkRun(split_model), never_class_0) < 1.0
        split_model.forget(rows.train[labels[rows.train].numpy() == 0])
        assert fedora._utility(NetworkRun(split_model), never_class_0) == 1.0
