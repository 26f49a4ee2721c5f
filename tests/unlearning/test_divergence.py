"""Tests of the divergences and of the JS ratio, with numbers computed by hand."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from unlearning.audit.divergence import JsRatio, js_divergence, js_ratio, kl, ratio_over_seeds

P = torch.tensor([[0.7, 0.2, 0.1]], dtype=torch.float64).log()
Q = torch.tensor([[0.5, 0.3, 0.2]], dtype=torch.float64).log()


def certain(label: int) -> Tensor:
    return torch.nn.functional.one_hot(torch.tensor([label]), 3).double().log()


def test_divergences_by_hand() -> None:
    assert kl(P, Q).item() == pytest.approx(0.085123, abs=5e-7)
    assert kl(Q, P).item() == pytest.approx(0.092033, abs=5e-7)
    assert js_divergence(P, Q) == pytest.approx(0.021901, abs=5e-7)


def test_disjoint_outputs_are_log_two_apart() -> None:
    assert js_divergence(certain(0), certain(1)) == pytest.approx(math.log(2))
    assert js_divergence(certain(0), certain(0)) == 0.0


def test_kl_of_an_impossible_class_is_infinite() -> None:
    assert kl(certain(0), certain(1)).item() == math.inf


def test_rows_are_averaged() -> None:
    both = js_divergence(torch.cat([P, P]), torch.cat([Q, P]))
    assert both == pytest.approx(js_divergence(P, Q) / 2)


rows = st.lists(st.floats(-100, 100), min_size=3, max_size=3)


@given(rows, rows)
def test_js_is_symmetric_and_bounded(left: list[float], right: list[float]) -> None:
    p, q = (torch.tensor([side], dtype=torch.float64).log_softmax(1) for side in (left, right))
    assert -1e-12 <= js_divergence(p, q) <= math.log(2) + 1e-12
    assert js_divergence(p, q) == pytest.approx(js_divergence(q, p), abs=1e-12)


def test_ratio_of_three_retrains_by_hand() -> None:
    # Retrains: P, P and Q; two of their three pairs differ by JS(P, Q).
    ratio = js_ratio(Q, [P, P, Q])
    apart = js_divergence(P, Q)
    assert ratio.to_retrain == pytest.approx(2 * apart / 3)
    assert ratio.between_retrains == pytest.approx(2 * apart / 3)
    assert ratio.value == pytest.approx(1.0)


def test_identical_retrains_leave_no_unit() -> None:
    assert js_ratio(Q, [P, P]).value == math.inf


def test_one_retrain_is_refused() -> None:
    with pytest.raises(ValueError, match="2 or more independent Retrains, got 1"):
        js_ratio(P, [Q])


def test_over_seeds_means_are_divided_not_ratios_averaged() -> None:
    ratios = [JsRatio(1.0, 1.0), JsRatio(9.0, 3.0)]
    interval = ratio_over_seeds(ratios, np.random.default_rng(0))
    assert interval.value == 2.5
    assert (interval.low, interval.high, interval.n) == (1.0, 3.0, 2)
