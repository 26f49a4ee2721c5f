"""Shadow models teach the attack what the target never showed it."""

import numpy as np
import pytest
import torch

from unlearning.audit.membership import Outputs, score_attack
from unlearning.audit.shadow import Shadow, fit_shadow_attack


def model(seed: int, surer: float) -> Shadow:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, 3, (120,), generator=generator)
    logits = torch.randn(120, 3, generator=generator)
    logits[torch.arange(120), labels] += 2.0
    logits[:60][torch.arange(60), labels[:60]] += surer
    return Shadow(Outputs(logits[:60], labels[:60]), Outputs(logits[60:], labels[60:]))


def test_members_of_another_model_are_found() -> None:
    attack = fit_shadow_attack([model(seed, 3.0) for seed in range(4)])
    target = model(9, 3.0)
    verdict = score_attack(attack, target.members, target.others, np.random.default_rng(0))
    assert verdict.auc.value > 0.85
    assert verdict.tpr <= verdict.auc.value


def test_a_model_that_does_not_remember_gives_nothing_away() -> None:
    attack = fit_shadow_attack([model(seed, 3.0) for seed in range(4)])
    target = model(9, 0.0)
    verdict = score_attack(attack, target.members, target.others, np.random.default_rng(0))
    assert abs(verdict.auc.value - 0.5) < 0.12


def test_fewer_than_four_shadows_are_refused() -> None:
    with pytest.raises(ValueError, match="4 or more models, got 3"):
        fit_shadow_attack([model(seed, 1.0) for seed in range(3)])
