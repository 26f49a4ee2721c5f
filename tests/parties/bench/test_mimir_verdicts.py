"""Tests of the verdicts R11 and R12 on given figures: each tolerance holds or fails."""

import pytest

from parties.experiments.bench.horizontal.verdicts import DENSER, SPARSE, mimir_verdicts
from parties.experiments.bench.results import Results


def by_hand(
    mimir: tuple[float, float], fedmm: float = 0.7, *, ahead: int = 4, seeds: int = 3
) -> Results:
    """Retrain has 0.98 of D_r and 0.02 of D_f; FedMM wins all pairs but the first ``ahead``."""
    found = {}
    for number, place in enumerate((*SPARSE, *DENSER)):
        known = {
            "retrain": (0.98, 0.02),
            "mimir": mimir,
            "fedmm": (fedmm if number < ahead else 0.99, 0.3),
        }
        for name, (kept, rest) in known.items():
            each = {"by_retained": kept, "by_forgotten": rest}
            found[place, "", name] = dict.fromkeys(range(seeds), each)
    return Results(found)


def test_within_the_tolerances_all_is_reproduced() -> None:
    found = list(mimir_verdicts(by_hand((0.90, 0.11), ahead=3)))
    assert len(found) == 2 * len(SPARSE) + 1 + 2 * len(DENSER)
    assert all(each.ok for each in found)
    pairs = next(each for each in found if "pairs" in each.name)
    assert pairs.value == 3


@pytest.mark.parametrize(
    ("result", "ahead", "wrong"),
    [
        ((0.85, 0.0), 4, {"R11: D_r", "R12: D_r"}),
        ((0.87, 0.0), 4, {"R12: D_r"}),
        ((0.95, 0.13), 4, {"R11: D_f"}),
        ((0.95, 0.23), 4, {"R11: D_f", "R12: D_f"}),
        ((0.95, 0.0), 2, {"R11: pairs"}),
    ],
)
def test_outside_a_tolerance_it_is_not(
    result: tuple[float, float], ahead: int, wrong: set[str]
) -> None:
    failed = {each.name[:8] for each in mimir_verdicts(by_hand(result, ahead=ahead)) if not each.ok}
    assert failed == {each[:8] for each in wrong}


def test_with_too_few_seeds_nothing_is_judged() -> None:
    assert {each.ok for each in mimir_verdicts(by_hand((0.95, 0.0), seeds=2))} == {None}
