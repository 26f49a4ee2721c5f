"""Tests of the checks on given figures: gaps, orderings, trends, and results by row."""

import pytest
from bench_runs import results_of

from parties.experiments.bench.blocks import RETRAIN, STANDARD
from parties.experiments.bench.checks import (
    ABLATED,
    DELTAS,
    M2,
    OMEGAS,
    SWEPT,
    ReproductionCheck,
    fedora_checks,
    judge_above,
    judge_count,
    judge_within,
    results_by_row,
    trend_check,
)
from parties.experiments.bench.results import TableRow

ROWS = {row.label: row for row in STANDARD}


def series(*values: float) -> dict[int, float]:
    return dict(enumerate(values))


def test_within_compares_the_interval_in_both_directions() -> None:
    """Three seeds -1, 0, 1: s = 1, so that the half-width is 4.3027 / √3 = 2.4841."""
    (passed,) = judge_within("gap", series(-1.0, 0.0, 1.0), 2.5, "points")
    assert (passed.value, passed.verdict) == (0.0, "yes")
    assert passed.spread == pytest.approx((-2.4841, 2.4841), abs=1e-4)
    (part,) = judge_within("gap", series(-1.0, 0.0, 1.0), 2.4, "points")
    assert (part.ok, part.verdict) == (None, "undecided")
    for sign in (-1, 1):
        (failed,) = judge_within("gap", series(*(sign * at for at in (9, 10, 11))), 7.5, "points")
        assert (failed.ok, failed.verdict) == (False, "no")
    (unknown,) = judge_within("gap", series(0.1, 0.1), 0.5, "points")
    assert (unknown.value, unknown.ok, unknown.verdict) == (None, None, "open")


def test_ordering_is_judged_by_the_interval_of_the_differences() -> None:
    """Differences 2, 3, 4 points: the interval is 3 ± 2.484."""
    higher, lower = series(0.52, 0.53, 0.54), series(0.5, 0.5, 0.5)
    verdicts = {
        least: next(judge_above("a", higher, lower, least)).verdict for least in (0.0, 0.01, 0.06)
    }
    assert verdicts == {0.0: "yes", 0.01: "undecided", 0.06: "no"}
    (check,) = judge_above("a", higher, lower)
    assert check.value == pytest.approx(3.0)
    assert check.spread == pytest.approx((0.5159, 5.4841), abs=1e-4)
    (chance,) = judge_above("a", series(0.60, 0.45, 0.55), lower)
    assert chance.verdict == "undecided", "the mean is above, but not certainly"


def test_an_ordering_without_variance_is_decided_by_its_sign() -> None:
    (passed,) = judge_above("a", series(0.75, 1.0, 0.5), series(0.5, 0.75, 0.25))
    assert passed.ok
    (equal,) = judge_above("a", series(0.5, 0.5, 0.5), series(0.5, 0.5, 0.5))
    assert equal.ok is False


def test_a_count_is_between_the_certain_and_the_possible_parts() -> None:
    above, below, unsure, unknown = (
        next(judge_above("part", series(*values), series(0.0, 0.0, 0.0)))
        for values in ((1.0, 1.1, 1.2), (-1.0, -1.1, -1.2), (-1.0, 2.0, 1.0), (1.0,))
    )
    check = judge_count("n", [above, above, unsure, below], (3, 4), "3 or 4")
    assert (check.value, check.spread, check.verdict) == (3.0, (2.0, 3.0), "undecided")
    assert judge_count("n", [above, above, above, below], (3, 4), "3 or 4").verdict == "yes"
    assert judge_count("n", [above, unsure, below, below], (3, 4), "3 or 4").verdict == "no"
    assert judge_count("n", [above, above, above, unknown], (3, 4), "3 or 4").verdict == "open"


def test_ordering_of_two_seeds_is_open() -> None:
    (check,) = judge_above("R9: a", series(0.6, 0.7), series(0.5, 0.5))
    assert (check.value, check.ok) == (None, None)
    assert results_by_row([check]) == {"R9": "open"}


