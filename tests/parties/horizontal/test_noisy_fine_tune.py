"""Noisy fine-tune: clipped mean updates, and noise of the stated size."""

from pathlib import Path

import pytest
import torch
from clients import CLIENTS, LOCAL_TASK, context, trained
from local_run import unlearned_model
from torch import Tensor

from parties.horizontal.engine.rounds import RoundPlan
from parties.horizontal.methods.fine_tune import FineTune
from parties.horizontal.methods.method import AnyClientMethod
from parties.horizontal.methods.noisy_fine_tune import NoisyFineTune, NoisyFineTuneSettings
from parties.horizontal.registry import build_method
from tests.configs.four_clients import agreed
from unlearning.guarantee import Guarantee

ONE, TWO = RoundPlan(LOCAL_TASK, 1), RoundPlan(LOCAL_TASK, 2)
REMAINING = len(CLIENTS) - 1


def model(method: AnyClientMethod) -> Tensor:
    return unlearned_model(method, context([]))


def noisy_method(
    round_plan: RoundPlan, clip: float | None = None, sigma: float = 0.1
) -> NoisyFineTune:
    return NoisyFineTune(round_plan, NoisyFineTuneSettings(clip=clip, sigma=sigma))


def test_switched_off_it_equals_fine_tune() -> None:
    assert torch.equal(model(noisy_method(TWO, sigma=0.0)), model(FineTune(TWO)))


@pytest.mark.parametrize("clip", [None, 0.05])
def test_noise_has_the_stated_size(clip: float | None) -> None:
    quiet, noisy = (model(noisy_method(ONE, clip, sigma)) for sigma in (0.0, 0.5))
    bound = clip or float((quiet - trained()).norm())
    found = float((noisy - quiet).double().std())
    assert found == pytest.approx(0.5 * bound / REMAINING, rel=0.1)


def test_mean_update_is_clipped() -> None:
    change = model(noisy_method(ONE, 0.05, 0.0)) - trained()
    assert float(change.norm()) == pytest.approx(0.05, rel=1e-3)
    assert torch.equal(model(noisy_method(ONE, 1e6, 0.0)), model(FineTune(ONE)))


def test_noise_depends_on_the_round_and_not_on_the_run() -> None:
    first, again = (model(noisy_method(ONE, 1e-9, 1e9)) for _ in range(2))
    assert torch.equal(first, again)
    second = model(noisy_method(TWO, 1e-9, 1e9)) - first
    assert float((second - (first - trained())).abs().max()) > 0.1


def test_settings_reach_the_method(tmp_path: Path) -> None:
    table = "[unlearning.noisy_fine_tune]\nstage = { rounds = 3 }\nclip = 2.0\nsigma = 0.25\n"
    method = build_method(agreed(tmp_path, table), "noisy-fine-tune")
    assert isinstance(method, NoisyFineTune)
    assert (method.recover.rounds, method.plan.clip, method.plan.sigma) == (3, 2.0, 0.25)
    assert method.guarantee is Guarantee.HEURISTIC
