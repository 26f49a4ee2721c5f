"""Tests of the checks R11 and R12 on given figures: each tolerance holds or fails."""

import pytest

from parties.experiments.bench.horizontal.checks import (
    DENSER,
    OWN_DENSER,
    OWN_SPARSE,
    SPARSE,
    mimir_checks,
)
from parties.experiments.bench.results import Results


def results_of(
    mimir: tuple[float, float], fedmm: float = 0.7, *, ahead: int = 4, seeds: int = 3
) -> Results:
    """Retrain has 0.98 of D_r and 0.02 of D_f; FedMM wins all pairs but the first ``ahead``."""
    results = {}
    for number, setting in enumerate((*SPARSE, *DENSER, *OWN_SPARSE, *OWN_DENSER)):
        figures = {
            "retrain": (0.98, 0.02),
            "mimir": mimir,
            "fedmm": (fedmm if number < ahead else 0.99, 0.3),
        }
        for name, (retained, forgotten) in figures.items():
            each = {"by_retained": retained, "by_forgotten": forgotten}
            results[setting, "", name] = dict.fromkeys(range(seeds), each)
    return Results(results)


def test_figures_within_all_tolerances_are_reproduced() -> None:
    checks = list(mimir_checks(results_of((0.90, 0.11), ahead=3)))
    assert len(checks) == 2 * len((*SPARSE, *OWN_SPARSE)) + 1 + 2 * len((*DENSER, *OWN_DENSER))
    assert all(each.ok for each in checks)
    pairs = next(each for each in checks if "pairs" in each.name)
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
def test_figure_outside_a_tolerance_is_not_reproduced(
    result: tuple[float, float], ahead: int, wrong: set[str]
) -> None:
    failed = {
        each.name[:8] for each in mimir_checks(results_of(result, ahead=ahead)) if not each.ok
    }
    assert failed == {each[:8] for each in wrong}


def test_two_seeds_give_no_check() -> None:
    assert {each.ok for each in mimir_checks(results_of((0.95, 0.0), seeds=2))} == {None}