def test_trend_is_the_mean_rank_correlation_of_the_seeds() -> None:
    """Ranks 1, 2, 3, 4 against 4, 3, 1, 2: Σd² = 9 + 1 + 4 + 4 = 18; 1 - 6 · 18 / 60 = -0.8."""
    points = [
        (float(at), series(v, v, v)) for at, v in zip((1, 2, 3, 4), (9, 8, 5, 6), strict=True)
    ]
    (check,) = trend_check("t", points, -0.8)
    assert check.value == pytest.approx(-0.8)
    assert check.ok
    (other,) = trend_check("t", points, 0.8)
    assert other.ok is False
    (unknown,) = trend_check("t", [*points, (5.0, {})], -0.8)
    assert unknown.ok is None
    # One seed in the opposite order: correlations -0.8, -0.8 and 0.8; no interval is beyond -1.
    turned = [(at, {**values, 2: -values[2]}) for at, values in points]
    (unsure,) = trend_check("t", turned, -0.2)
    assert unsure.value == pytest.approx(-0.8 / 3)
    assert unsure.spread == (-1.0, 1.0)
    assert unsure.verdict == "undecided"


def test_constant_values_have_no_trend() -> None:
    (check,) = trend_check("t", [(at, series(0.5, 0.5, 0.5)) for at in (1.0, 2.0, 3.0)], 0.8)
    assert (check.value, check.ok) == (0.0, False)


def test_row_is_reproduced_if_all_its_checks_hold() -> None:
    checks = [ReproductionCheck("R1: a", 1, "", "1", True), ReproductionCheck("R1: b", 1, "")]
    assert results_by_row(checks) == {"R1": "reproduced"}, "values without a limit are not judged"
    checks.append(ReproductionCheck("R1: c", 1, "", "1"))
    assert results_by_row(checks) == {"R1": "undecided"}
    checks.append(ReproductionCheck("R1: d", None, "", "1"))
    assert results_by_row(checks) == {"R1": "open"}
    checks.append(ReproductionCheck("R1: e", 1, "", "2", False))
    assert results_by_row(checks) == {"R1": "not reproduced"}


def test_checks_of_given_figures() -> None:
    paper = ROWS["FedORA (paper)"]
    figures = {
        (M2, RETRAIN): {"test": [0.85, 0.852, 0.851], "mia": [0.5, 0.5, 0.5]},
        (M2, paper): {
            "test": [0.848, 0.846, 0.847],
            "mia": [0.52, 0.521, 0.519],
            "payload-excess": [0, 0],
        },
        (M2, ROWS["GA"]): {"test": [0.80, 0.801, 0.802]},
    }
    for omega, value in zip(OMEGAS, (0.9, 0.8, 0.7, 0.6, 0.5, 0.4), strict=True):
        figures[SWEPT, TableRow(f"ω={omega}", f"ω={omega}", "fedora")] = {"unlearning": [value] * 3}
    for delta, value in zip(DELTAS, (0.5, 0.7, 0.8, 0.9), strict=True):
        figures[SWEPT, TableRow(f"δ={delta} %", f"δ={delta} %", "fedora")] = {"test": [value] * 3}
    figures[ABLATED, TableRow("", "paper", "fedora")] = {
        "unlearning": [0.3] * 3,
        "round": [1.0] * 3,
    }
    figures[ABLATED, TableRow("", "w/o UL", "fedora")] = {"unlearning": [0.8, 0.9, 0.85]}
    figures[ABLATED, TableRow("", "w/o AB", "fedora")] = {"round": [3.0] * 3}
    checks = {each.name: each for each in fedora_checks(results_of(figures))}

    gap = checks[f"R1: FedORA (paper) minus Retrain, {M2}"]
    assert (gap.value, gap.ok) == (pytest.approx(-0.4), True)
    assert checks[f"R1: Retrain minus GA, {M2}"].value == pytest.approx(5.0)
    assert checks[f"R1: Retrain minus GA, {M2}"].ok
    assert checks[f"R1: Retrain, {M2}"].ok
    assert checks[f"R3: mia of FedORA (paper) minus Retrain's, {M2}"].ok
    assert checks["R6: Spearman of ω and unlearning accuracy"].value == pytest.approx(-1)
    assert checks["R6: Spearman of δ (to 25 %) and test accuracy"].ok
    assert checks["R5: time of a round, all of D_r over a quarter"].value == 3
    restored = checks["R5: unlearning, without the unlearning loss minus with it"]
    assert (restored.value, restored.ok) == (pytest.approx(55), True)
    (payload,) = (each for name, each in checks.items() if name.startswith("R15"))
    assert (payload.value, payload.ok) == (0, True)
    others = [each for name, each in checks.items() if name.startswith(("R2", "R4"))]
    assert {(each.value, each.ok) for each in others} == {(None, None)}, "no run, no check"
