"""A certified release, attacked: what the audit proves of ε stays below what was certified."""

from functools import cache

import numpy as np
import pytest
import torch
from one_head import Head, head

from unlearning.audit.epsilon import Audited, audited_epsilon
from unlearning.certificate import blur, distance_bound, noise_scale
from unlearning.newton import Block, Effort, minimise

BOUND, DELTA, RELEASES = 0.12, 1e-5, 40_000
ROUGH = Effort(tolerance=0.1, products=200)  # its steps end well before the optimum


def released(block: Block, sigma: float, seed: int) -> torch.Tensor:
    """Many releases of one model, [releases, parameters]."""
    flat = torch.cat([each.flatten() for each in block])
    many = flat.expand(RELEASES, -1).clone()
    blur([many], sigma, np.random.default_rng(seed).bytes)
    return many


def attacked(model: Block, retrained: Block, sigma: float) -> Audited:
    """The strongest test there is: along the line between the models, which the attacker knows."""
    along = torch.cat([(a - b).flatten() for a, b in zip(model, retrained, strict=True)])
    ours, theirs = (
        (released(block, sigma, seed) @ along).numpy()
        for seed, block in enumerate((model, retrained))
    )
    return audited_epsilon(ours, theirs, delta=DELTA)


def within(problem: Head, bound: float) -> Block:
    """Walk until the computed distance to the optimum is at most ``bound``."""
    walked = minimise(
        problem, ROUGH, lambda norm: distance_bound(norm, problem.weight) <= bound, 40
    )
    assert distance_bound(walked[-1].gradient_norm, problem.weight) <= bound
    return problem.blocks


@cache
def models() -> dict[str, Block]:
    """The optimum of all rows of a convex problem, and what forgetting some of them comes to."""
    whole = head(4, rows=80)
    original = within(whole, 1e-8)
    rest = Head([each[20:] for each in whole.features], whole.labels[20:], whole.weight, original)
    unlearned, retrained = within(rest, BOUND), within(rest, 1e-8)
    farthest = tuple(each.clone() for each in retrained)
    farthest[0][0, 0] += BOUND
    return {
        "original": original,
        "unlearned": unlearned,
        "retrained": retrained,
        "at the very bound": farthest,
    }


def proved(name: str, epsilon: float, part: float = 1.0) -> float:
    """ε̂ of a model against Retrain, both released with ``part`` of the noise that ε needs."""
    sigma = part * BOUND * noise_scale(epsilon, DELTA)
    return attacked(models()[name], models()["retrained"], sigma).epsilon


@pytest.mark.parametrize("name", ["unlearned", "at the very bound"])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
def test_no_more_is_proved_of_a_release_than_was_certified(name: str, epsilon: float) -> None:
    assert proved(name, epsilon) <= epsilon


def test_the_attack_comes_near_what_was_certified_at_the_very_bound() -> None:
    assert proved("at the very bound", 4.0) > 0.4 * 4.0


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_an_original_that_unlearned_nothing_is_caught(epsilon: float) -> None:
    assert proved("original", epsilon) > epsilon


def test_a_quarter_of_the_noise_is_caught() -> None:
    assert proved("at the very bound", 1.0, part=0.25) > 1.0
