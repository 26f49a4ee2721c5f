"""Tests of the entropy audit: a remembered row, a scar, and neither."""

import math

import pytest
import torch

from unlearning.audit.entropy import entropy_audit, predictive_entropy

FLAT, SHARP = torch.zeros(3, 2), torch.tensor([[9.0, 0.0]] * 3)


def test_entropy_by_hand() -> None:
    logits = torch.tensor([[0.0, 0.0], [100.0, 0.0]], requires_grad=True)
    assert predictive_entropy(logits).tolist() == pytest.approx([math.log(2), 0.0])
    assert not predictive_entropy(logits).requires_grad


def test_remembered_rows_are_surer_than_unseen_ones() -> None:
    audit = entropy_audit(SHARP, FLAT, FLAT)
    assert audit.auc == 1.0
    assert audit.gap == pytest.approx(-math.log(2), abs=0.01)


def test_a_scar_shows_in_an_auc_below_half_and_a_positive_gap() -> None:
    audit = entropy_audit(FLAT, SHARP, SHARP)
    assert audit.auc == 0.0
    assert audit.gap == pytest.approx(math.log(2), abs=0.01)


def test_rows_like_unseen_ones_do_not_stand_out() -> None:
    audit = entropy_audit(FLAT, FLAT, FLAT)
    assert (audit.auc, audit.gap) == (0.5, 0.0)
    assert audit.mean == pytest.approx(math.log(2))
