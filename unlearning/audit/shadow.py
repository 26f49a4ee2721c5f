"""Membership inference with real shadow models: the attacker never sees the members' labels.

Each shadow model learned one half of the rows that stay, and never saw the other. The attack
learns from all of them and is scored on the model under attack (Shokri et al., S&P 2017).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from sklearn.pipeline import Pipeline

from unlearning.audit.membership import Outputs, fit_attack

FEWEST = 4


@dataclass(frozen=True, slots=True)
class Shadow:
    """One shadow model's outputs on the half that it learned and on the half that it did not."""

    members: Outputs
    others: Outputs


def fit_shadow_attack(shadows: Sequence[Shadow]) -> Pipeline:
    """Fit the attack on all shadow models together; see ``membership.score_attack``.

    Raises:
        ValueError: with fewer than four, whose chance would be the attack's.
    """
    if len(shadows) < FEWEST:
        raise ValueError(f"a shadow attack needs {FEWEST} or more models, got {len(shadows)}")
    members, others = [each.members for each in shadows], [each.others for each in shadows]
    return fit_attack(_joined(members), _joined(others))


def _joined(outputs: Sequence[Outputs]) -> Outputs:
    return Outputs(
        torch.cat([each.logits for each in outputs]), torch.cat([each.labels for each in outputs])
    )
