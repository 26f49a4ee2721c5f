"""Attack on a certified release: the audited lower bound of ε must be below the certified ε."""

from functools import cache

import numpy as np
import pytest
import torch
from one_head import Head, minimise, random_head
from split_audit import split_epsilon_bound

from unlearning.audit.epsilon import EpsilonBound
from unlearning.certificate import add_gaussian_noise, distance_bound, gaussian_noise_scale
from unlearning.newton import Block, SolverBudget

BOUND, DELTA, RELEASES = 0.12, 1e-5, 40_000
ROUGH = SolverBudget(tolerance=0.1, products=200)  # its steps stop well before the optimum


def released(block: Block, sigma: float, seed: int) -> torch.Tensor:
    """Return many releases of one model, ``[releases, parameters]``."""
    flat = torch.cat([each.flatten() for each in block])
    many = flat.expand(RELEASES, -1).clone()
    add_gaussian_noise([many], sigma, np.random.default_rng(seed).bytes)
    return many


def attacked(model: Block, retrained: Block, sigma: float) -> EpsilonBound:
    """Return the bound of the strongest attack, which projects on the line between both models."""
    along = torch.cat([(a - b).flatten() for a, b in zip(model, retrained, strict=True)])
    ours, theirs = (
        (released(block, sigma, seed) @ along).numpy()
        for seed, block in enumerate((model, retrained))
    )
    return split_epsilon_bound(ours, theirs, delta=DELTA)


def solved_to(problem: Head, bound: float) -> Block:
    """Return the blocks once their certified distance to the optimum is at most ``bound``."""
    steps = minimise(problem, ROUGH, lambda norm: distance_bound(norm, problem.weight) <= bound, 40)
    assert distance_bound(steps[-1].gradient_norm, problem.weight) <= bound
    return problem.blocks


@cache
def models() -> dict[str, Block]:
    """Return the optimum of a convex problem, and models that unlearned 20 of its rows."""
    whole = random_head(4, rows=80)
    original = solved_to(whole, 1e-8)
    rest = Head([each[20:] for each in whole.features], whole.labels[20:], whole.weight, original)
    unlearned, retrained = solved_to(rest, BOUND), solved_to(rest, 1e-8)
    farthest = tuple(each.clone() for each in retrained)
    farthest[0][0, 0] += BOUND
    return {
        "original": original,
        "unlearned": unlearned,
        "retrained": retrained,
        "at the bound": farthest,
    }


def audited_epsilon(name: str, epsilon: float, part: float = 1.0) -> float:
    """Return the bound of a model against Retrain, both released with ``part`` of the noise."""
    sigma = part * BOUND * gaussian_noise_scale(epsilon, DELTA)
    return attacked(models()[name], models()["retrained"], sigma).epsilon


@pytest.mark.parametrize("name", ["unlearned", "at the bound"])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
def test_the_audited_epsilon_is_below_the_certified_one(name: str, epsilon: float) -> None:
    assert audited_epsilon(name, epsilon) <= epsilon


def test_the_attack_comes_near_the_certified_epsilon_at_the_bound() -> None:
    assert audited_epsilon("at the bound", 4.0) > 0.4 * 4.0


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_a_model_that_unlearned_nothing_is_detected(epsilon: float) -> None:
    assert audited_epsilon("original", epsilon) > epsilon


def test_too_little_noise_is_detected() -> None:
    assert audited_epsilon("at the bound", 1.0, part=0.25) > 1.0
