"""Tests of SCRUB: the student leaves the teacher on D_u, and without that it is fine-tuning."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from test_split_methods import trained
from torch import Tensor

from parties.requests.driver import carry_out
from parties.vertical.engine.split_model import SplitModel
from parties.vertical.methods.fine_tune import FineTuneMethod
from parties.vertical.methods.network_run import NetworkRun
from parties.vertical.methods.scrub import ScrubMethod
from protocol import vfl_pb2

OFF = {"epochs": 2, "forget_epochs": 0, "alpha": 0.0, "learning_rate": 0.002}


class FineTuneInItsOrder(FineTuneMethod):
    """Fine-tuning with the batch order of SCRUB."""

    name: ClassVar = "scrub"


@contextmanager
def after(folder: Path, method: Any, **unlearning: Any) -> Iterator[tuple[SplitModel, Tensor]]:
    """The model after a method, and the original model's logits on D_u."""
    with trained(folder, unlearning) as (split_model, *_):
        teacher = split_model.logits(vfl_pb2.FORGOTTEN).clone()
        carry_out(method, NetworkRun(split_model))
        yield split_model, teacher


def divergence(split_model: SplitModel, teacher: Tensor) -> float:
    """KL divergence of the present predictions on D_u from the original model's."""
    present = split_model.logits(vfl_pb2.FORGOTTEN).log_softmax(dim=1)
    truth = teacher.log_softmax(dim=1)
    return float((truth.exp() * (truth - present)).sum(dim=1).mean())


def test_the_student_leaves_the_teacher_on_forgotten_rows(tmp_path: Path) -> None:
    found = []
    for epochs in (0, 2):
        plan = {"epochs": 2, "forget_epochs": epochs, "learning_rate": 0.005, "gamma": 0.01}
        folder = tmp_path / str(epochs)
        folder.mkdir()
        with after(folder, ScrubMethod(), scrub=plan) as (split_model, teacher):
            found.append(divergence(split_model, teacher))
    assert found[1] > 2 * found[0]


def test_switched_off_it_is_fine_tuning(tmp_path: Path) -> None:
    logits = []
    plans = {"scrub": OFF, "fine_tune": {"epochs": 2, "learning_rate": 0.002}}
    for number, method in enumerate((ScrubMethod(), FineTuneInItsOrder())):
        folder = tmp_path / str(number)
        folder.mkdir()
        with after(folder, method, **plans) as (split_model, _):
            logits.append(split_model.logits(vfl_pb2.TEST).clone())
    assert torch.equal(*logits)


def test_the_divergence_of_the_teacher_from_itself_is_zero(tmp_path: Path) -> None:
    with after(tmp_path, ScrubMethod(), scrub=OFF | {"epochs": 1}) as (split_model, _):
        run = NetworkRun(split_model)
        teacher = run.logits(vfl_pb2.FORGOTTEN)
        found: list[float] = []

        def look(batch: Any) -> Any:
            found.append(ScrubMethod()._divergence(run, batch, teacher).item())
            raise InterruptedError

        with pytest.raises(InterruptedError):
            run.run_batches(run.epoch_requests(vfl_pb2.FORGOTTEN, 1, 16), look)
        assert found == [pytest.approx(0.0, abs=1e-6)]
