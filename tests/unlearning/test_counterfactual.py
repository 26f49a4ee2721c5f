"""The counterfactual constraint: targets and scores by hand, and their limits."""

import math

import pytest
import torch

from unlearning.counterfactual import (
    EpochChoice,
    counterfactual_targets,
    label_scores,
    label_shortfalls,
    row_divergences,
)

HALF, QUARTER = math.log(0.5), math.log(0.25)


def logits(*probabilities: float) -> torch.Tensor:
    return torch.tensor([probabilities], dtype=torch.float64).log()


def test_target_is_the_own_output_where_both_references_agree() -> None:
    own, same = logits(0.9, 0.1), logits(0.3, 0.7)
    target = counterfactual_targets(own, same, same)
    torch.testing.assert_close(target, own)


def test_target_moves_as_the_references_differ_by_hand() -> None:
    """KL((.5, .5) ‖ (.25, .75)) = .5 ln 2 + .5 ln(2/3) = .1438; w = exp(-.1438²) = .9795."""
    own, plus, minus = logits(0.8, 0.2), logits(0.5, 0.5), logits(0.25, 0.75)
    weight = math.exp(-((0.5 * math.log(2) + 0.5 * math.log(2 / 3)) ** 2))
    odds = math.log(0.25 / 0.75) + weight * (math.log(0.8 / 0.2) - 0.0)
    target = counterfactual_targets(own, plus, minus)
    expected = 1 / (1 + math.exp(-odds))
    assert weight == pytest.approx(0.9795, abs=1e-4)
    assert target.exp()[0, 0].item() == pytest.approx(expected)


def test_target_is_that_of_the_reference_where_only_the_forgotten_rows_explain_the_row() -> None:
    own, plus, minus = logits(0.999, 0.001), logits(0.999, 0.001), logits(0.001, 0.999)
    target = counterfactual_targets(own, plus, minus)
    torch.testing.assert_close(target, minus, rtol=1e-6, atol=1e-6)


def test_constants_of_logits_change_nothing() -> None:
    own, plus, minus = logits(0.8, 0.2), logits(0.5, 0.5), logits(0.25, 0.75)
    moved = counterfactual_targets(own + 3, plus - 2, minus + 7)
    torch.testing.assert_close(moved, counterfactual_targets(own, plus, minus))


def test_label_score_compares_only_the_label_by_hand() -> None:
    """KL(B(.25) ‖ B(.5)) = .25 ln(.5) + .75 ln(.75/.5), however the rest is shared."""
    target, label = logits(0.25, 0.5, 0.25), torch.tensor([0])
    expected = -(0.25 * math.log(0.5) + 0.75 * math.log(1.5))
    for rest in ((0.4, 0.1), (0.1, 0.4)):
        found = label_scores(target, logits(0.5, *rest), label)
        assert found.item() == pytest.approx(expected)


def test_row_of_which_the_model_knows_less_takes_no_part() -> None:
    less = logits(0.1, 0.5, 0.4).requires_grad_()
    found = label_scores(logits(0.25, 0.5, 0.25), less, torch.tensor([0]))
    found.sum().backward()
    assert found.item() == 0.0
    assert less.grad is not None
    assert not less.grad.any()


def test_label_score_is_finite_at_a_certain_prediction() -> None:
    certain = torch.tensor([[100.0, 0.0, 0.0]], requires_grad=True)
    found = label_scores(logits(0.5, 0.3, 0.2).float(), certain, torch.tensor([0]))
    found.sum().backward()
    assert torch.isfinite(found).all()
    assert certain.grad is not None
    assert torch.isfinite(certain.grad).all()


def test_divergence_is_in_nats() -> None:
    expected = 0.5 * (HALF - QUARTER) + 0.5 * (HALF - math.log(0.75))
    found = row_divergences(logits(0.5, 0.5), logits(0.25, 0.75))
    assert found.item() == pytest.approx(expected)


