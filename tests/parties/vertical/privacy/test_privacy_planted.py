"""Known mistakes, planted on purpose: the tests of noise must notice each of them."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import test_privacy_accounting
import test_privacy_ledger
import test_privacy_wire
import torch
from torch import Tensor

from models.noise import Keystream, clip_rows, gaussian_mechanism
from parties.vertical.privacy import accounting
from parties.vertical.privacy import one_time_release as once
from parties.vertical.privacy import visit_noise as visits
from parties.vertical.privacy.visit_noise import VisitNoise

Patch = pytest.MonkeyPatch


def clip_after_noise(patch: Patch) -> None:
    def mechanism(rows: Tensor, largest: float, sigma: float, noise: Keystream) -> Tensor:
        return clip_rows(rows + (noise.normal(rows.shape) * sigma).to(rows.dtype), largest)

    patch.setattr(once, "gaussian_mechanism", mechanism)


def clip_of_the_whole_batch(patch: Patch) -> None:
    def clip(rows: Tensor, largest: float) -> Tensor:
        return rows * min(1.0, largest / float(rows.norm(dim=1).max()))

    patch.setattr(visits, "clip_rows", clip)


def sigma_without_clip(patch: Patch) -> None:
    def mechanism(rows: Tensor, largest: float, sigma: float, noise: Keystream) -> Tensor:
        return gaussian_mechanism(rows, largest, sigma / largest, noise)

    patch.setattr(once, "gaussian_mechanism", mechanism)


def noise_used_again(patch: Patch) -> None:
    fresh = Keystream.normal
    patch.setattr(Keystream, "normal", lambda self, shape: fresh(Keystream(bytes(32)), shape))


def evaluation_free_of_charge(patch: Patch) -> None:
    charge = VisitNoise._charge

    def only_while_learning(self: VisitNoise, now: np.ndarray, within: np.ndarray) -> None:
        if torch.is_grad_enabled():
            charge(self, now, within)

    patch.setattr(VisitNoise, "_charge", only_while_learning)


def ledger_after_the_message(patch: Patch) -> None:
    charge, late = VisitNoise._charge, dict[int, Any]()

    def afterwards(self: VisitNoise, now: np.ndarray, within: np.ndarray) -> None:
        if id(self) in late:
            charge(self, *late[id(self)])
        late[id(self)] = (now, within)

    patch.setattr(VisitNoise, "_charge", afterwards)


def half_the_sensitivity(patch: Patch) -> None:
    patch.setitem(accounting.SENSITIVITY, "replace_one", 1.0)


@dataclass(frozen=True)
class Bug:
    """A mistake, and the test that must fail with it."""

    plant: Callable[[Patch], None]
    notices: Callable[[Path, Patch], None]


BUGS = [
    Bug(clip_after_noise, test_privacy_wire.test_noise_of_a_single_release_on_the_wire),
    Bug(clip_of_the_whole_batch, test_privacy_wire.test_noise_of_many_visits_on_the_wire),
    Bug(sigma_without_clip, test_privacy_wire.test_noise_of_a_single_release_on_the_wire),
    Bug(noise_used_again, test_privacy_wire.test_noise_differs_by_row_step_party_and_session),
    Bug(evaluation_free_of_charge, test_privacy_wire.test_evaluation_is_charged),
    Bug(
        ledger_after_the_message,
        test_privacy_ledger.test_the_ledger_is_written_before_a_byte_leaves,
    ),
    Bug(
        half_the_sensitivity,
        lambda *_: test_privacy_accounting.test_epsilon_of_a_single_release(4.0, 1.99),
    ),
]


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.plant.__name__)
def test_planted_mistake_is_detected(tmp_path: Path, monkeypatch: Patch, bug: Bug) -> None:
    bug.plant(monkeypatch)
    with pytest.raises(AssertionError):
        bug.notices(tmp_path, monkeypatch)
