"""Tests of the verdicts on given figures: gaps, orderings, trends, and results by row."""

import pytest
from bench.bench_runs import by_hand

from parties.experiments.bench.blocks import RETRAIN, STANDARD
from parties.experiments.bench.results import TableRow
from parties.experiments.bench.verdicts import (
    ABLATED,
    DELTAS,
    M2,
    OMEGAS,
    SWEPT,
    BenchVerdict,
    fedora_verdicts,
    judge_above,
    judge_within,
    results_by_row,
    trend_verdict,
)

ROWS = {row.label: row for row in STANDARD}


def series(*values: float) -> dict[int, float]:
    return dict(enumerate(values))


def test_within_looks_at_the_mean_either_way() -> None:
    (holds,) = judge_within("gap", series(-2.0, 1.0, -0.5), 0.5, "points")
    assert (holds.value, holds.ok) == (-0.5, True)
    (breaks,) = judge_within("gap", series(-2.0, 0.5, -0.75), 0.5, "points")
    assert breaks.ok is False
    (unknown,) = judge_within("gap", series(0.1, 0.1), 0.5, "points")
    assert (unknown.value, unknown.ok) == (None, None)


def test_an_ordering_needs_size_and_constancy() -> None:
    """Differences 1, 2, 3 points: t = 2 / (1 / √3) = 3.4641, one-sided p = 0.0371."""
    (holds,) = judge_above("a", series(0.51, 0.52, 0.53), series(0.5, 0.5, 0.5), 0.015)
    assert holds.value == pytest.approx(2.0)
    assert "p = 0.037" in holds.wanted
    assert holds.ok
    (small,) = judge_above("a", series(0.51, 0.52, 0.53), series(0.5, 0.5, 0.5), 0.025)
    assert small.ok is False
    (chance,) = judge_above("a", series(0.60, 0.45, 0.55), series(0.5, 0.5, 0.5), 0.0)
    assert chance.ok is False, "the mean is above, but so it would often be by chance"


def test_an_ordering_without_variance_is_decided_by_its_sign() -> None:
    (holds,) = judge_above("a", series(0.75, 1.0, 0.5), series(0.5, 0.75, 0.25))
    assert holds.ok
    (equal,) = judge_above("a", series(0.5, 0.5, 0.5), series(0.5, 0.5, 0.5))
    assert equal.ok is False


def test_an_ordering_of_two_seeds_is_open() -> None:
    (found,) = judge_above("R9: a", series(0.6, 0.7), series(0.5, 0.5))
    assert (found.value, found.ok) == (None, None)
    assert results_by_row([found]) == {"R9": "open"}


def test_trend_is_the_rank_correlation_of_means() -> None:
    """Ranks 1, 2, 3, 4 against 4, 3, 1, 2: Σd² = 9 + 1 + 4 + 4 = 18; 1 - 6 · 18 / 60 = -0.8."""
    points = [
        (float(at), series(v, v, v)) for at, v in zip((1, 2, 3, 4), (9, 8, 5, 6), strict=True)
    ]
    (found,) = trend_verdict("t", points, -0.8)
    assert found.value == pytest.approx(-0.8)
    assert found.ok
    (other,) = trend_verdict("t", points, 0.8)
    assert other.ok is False
    (unknown,) = trend_verdict("t", [*points, (5.0, {})], -0.8)
    assert unknown.ok is None


def test_what_does_not_change_is_no_trend() -> None:
    (found,) = trend_verdict("t", [(at, series(0.5, 0.5, 0.5)) for at in (1.0, 2.0, 3.0)], 0.8)
    assert (found.value, found.ok) == (0.0, False)


def test_a_row_is_reproduced_only_as_a_whole() -> None:
    found = [BenchVerdict("R1: a", 1, "", "1", True), BenchVerdict("R1: b", 1, "")]
    assert results_by_row(found) == {"R1": "reproduced"}, "what is only shown is not judged"
    found.append(BenchVerdict("R1: c", None, "", "1"))
    assert results_by_row(found) == {"R1": "open"}
    found.append(BenchVerdict("R1: d", 1, "", "2", False))
    assert results_by_row(found) == {"R1": "not reproduced"}


def test_verdicts_of_a_table_made_by_hand() -> None:
    paper = ROWS["FedORA (paper)"]
    figures = {
        (M2, RETRAIN): {"test": [0.85, 0.852, 0.851], "mia": [0.5, 0.5, 0.5]},
        (M2, paper): {
            "test": [0.848, 0.846, 0.847],
            "mia": [0.52, 0.53, 0.51],
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
    found = {each.name: each for each in fedora_verdicts(by_hand(figures))}

    gap = found[f"R1: FedORA (paper) minus Retrain, {M2}"]
    assert (gap.value, gap.ok) == (pytest.approx(-0.4), True)
    assert found[f"R1: Retrain minus GA, {M2}"].value == pytest.approx(5.0)
    assert found[f"R1: Retrain minus GA, {M2}"].ok
    assert found[f"R1: Retrain, {M2}"].ok
    assert found[f"R3: mia of FedORA (paper) minus Retrain's, {M2}"].ok
    assert found["R6: Spearman of ω and unlearning accuracy"].value == pytest.approx(-1)
    assert found["R6: Spearman of δ (to 25 %) and test accuracy"].ok
    assert found["R5: time of a round, all of D_r over a quarter"].value == 3
    restored = found["R5: unlearning, without the unlearning loss minus with it"]
    assert (restored.value, restored.ok) == (pytest.approx(55), True)
    (payload,) = (each for name, each in found.items() if name.startswith("R15"))
    assert (payload.value, payload.ok) == (0, True)
    others = [each for name, each in found.items() if name.startswith(("R2", "R4"))]
    assert {(each.value, each.ok) for each in others} == {(None, None)}, "no run, no verdict"
