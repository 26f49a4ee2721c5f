"""Relearn time by hand."""

from collections.abc import Iterator

from unlearning.audit.relearning import anamnesis, steps_until


def test_steps_until_within_five_per_cent() -> None:
    assert steps_until([0.5, 0.8, 0.95, 1.0], original=1.0, cap=10) == 2
    assert steps_until([0.96], original=1.0, cap=10) == 0


def test_the_cap_ends_it_and_no_more_steps_are_made() -> None:
    made: list[int] = []

    def slow() -> Iterator[float]:
        for step in range(100):
            made.append(step)
            yield 0.1

    assert steps_until(slow(), original=1.0, cap=4) == 4
    assert len(made) == 5


def test_anamnesis_is_a_ratio_of_means() -> None:
    assert anamnesis([2, 4], [10, 20]) == 0.2
    assert anamnesis([2, 4], [0, 0]) is None
