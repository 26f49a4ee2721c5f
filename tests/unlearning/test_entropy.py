"""Tests of the Streisand check: a remembered row, a scar, and neither."""

import math

import pytest
import torch

from unlearning.audit.entropy import certainty_auc, predictive_entropy, streisand

FLAT, SHARP = torch.zeros(40, 2), torch.tensor([[9.0, 0.0]] * 40)
MIXED = torch.tensor([[float(row % 8), 0.0] for row in range(40)])
RETRAINS = [MIXED, MIXED * 1.1]


def test_entropy_by_hand() -> None:
    logits = torch.tensor([[0.0, 0.0], [100.0, 0.0]], requires_grad=True)
    assert predictive_entropy(logits).tolist() == pytest.approx([math.log(2), 0.0])
    assert not predictive_entropy(logits).requires_grad


def test_remembered_rows_are_surer_than_unseen_ones() -> None:
    found = streisand(SHARP, FLAT, RETRAINS)
    assert found.auc == 1.0
    assert found.gap < 0
    assert not found.flagged  # remembering is no scar


def test_uniform_outputs_are_flagged() -> None:
    found = streisand(FLAT, SHARP, RETRAINS)
    assert found.auc == 0.0
    assert found.gap == pytest.approx(
        math.log(2) - sum(float(predictive_entropy(r).mean()) for r in RETRAINS) / 2
    )
    assert found.flagged


def test_a_gap_alone_is_flagged() -> None:
    assert streisand(FLAT, FLAT, RETRAINS).flagged


def test_rows_like_a_retrains_do_not_stand_out() -> None:
    found = streisand(RETRAINS[0], MIXED, RETRAINS)
    assert found.auc == 0.5
    assert not found.flagged


def test_one_retrain_has_no_spread() -> None:
    with pytest.raises(ValueError, match="2 or more"):
        streisand(FLAT, FLAT, [MIXED])


def test_the_auc_is_of_certainty() -> None:
    assert certainty_auc(SHARP, FLAT) == 1.0
