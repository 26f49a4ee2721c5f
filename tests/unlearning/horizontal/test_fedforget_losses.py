"""Tests of FedForget: loss terms and weights of clients, by hand."""

from math import log

import pytest
import torch
from torch import Tensor

from unlearning.horizontal.fedforget import (
    TeacherMode,
    capped_ascent_loss,
    client_weights,
    kl_student_teacher,
    kl_teacher_student,
    leaving_client_factor,
    second_teacher_loss,
)

P, Q = (
    torch.tensor([probabilities], dtype=torch.float64).log()
    for probabilities in ((0.7, 0.2, 0.1), (0.5, 0.3, 0.2))
)


def slope(mode: TeacherMode, student: Tensor, teacher: Tensor) -> Tensor:
    z = student.clone().requires_grad_()
    [gradient] = torch.autograd.grad(second_teacher_loss(mode, z, teacher, 1.0).sum(), z)
    return gradient


def test_divergences_by_hand() -> None:
    assert kl_student_teacher(P, Q).item() == pytest.approx(0.085123, abs=5e-7)
    assert kl_teacher_student(P, Q).item() == pytest.approx(0.092033, abs=5e-7)


def test_literal_attracts_to_the_teacher_and_repel_is_its_opposite() -> None:
    attract = slope("literal", Q, P)
    assert slope("repel", Q, P).tolist() == [(-attract[0]).tolist()]
    step = Q - 0.1 * attract
    assert kl_student_teacher(step, P).item() < kl_student_teacher(Q, P).item()


def test_repulsion_ends_at_the_margin() -> None:
    far = torch.tensor([[50.0, 0.0, 0.0]], dtype=torch.float64)
    assert second_teacher_loss("repel", far, Q, margin=0.1).item() == 0
    assert second_teacher_loss("repel", Q, Q, margin=0.1).item() == pytest.approx(0.1)


def test_gradient_ascent_has_no_second_teacher() -> None:
    with pytest.raises(ValueError, match="no second teacher"):
        second_teacher_loss("ga", P, Q, 1.0)


def test_capped_ascent_has_no_gradient_for_a_forgotten_row() -> None:
    """The true class has probability 0.7, 0.2 and 0.1; a uniform guess has 1/3."""
    logits = torch.cat([P, P, P]).requires_grad_()
    result = capped_ascent_loss(logits, torch.tensor([0, 1, 2]))
    assert result.tolist() == pytest.approx([log(0.7), -log(3), -log(3)])
    [gradient] = torch.autograd.grad(result.sum(), logits)
    assert gradient[0].tolist() == pytest.approx([0.3, -0.2, -0.1])
    assert not gradient[1:].any()


def test_the_leaving_client_has_more_weight_and_weights_sum_to_one() -> None:
    assert client_weights([100, 100, 100], 0, 2.0) == pytest.approx([0.5, 0.25, 0.25])
    assert client_weights([100, 100, 100], 0, 8.0, max_weight=0.5) == pytest.approx(
        [0.5, 0.25, 0.25]
    )
    assert sum(client_weights([3, 10, 500], 1, 3.5)) == pytest.approx(1)


def test_the_leaving_client_s_factor_decays() -> None:
    result = [leaving_client_factor(t, 2.0, 0.3) for t in (0, 1, 5, 10)]
    assert result == pytest.approx([2, 1.7408, 1.2231, 1.0498], abs=5e-5)