def test_shortfall_is_the_divergence_of_a_row_that_the_model_knows_less_well_by_hand() -> None:
    """KL(B(.25) ‖ B(.1)) = .25 ln(2.5) + .75 ln(.75/.9)."""
    target, label = logits(0.25, 0.5, 0.25), torch.tensor([0])
    expected = 0.25 * math.log(2.5) + 0.75 * math.log(0.75 / 0.9)
    for rest in ((0.5, 0.4), (0.2, 0.7)):
        found = label_shortfalls(target, logits(0.1, *rest), label)
        assert found.item() == pytest.approx(expected)


@pytest.mark.parametrize("known", [0.25, 0.6])
def test_row_that_the_model_knows_as_well_has_no_shortfall(known: float) -> None:
    target, own = logits(0.25, 0.5, 0.25), logits(known, 0.3, 0.7 - known)
    assert label_shortfalls(target, own, torch.tensor([0])).item() == 0.0


def known(*means: float, spread: float = 0.1, rows: int = 8) -> list[torch.Tensor]:
    """Logits of two classes; label 0 has probabilities around each mean, half above, half below."""
    signs = torch.tensor([1.0, -1.0] * (rows // 2), dtype=torch.float64)
    each = [mean + spread * signs for mean in means]
    return [torch.stack([right, 1 - right], dim=1).log() for right in each]


def epoch_of(learned: list[torch.Tensor], unseen: list[torch.Tensor]) -> int:
    """The epoch for h⁺ with these outputs; the model gives each label a probability of 1/2."""
    rows = (len(learned[0]), len(unseen[0]))
    labels = (torch.zeros(rows[0], dtype=torch.long), torch.zeros(rows[1], dtype=torch.long))
    model = (torch.zeros(rows[0], 2), torch.zeros(rows[1], 2))
    choice, last = EpochChoice(model, labels), len(learned) - 1
    found = enumerate(zip(learned, unseen, strict=True))
    return [epoch for epoch, each in found if choice.suits(each, last=epoch == last)][-1]


def test_references_that_remember_more_are_used_as_they_were_when_they_remembered_as_much() -> None:
    assert epoch_of(known(0.5, 0.6, 0.8), known(0.45, 0.59, 0.55)) == 1


def test_references_are_used_after_the_last_epoch_if_they_remember_no_more() -> None:
    assert epoch_of(known(0.5, 0.6), known(0.5, 0.6)) == 1
    assert epoch_of(known(0.5, 0.2), known(0.5, 0.6)) == 1


def test_excess_within_two_standard_errors_counts_as_none_by_hand() -> None:
    """Both means have the variance .1² / 7, so the standard error is √(.02 / 7) = .05345."""
    error = math.sqrt(0.02 / 7)
    for excess, expected in ((1.99 * error, 1), (2.01 * error, 0)):
        assert epoch_of(known(0.5, 0.5 + excess), known(0.5, 0.5)) == expected


def test_memory_is_measured_by_probabilities_not_by_their_logarithms() -> None:
    """One unseen row of which h⁺ is wrongly sure hides no memory of .3 on all learned rows."""
    learned, unseen = known(0.5, 0.8, spread=0.05, rows=40), known(0.5, 0.5, spread=0.05, rows=40)
    unseen[1][0] = torch.tensor([-1000.0, 0.0])
    assert epoch_of(learned, unseen) == 0


@pytest.mark.parametrize("count", [0, 1])
def test_references_are_used_after_the_last_epoch_if_no_error_is_known(count: int) -> None:
    many, few = known(0.5, 0.8), [torch.zeros(count, 2)] * 2
    assert epoch_of(many, few) == 1
    assert epoch_of(few, many) == 1


@pytest.mark.parametrize(("bad", "expected"), [(0, 1), (1, 2), (3, 1)])
def test_references_are_never_used_after_an_epoch_with_outputs_that_are_not_finite(
    bad: int, expected: int
) -> None:
    """h⁺ remembers .05 more than the model after epoch 1, .1 after 2, and otherwise more."""
    learned, unseen = known(0.7, 0.55, 0.6, 0.8), known(0.5, 0.5, 0.5, 0.5)
    learned[bad] = torch.full_like(learned[bad], math.nan)
    assert epoch_of(learned, unseen) == expected
