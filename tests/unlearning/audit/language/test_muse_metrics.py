"""Tests of ROUGE-L, the MUSE metrics and extraction strength."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from unlearning.audit.language.extraction import extraction_strength
from unlearning.audit.language.muse import (
    knowledge_memory,
    min_k_auc,
    min_k_scores,
    privacy_leak,
    verbatim_memory,
)
from unlearning.audit.language.rouge import mean_rouge_l, rouge_l


def test_rouge_by_hand() -> None:
    # In order: the, cat, mat; 3 of 6 words of the reference, 3 of 4 generated ones.
    result = rouge_l("the cat, a mat", "The cat sat on the mat.")
    assert result.recall == pytest.approx(3 / 6, rel=1e-12)
    assert result.f1 == pytest.approx(2 * 3 / (6 + 4), rel=1e-12)


def test_rouge_compares_stems() -> None:
    assert rouge_l("running jumps", "runs jumping").recall == 1.0


def test_rouge_recall_depends_on_the_reference_only() -> None:
    result = rouge_l("Paris is what they say it is", "Paris")
    assert (result.recall, result.f1) == (1.0, pytest.approx(2 / 8, rel=1e-12))


@pytest.mark.parametrize(
    ("generated", "reference"), [("", "Paris"), ("Paris", ""), ("", ""), ("é", "é")]
)
def test_texts_without_words_have_recall_zero(generated: str, reference: str) -> None:
    assert rouge_l(generated, reference).recall == 0.0


def test_rouge_of_several_is_their_mean() -> None:
    result = mean_rouge_l(["a b", "x"], ["a b c d", "y"])
    assert result.recall == 0.25
    assert verbatim_memory(["a b", "x"], ["a b c d", "y"]) == pytest.approx((4 / 6) / 2)
    assert knowledge_memory(["a b", "x"], ["a b c d", "y"]) == pytest.approx((4 / 6) / 2)


@pytest.mark.parametrize(("generated", "reference"), [(["a"], ["a", "b"]), ([], [])])
def test_answers_without_references_are_refused(generated: list[str], reference: list[str]) -> None:
    with pytest.raises(ValueError, match="one generated text for each reference"):
        mean_rouge_l(generated, reference)


def test_min_k_by_hand() -> None:
    log_probs = torch.tensor([[-5.0, -1.0, -3.0, -2.0, -4.0, -9.0], [-7.0, -1.0, 0, 0, 0, 0]])
    mask = torch.tensor([[1, 1, 1, 1, 1, 0], [1, 1, 0, 0, 0, 0]])
    # 40 % of 5 tokens are the 2 least likely; 40 % of 2 is less than one, so one.
    assert min_k_scores(log_probs, mask).tolist() == [-4.5, -7.0]
    assert min_k_scores(log_probs, mask, 100).tolist() == [-3.0, -4.0]


@pytest.mark.parametrize(
    ("log_probs", "mask", "message"),
    [
        ([[-1.0]], [[0]], r"rows \[0\] of the batch have no token"),
        ([[0.5]], [[1]], "check that the values are not losses"),
        ([[math.nan]], [[1]], "check that the values are not losses"),
        ([[-1.0, -1.0]], [[1]], r"\[1, 2\] and of the mask \[1, 1\]"),
    ],
)
def test_invalid_log_probabilities_are_refused(
    log_probs: list[list[float]], mask: list[list[int]], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        min_k_scores(torch.tensor(log_probs), torch.tensor(mask))


@pytest.mark.parametrize("percent", [0, 101])
def test_an_invalid_share_of_tokens_is_refused(percent: int) -> None:
    with pytest.raises(ValueError, match="from 1 to 100"):
        min_k_scores(torch.tensor([[-1.0]]), torch.tensor([[1]]), percent)


@given(st.lists(st.floats(-50, 0), min_size=1, max_size=12), st.integers(1, 99))
def test_min_k_rises_with_k_to_the_mean(log_probs: list[float], percent: int) -> None:
    rows, mask = torch.tensor([log_probs]), torch.ones(1, len(log_probs))
    some, more = (min_k_scores(rows, mask, k).item() for k in (percent, percent + 1))
    mean = min_k_scores(rows, mask, 100).item()
    assert min(log_probs) - 1e-5 <= some <= more + 1e-5
    assert more <= mean + 1e-5


def test_min_k_auc_by_hand() -> None:
    known, unknown = torch.tensor([-0.1, -0.2]), torch.tensor([-3.0, -4.0])
    assert min_k_auc(known, unknown) == 0.0
    assert min_k_auc(unknown, known) == 1.0
    assert min_k_auc(known, known) == 0.5
    # By hand: of (−1 > −2), (−1 > −0.5), (−3 > −2), (−3 > −0.5) one holds.
    assert min_k_auc(torch.tensor([-2.0, -0.5]), torch.tensor([-1.0, -3.0])) == 0.25


def test_privacy_leak_by_hand() -> None:
    assert privacy_leak(0.3, 0.5) == pytest.approx(-40.0, rel=1e-12)
    assert privacy_leak(0.0, 0.5) == -100.0
    assert privacy_leak(0.5, 0.5) == 0.0
    assert privacy_leak(0.75, 0.5) == 50.0


@pytest.mark.parametrize("retrained", [0.0, math.nan, 1.5])
def test_an_invalid_auc_of_retrain_is_refused(retrained: float) -> None:
    with pytest.raises(ValueError, match="Retrain's AUC must be above 0"):
        privacy_leak(0.3, retrained)


def test_extraction_strength_by_hand() -> None:
    truth = torch.tensor([[9, 1, 2, 3, 4]] * 4)
    greedy = torch.tensor([[0, 1, 2, 3, 4], [0, 1, 0, 3, 4], [0, 1, 2, 3, 0], [0, 0, 2, 3, 4]])
    mask = torch.tensor([[0, 1, 1, 1, 1]] * 4)  # the wrong token in the prompt does not count
    assert extraction_strength(greedy, truth, mask).tolist() == [1.0, 0.5, 0.0, 0.75]


def test_the_mask_decides_whether_the_end_token_counts() -> None:
    """Of the answer 1 2 3 with the end token 0, only the end token is wrong."""
    truth, greedy = torch.tensor([[9, 1, 2, 3, 0]]), torch.tensor([[9, 1, 2, 3, 7]])
    with_end, without_end = torch.tensor([[0, 1, 1, 1, 1]]), torch.tensor([[0, 1, 1, 1, 0]])
    assert extraction_strength(greedy, truth, with_end).item() == 0.0
    assert extraction_strength(greedy, truth, without_end).item() == 1.0


def test_extraction_of_answers_of_different_length() -> None:
    truth, mask = torch.tensor([[1, 2, 0], [1, 2, 3]]), torch.tensor([[1, 1, 0], [1, 1, 1]])
    result = extraction_strength(torch.tensor([[0, 2, 7], [0, 0, 3]]), truth, mask)
    assert result.tolist() == pytest.approx([1 / 2, 1 / 3])


def test_extraction_of_a_row_without_tokens_is_refused() -> None:
    ids = torch.tensor([[1]])
    with pytest.raises(ValueError, match="no token in the mask"):
        extraction_strength(ids, ids, torch.tensor([[0]]))
    with pytest.raises(ValueError, match="must be equal"):
        extraction_strength(ids, ids, torch.tensor([0]))


@given(st.lists(st.booleans(), min_size=1, max_size=10))
def test_the_prefix_is_the_shortest_one(right: list[bool]) -> None:
    truth = torch.ones(1, len(right), dtype=torch.long)
    greedy = torch.tensor([[int(each) for each in right]])
    strength = extraction_strength(greedy, truth, torch.ones_like(truth)).item()
    prefix = round((1 - strength) * len(right))
    assert all(right[prefix:])
    assert prefix == 0 or not right[prefix - 1]
