"""The levels of promise, in their order."""

from unlearning.guarantee import Guarantee


def test_the_words_from_strong_to_weak() -> None:
    ordered = sorted(Guarantee, key=lambda each: each.strength, reverse=True)
    assert [each.value for each in ordered] == [
        "exact", "certified", "distance-certified", "audited", "KKT report", "heuristic",
    ]  # fmt: skip
    assert Guarantee.EXACT.strength > Guarantee.HEURISTIC.strength == 0
