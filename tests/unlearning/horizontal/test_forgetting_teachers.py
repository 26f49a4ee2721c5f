"""FedForget's terms and weights, by hand."""

from math import log

import pytest
import torch
from torch import Tensor

from unlearning.horizontal.forgetting_teachers import (
    Mode,
    capped_ascent,
    client_weights,
    extra_weight,
    kl_student_teacher,
    kl_teacher_student,
    second_term,
)

P, Q = (
    torch.tensor([chances], dtype=torch.float64).log()
    for chances in ((0.7, 0.2, 0.1), (0.5, 0.3, 0.2))
)


def slope(mode: Mode, student: Tensor, teacher: Tensor) -> Tensor:
    z = student.clone().requires_grad_()
    [gradient] = torch.autograd.grad(second_term(mode, z, teacher, 1.0).sum(), z)
    return gradient


def test_divergences_by_hand() -> None:
    assert kl_student_teacher(P, Q).item() == pytest.approx(0.085123, abs=5e-7)
    assert kl_teacher_student(P, Q).item() == pytest.approx(0.092033, abs=5e-7)


def test_the_printed_form_attracts_to_the_old_model_and_repel_is_its_opposite() -> None:
    attract = slope("literal", Q, P)
    assert slope("repel", Q, P).tolist() == [(-attract[0]).tolist()]
    step = Q - 0.1 * attract
    assert kl_student_teacher(step, P).item() < kl_student_teacher(Q, P).item()


def test_repulsion_has_an_end() -> None:
    far = torch.tensor([[50.0, 0.0, 0.0]], dtype=torch.float64)
    assert second_term("repel", far, Q, margin=0.1).item() == 0
    assert second_term("repel", Q, Q, margin=0.1).item() == pytest.approx(0.1)


def test_ascent_has_no_second_teacher() -> None:
    with pytest.raises(ValueError, match="no second teacher"):
        second_term("ga", P, Q, 1.0)


def test_a_row_that_is_forgotten_is_climbed_no_further() -> None:
    """Chances of the true class: 0.7, 0.2 and 0.1; a uniform guess has a third."""
    logits = torch.cat([P, P, P]).requires_grad_()
    found = capped_ascent(logits, torch.tensor([0, 1, 2]))
    assert found.tolist() == pytest.approx([log(0.7), -log(3), -log(3)])
    [gradient] = torch.autograd.grad(found.sum(), logits)
    assert gradient[0].tolist() == pytest.approx([0.3, -0.2, -0.1])
    assert not gradient[1:].any()


def test_the_leaving_client_weighs_more_and_all_weights_are_one() -> None:
    assert client_weights([100, 100, 100], 0, 2.0) == pytest.approx([0.5, 0.25, 0.25])
    assert client_weights([100, 100, 100], 0, 8.0, most=0.5) == pytest.approx([0.5, 0.25, 0.25])
    assert sum(client_weights([3, 10, 500], 1, 3.5)) == pytest.approx(1)


def test_the_extra_weight_fades() -> None:
    found = [extra_weight(t, 2.0, 0.3) for t in (0, 1, 5, 10)]
    assert found == pytest.approx([2, 1.7408, 1.2231, 1.0498], abs=5e-5)
