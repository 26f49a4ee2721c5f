"""An empirical attack on the release: it finds no more than ε, unless the release is wrong."""

import math
from collections.abc import Callable
from hashlib import sha256

import numpy as np
import pytest
import torch
from dp_accounting import get_sigma_gaussian
from scipy.stats import beta
from torch import Tensor

from models.noise import Keystream, add_noise, gaussian_mechanism
from parties.vertical.privacy.accounting import SENSITIVITY

DELTA, CLIP, ROWS, DOUBT = 1e-5, 0.5, 200_000, 1e-3
Release = Callable[[Tensor, float, Keystream], Tensor]


def correct(rows: Tensor, sigma: float, noise: Keystream) -> Tensor:
    return gaussian_mechanism(rows, CLIP, sigma, noise)


def half_the_noise(rows: Tensor, sigma: float, noise: Keystream) -> Tensor:
    return gaussian_mechanism(rows, CLIP, sigma / 2, noise)


def no_clip(rows: Tensor, sigma: float, noise: Keystream) -> Tensor:
    return add_noise(5 * rows, sigma, noise)


def epsilon_lower_bound(release: Release, epsilon: float, name: str) -> float:
    """A lower bound on the ε of ``release``, from the worst pair of rows: C e₁ against -C e₁.

    The threshold is chosen on one half of the samples. On the other half Clopper-Pearson intervals
    bound both error rates.
    """
    sigma = CLIP * SENSITIVITY["replace_one"] * float(get_sigma_gaussian(epsilon, DELTA))
    noise = Keystream(sha256(name.encode()).digest())
    row = torch.tensor([[CLIP, 0.0]], dtype=torch.float64).expand(ROWS, 2)
    one, two = (release(sign * row, sigma, noise)[:, 0].numpy() for sign in (1, -1))
    half = ROWS // 2
    candidates = np.quantile(one[:half], np.linspace(0.5, 0.9999, 60))
    hits, alarms = (
        np.array([(part > t).mean() for t in candidates]) for part in (one[:half], two[:half])
    )
    best = candidates[np.argmax(np.log(hits) - np.log(np.maximum(alarms, 5 / half)))]
    true_positives, false_alarms = (int((part[half:] > best).sum()) for part in (one, two))
    lower_rate = beta.ppf(DOUBT / 2, true_positives, half - true_positives + 1)
    most = beta.ppf(1 - DOUBT / 2, false_alarms + 1, half - false_alarms)
    return math.log(max(lower_rate - DELTA, 1e-9) / most)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
def test_attack_stays_below_the_claimed_epsilon(epsilon: float) -> None:
    bounds = [epsilon_lower_bound(correct, epsilon, f"{epsilon} {start}") for start in range(3)]
    assert max(bounds) <= epsilon
    assert max(bounds) > epsilon / 4  # the audit has power: it comes near the claim


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
@pytest.mark.parametrize("false_alarms", [half_the_noise, no_clip])
def test_attack_detects_a_wrong_release(false_alarms: Release, epsilon: float) -> None:
    assert epsilon_lower_bound(false_alarms, epsilon, f"{epsilon}") > epsilon
