"""Tests of relearning: steps, the anamnesis index, and recovered knowledge."""

from collections.abc import Iterator

import pytest

from unlearning.audit.relearning import anamnesis_index, recovered_knowledge, steps_to_relearn


def test_steps_until_accuracy_is_within_five_per_cent() -> None:
    assert steps_to_relearn([0.5, 0.8, 0.95, 1.0], original=1.0, cap=10) == 2
    assert steps_to_relearn([0.96], original=1.0, cap=10) == 0


def test_no_more_steps_than_the_cap_are_taken() -> None:
    steps: list[int] = []

    def slow() -> Iterator[float]:
        for step in range(100):
            steps.append(step)
            yield 0.1

    assert steps_to_relearn(slow(), original=1.0, cap=4) == 4
    assert len(steps) == 5


def test_anamnesis_is_a_ratio_of_means() -> None:
    assert anamnesis_index([2, 4], [10, 20]) == 0.2
    assert anamnesis_index([2, 4], [0, 0]) is None


def test_recovered_knowledge_by_hand() -> None:
    assert recovered_knowledge(0.1, 0.5, 0.9) == pytest.approx(0.5)
    assert recovered_knowledge(0.1, 0.05, 0.9) == pytest.approx(-0.0625)
    assert recovered_knowledge(0.9, 0.95, 0.9) is None
    assert recovered_knowledge(0.82, 0.9, 0.9) is None, "less than a tenth was lost"
