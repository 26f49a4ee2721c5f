"""Tests of the sequence likelihood and of the retain terms: shift, ignored labels, memory."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.functional import cross_entropy

from unlearning.llm.likelihood import SequenceNll, sequence_nll
from unlearning.llm.losses import retain_kl_loss, retain_nll_loss, weighted_loss

# Position t predicts token t + 1; the logits of the last position are unused.
PROBABILITIES = [
    [[0.5, 0.25, 0.25], [0.2, 0.3, 0.5], [0.1, 0.8, 0.1], [0.9, 0.05, 0.05]],
    [[0.6, 0.2, 0.2], [0.25, 0.5, 0.25], [0.3, 0.3, 0.4], [0.9, 0.05, 0.05]],
]
LABELS = torch.tensor([[-100, 0, 2, 1], [-100, -100, 1, -100]])


def logits() -> Tensor:
    return torch.tensor(PROBABILITIES, dtype=torch.float64).log().requires_grad_()


def random_rows(dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(0, 11, (3, 7), generator=generator)
    labels[0, :3], labels[1, 5:] = -100, -100
    return torch.randn(3, 7, 11, generator=generator, dtype=dtype), labels


def test_sums_and_means_by_hand() -> None:
    result = sequence_nll(logits(), LABELS)
    # Row 0: p = 0.5, 0.5, 0.8; row 1: the token at position 2, to which position 1 gives 0.5.
    expected = [-math.log(0.2), -math.log(0.5)]
    assert result.total.tolist() == pytest.approx(expected, rel=1e-12)
    assert result.tokens.tolist() == [3, 1]
    assert result.mean.tolist() == pytest.approx([expected[0] / 3, expected[1]], rel=1e-12)
    assert result.token_mean.item() == pytest.approx(sum(expected) / 4, rel=1e-12)
    assert retain_nll_loss(result).item() == result.token_mean.item()


def test_batch_mean_is_that_of_torch_on_shifted_tokens() -> None:
    scores, labels = random_rows(torch.float64)
    expected = cross_entropy(scores[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
    assert sequence_nll(scores, labels).token_mean.item() == pytest.approx(
        expected.item(), rel=1e-12
    )


def test_gradient_agrees_with_finite_differences() -> None:
    scores, labels = random_rows(torch.float64)
    leaf = scores[:, :, :4].clone().requires_grad_()
    small = labels.where(labels < 0, labels % 4)
    assert torch.autograd.gradcheck(lambda x: sequence_nll(x, small).total, (leaf,))


@pytest.mark.parametrize(
    "loss",
    [
        lambda logits, labels: sequence_nll(logits, labels).token_mean,
        lambda logits, labels: retain_kl_loss(logits, logits, labels),
    ],
    ids=["likelihood", "divergence"],
)
def test_only_the_logits_are_kept_for_the_backward_pass(
    loss: Callable[[Tensor, Tensor], Tensor],
) -> None:
    scores, labels = random_rows(torch.bfloat16)
    leaf = scores.requires_grad_()
    saved: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        saved[storage.data_ptr()] = storage.nbytes()
        return tensor

    with saved_tensors_hooks(keep, lambda tensor: tensor):
        result = loss(leaf, labels)
    saved.pop(leaf.untyped_storage().data_ptr(), None)
    assert sum(saved.values()) <= labels.untyped_storage().nbytes() + 64
    result.backward()
    assert leaf.grad is not None
    assert leaf.grad.dtype == torch.bfloat16


def test_bfloat16_logits_are_summed_in_float32() -> None:
    scores, labels = random_rows(torch.bfloat16)
    result = sequence_nll(scores, labels).total
    assert result.dtype == torch.float32
    expected = sequence_nll(scores.double(), labels).total
    assert result.tolist() == pytest.approx(expected.tolist(), rel=1e-6)


def test_rows_without_an_answer_are_refused() -> None:
    with pytest.raises(ValueError, match=r"rows \[1\] of the batch have none"):
        sequence_nll(logits(), torch.tensor([[-100, 0, 2, 1], [1, -100, -100, -100]]))


def test_shifted_labels_are_refused() -> None:
    with pytest.raises(ValueError, match="unshifted"):
        sequence_nll(logits(), LABELS[:, 1:])


def test_an_empty_batch_is_refused() -> None:
    with pytest.raises(ValueError, match="empty batch"):
        sequence_nll(logits()[:0], LABELS[:0])


def first_position_logits(p: list[float]) -> Tensor:
    rows = torch.tensor([[p, [0.6, 0.3, 0.1]]], dtype=torch.float64)
    return rows.log().requires_grad_()


def test_kl_to_the_reference_by_hand() -> None:
    labels = torch.tensor([[-100, 0]])
    reference, model = (
        first_position_logits([0.7, 0.2, 0.1]),
        first_position_logits([0.5, 0.3, 0.2]),
    )
    result = retain_kl_loss(reference, model, labels)
    assert result.item() == pytest.approx(0.085123, abs=5e-7)
    assert retain_kl_loss(model, reference, labels).item() == pytest.approx(0.092033, abs=5e-7)
    result.backward()
    # ∂KL(p‖q)/∂z = q − p at the one position with a label.
    assert reference.grad is None
    assert model.grad is not None
    assert model.grad[0, 0].tolist() == pytest.approx([-0.2, 0.1, 0.1], abs=1e-12)
    assert model.grad[0, 1].tolist() == [0.0, 0.0, 0.0]


def test_kl_is_a_mean_over_label_tokens_of_the_batch() -> None:
    scores, labels = random_rows(torch.float64)
    other = scores.roll(1, dims=2)
    p, q = scores[:, :-1].log_softmax(2), other[:, :-1].log_softmax(2)
    by_token = (p.exp() * (p - q)).sum(dim=2)[labels[:, 1:] != -100]
    result = retain_kl_loss(scores, other, labels)
    assert result.item() == pytest.approx(by_token.mean().item(), rel=1e-12)
    assert retain_kl_loss(scores, scores, labels).item() == pytest.approx(0.0, abs=1e-15)


def test_two_terms_are_weighted() -> None:
    forget, retain = torch.tensor(3.0), torch.tensor(5.0)
    assert weighted_loss(forget, retain).item() == 8.0
    assert weighted_loss(forget, retain, gamma=0.125, alpha=2.0).item() == 10.375


def test_the_mean_by_token_gives_long_answers_more_weight() -> None:
    result = SequenceNll(torch.tensor([6.0, 1.0]), torch.tensor([3, 1]))
    assert result.token_mean.item() == 7 / 4
    assert result.mean.tolist() == [2.0, 1.0]
