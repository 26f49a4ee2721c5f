"""Tests of the KKT report."""

import pytest

from unlearning.kkt import KktGradients, kkt_residuals


def test_every_residual_by_hand() -> None:
    result = kkt_residuals(
        KktGradients(retain=4.0, lagrangian=9.0),
        dual=0.5,
        threshold=1.0,
        forgetting=0.8,
        tolerance=1e-3,
    )
    assert result.stationarity == pytest.approx(3 / (1 + 2))
    assert result.primal == pytest.approx(0.2)
    assert result.dual == 0.5
    assert result.complementarity == pytest.approx(0.1)
    assert not result.converged


def test_a_slack_constraint_with_dual_zero_has_no_residual() -> None:
    result = kkt_residuals(
        KktGradients(retain=0.0, lagrangian=1e-8),
        dual=0.0,
        threshold=-1.0,
        forgetting=3.0,
        tolerance=1e-3,
    )
    assert (result.primal, result.complementarity) == (0.0, 0.0)
    assert result.converged


def test_a_slack_constraint_with_a_positive_dual_is_not_converged() -> None:
    small = KktGradients(retain=0.0, lagrangian=0.0)
    result = kkt_residuals(small, dual=0.1, threshold=-1.0, forgetting=1.0, tolerance=1e-3)
    assert result.complementarity == pytest.approx(0.2)
    assert not result.converged


def test_a_negative_dual_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 0"):
        kkt_residuals(
            KktGradients(retain=0.0, lagrangian=0.0),
            dual=-1e-9,
            threshold=0.0,
            forgetting=0.0,
            tolerance=1.0,
        )
