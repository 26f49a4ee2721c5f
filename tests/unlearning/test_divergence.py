"""Tests of divergences, the JS ratio and linear CKA, with numbers computed by hand."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from unlearning.audit.divergence import (
    class_distance,
    distance_ratio,
    js_divergence,
    kl_divergence,
    label_distance,
    linear_cka,
    number_distance,
    prediction_agreement,
    total_variation,
)

P = torch.tensor([[0.7, 0.2, 0.1]], dtype=torch.float64).log()
Q = torch.tensor([[0.5, 0.3, 0.2]], dtype=torch.float64).log()
EVEN, LEANING = torch.tensor([[0.5, 0.5]]).log(), torch.tensor([[0.75, 0.25]]).log()


def one_hot_logits(label: int) -> Tensor:
    return torch.nn.functional.one_hot(torch.tensor([label]), 3).double().log()


def test_divergences_by_hand() -> None:
    assert kl_divergence(P, Q).item() == pytest.approx(0.085123, abs=5e-7)
    assert kl_divergence(Q, P).item() == pytest.approx(0.092033, abs=5e-7)
    assert js_divergence(P, Q) == pytest.approx(0.021901, abs=5e-7)


def test_js_of_disjoint_outputs_is_log_two() -> None:
    assert js_divergence(one_hot_logits(0), one_hot_logits(1)) == pytest.approx(math.log(2))
    assert js_divergence(one_hot_logits(0), one_hot_logits(0)) == 0.0


def test_kl_of_an_impossible_class_is_infinite() -> None:
    assert kl_divergence(one_hot_logits(0), one_hot_logits(1)).item() == math.inf


def test_js_is_averaged_over_rows() -> None:
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
    ratio = distance_ratio(Q, [P, P, Q], js_divergence)
    apart = js_divergence(P, Q)
    assert ratio.to_retrain == pytest.approx(2 * apart / 3)
    assert ratio.between_retrains == pytest.approx(2 * apart / 3)
    assert ratio.value == pytest.approx(1.0)


def test_ratio_divides_by_the_divergence_between_retrains() -> None:
    # JS((1, 0), (½, ½)) = ½ log 4/3 + ¼ log 2/3 + ¼ log 2 = 0.215762, and JS of disjoint is log 2.
    first, second = one_hot_logits(0), one_hot_logits(1)
    middle = torch.tensor([[0.5, 0.5, 0.0]], dtype=torch.float64).log()
    ratio = distance_ratio(middle, [first, second], js_divergence)
    assert ratio.to_retrain == pytest.approx(0.215762, abs=5e-7)
    assert ratio.between_retrains == pytest.approx(0.693147, abs=5e-7)
    assert ratio.value == pytest.approx(0.311278, abs=5e-7)


def test_ratio_to_identical_retrains_is_infinite() -> None:
    assert distance_ratio(Q, [P, P], js_divergence).value == math.inf


def test_ratio_to_one_retrain_is_refused() -> None:
    with pytest.raises(ValueError, match=r"2 or more independent Retrain models \(got 1\)"):
        distance_ratio(P, [Q], js_divergence)


def test_distance_of_classes_is_that_of_their_probabilities() -> None:
    assert class_distance(P + 3, Q - 1) == pytest.approx(js_divergence(P, Q))


def test_distance_of_numbers_by_hand() -> None:
    # Differences 0, 3 and −6: √((0 + 9 + 36) / 3) = √15.
    left, right = torch.tensor([[1.0], [5.0], [2.0]]), torch.tensor([[1.0], [2.0], [8.0]])
    assert number_distance(left, right) == pytest.approx(math.sqrt(15))
    assert number_distance(left, left) == 0.0


def test_distance_of_labels_by_hand() -> None:
    # JS((1, 0), (½, ½)) = 0.215762 for one of four cells, log 2 for another, 0 for the two others.
    left = torch.tensor([[0.0, 80.0], [-80.0, 2.0]])
    right = torch.tensor([[80.0, 80.0], [80.0, 2.0]])
    assert label_distance(left, right) == pytest.approx((0.215762 + math.log(2)) / 4, abs=5e-7)
    assert label_distance(left, left) == pytest.approx(0, abs=1e-12)
    # A label of probability p is the class of two with the logits z and 0.
    both = torch.stack([left.flatten(), torch.zeros(4)], dim=1)
    other = torch.stack([right.flatten(), torch.zeros(4)], dim=1)
    assert label_distance(left, right) == pytest.approx(class_distance(both, other), abs=1e-6)


def test_total_variation_by_hand() -> None:
    assert total_variation(EVEN, LEANING) == pytest.approx(0.25)
    assert total_variation(LEANING, LEANING) == 0.0


def test_agreement_is_of_the_predicted_class() -> None:
    left = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    right = torch.tensor([[3.0, 2.0], [2.0, 0.0]])
    assert prediction_agreement(left, right) == 0.5


def test_cka_is_invariant_to_rotation_and_scale() -> None:
    x = torch.randn(20, 2, generator=torch.Generator().manual_seed(0))
    turn = torch.tensor([[math.cos(1.0), -math.sin(1.0)], [math.sin(1.0), math.cos(1.0)]])
    assert linear_cka(x, 3 * x @ turn + 5) == pytest.approx(1.0, abs=1e-6)


def test_cka_by_hand() -> None:
    # Orthogonal centred columns have CKA 0; for a constant column it is undefined.
    x, y = (
        torch.tensor([[1.0], [1.0], [-1.0], [-1.0]]),
        torch.tensor([[1.0], [-1.0], [1.0], [-1.0]]),
    )
    assert linear_cka(x, y) == pytest.approx(0.0)
    assert linear_cka(x, torch.ones(4, 1)) is None
