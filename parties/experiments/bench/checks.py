"""Checks R1 to R6 and R15: which orderings and gaps of the FedORA paper are reproduced."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Final

from scipy.stats import spearmanr

from parties.experiments.bench.blocks import RETRAIN, STANDARD
from parties.experiments.bench.results import (
    Results,
    SeedSeries,
    TableRow,
    seed_differences,
    seed_ratios,
)
from unlearning.audit.intervals import seed_interval

FEWEST: Final = 3  # seeds; a check needs as many
TOLERANCE: Final = 1e-9  # of a limit, for rounding
ABOVE_ZERO: Final = (1e-6, math.inf)  # above the tolerance
M1, M2 = "Income, m=1, n=50 %", "Income, m=2, n=25 %"
TIMED, ABLATED, SWEPT = "Income, timed", "Digits, m=2, n=50 %", "Digits, sweeps"
ROWS: Final = {row.label: row for row in STANDARD}
FORMS: Final = (ROWS["FedORA (paper)"], ROWS["FedORA (default)"])
OMEGAS: Final = ("0.5", "1", "2", "5", "10", "20")
DELTAS: Final = ("0", "5", "10", "25")  # the paper claims a trend up to 25 %


@dataclass(frozen=True, slots=True)
class ReproductionCheck:
    """A value, the requirement on this value, and whether the value meets the requirement.

    Attributes:
        value: the measured value, a mean over seeds; None: no run, or too few seeds.
        wanted: the requirement; empty: none.
        ok: True if the whole interval meets the requirement, False if no part of it does. None: a
            part of it does, there is no value, or no requirement.
        spread: the 95 % interval of ``value``; None: the value is not a mean over seeds.
    """

    name: str
    value: float | None
    unit: str
    wanted: str = ""
    ok: bool | None = None
    spread: tuple[float, float] | None = None

    @property
    def verdict(self) -> str:
        """Whether the requirement holds: yes, no, undecided or open; empty without a requirement.

        "Undecided": the interval contains values that meet the requirement, and values that do not.
        "Open": too few runs are finished.
        """
        if not self.wanted:
            return ""
        if self.value is None:
            return "open"
        return {True: "yes", False: "no", None: "undecided"}[self.ok]


def fedora_checks(results: Results) -> list[ReproductionCheck]:
    """Return all checks; if the runs for a check are missing, its value is None."""
    parts: Sequence[Callable[[Results], Iterator[ReproductionCheck]]] = (
        utility_checks,
        attack_checks,
        time_checks,
        ablation_checks,
        sweep_checks,
        payload_checks,
    )
    unsorted = [check for part in parts for check in part(results)]
    return sorted(unsorted, key=lambda check: int(check_row(check)[1:]))


def check_row(check: ReproductionCheck) -> str:
    """Return the label of the claim that a check tests, for example R1."""
    return check.name.partition(":")[0]


def results_by_row(results: Sequence[ReproductionCheck]) -> dict[str, str]:
    """Return a text for each label (R1, R2, ...) that says whether all its requirements hold."""
    demanded: dict[str, set[str]] = {}
    for check in results:
        if check.wanted:
            demanded.setdefault(check_row(check), set()).add(check.verdict)
    return {row: _joint_result(verdicts) for row, verdicts in demanded.items()}


def _joint_result(verdicts: set[str]) -> str:
    if "no" in verdicts:
        return "not reproduced"
    return next((each for each in ("open", "undecided") if each in verdicts), "reproduced")


def judge_mean(
    name: str, series: SeedSeries, between: tuple[float, float], wanted: str, unit: str = ""
) -> ReproductionCheck:
    """Return the check that the mean of ``series`` is within ``between``, by its 95 % interval.

    The interval is that of Student's t over seeds. With fewer than ``FEWEST`` seeds the check is
    open.
    """
    if len(series) < FEWEST:
        return ReproductionCheck(name, None, unit, wanted)
    values = list(series.values())
    spread = seed_interval(values)
    return ReproductionCheck(name, fmean(values), unit, wanted, _decide(spread, between), spread)


def _decide(spread: tuple[float, float], between: tuple[float, float]) -> bool | None:
    """Return whether an interval is within ``between``; None if only a part of it is."""
    (low, high), (least, most) = spread, (between[0] - TOLERANCE, between[1] + TOLERANCE)
    if least <= low and high <= most:
        return True
    return False if high < least or low > most else None


def judge_within(
    name: str, series: SeedSeries, limit: float, unit: str
) -> Iterator[ReproductionCheck]:
    """Yield the check that the mean of ``series`` is between -``limit`` and ``limit``."""
    yield judge_mean(name, series, (-limit, limit), f"within {limit:g}", unit)


def judge_value(
    name: str, value: float | None, unit: str, between: tuple[float, float], wanted: str
) -> ReproductionCheck:
    """Return the check that an exact ``value`` is within ``between``, the limits included."""
    ok = None if value is None else _decide((value, value), between)
    return ReproductionCheck(name, value, unit, wanted, ok)


def judge_count(
    name: str, parts: Sequence[ReproductionCheck], between: tuple[int, int], wanted: str
) -> ReproductionCheck:
    """Return the check of the number of ``parts`` whose mean is at least 0.

    The interval is from the number of parts that hold over seeds to the number of those that may.
    If one of them is open, the check is open.
    """
    values = [part.value for part in parts if part.value is not None]
    if len(values) < len(parts):
        return ReproductionCheck(name, None, "", wanted)
    low = sum(part.ok is True for part in parts)
    spread = (float(low), float(low + sum(part.ok is None for part in parts)))
    count = float(sum(value >= 0 for value in values))
    return ReproductionCheck(name, count, "", wanted, _decide(spread, between), spread)


def judge_above(
    name: str, higher: SeedSeries, lower: SeedSeries, least: float = 0.0
) -> Iterator[ReproductionCheck]:
    """Yield the check that ``higher`` is above ``lower``, by at least ``least``; in points."""
    apart = _points(seed_differences(higher, lower))
    between = (max(100 * least, ABOVE_ZERO[0]), math.inf)
    yield judge_mean(name, apart, between, f"above {least * 100:g} points", "points")


def utility_checks(results: Results) -> Iterator[ReproductionCheck]:
    """R1 and R2: test accuracy on the data set Income."""
    for number, place in (("R1", M2), ("R2", M1)):

        def test(label: str, where: str = place) -> SeedSeries:
            return results.series(where, ROWS[label], "test")

        retrain = test("Retrain")
        for form in FORMS:
            gap = _points(seed_differences(test(form.label), retrain))
            yield from judge_within(
                f"{number}: {form.label} minus Retrain, {place}", gap, 1.0, "points"
            )
        for ascent in ("GA", "GA (long)"):
            yield from judge_above(
                f"{number}: Retrain minus {ascent}, {place}", retrain, test(ascent), 0.015
            )
        for rival in ("GA", "ICO-like"):
            yield from judge_above(
                f"{number}: FedORA (paper) minus {rival}, {place}",
                test("FedORA (paper)"),
                test(rival),
            )
        yield from judge_above(
            f"{number}: FedORA (paper) minus CVFU, each minus its Retrain, {place}",
            seed_differences(test("FedORA (paper)"), retrain),
            seed_differences(test("CVFU"), test("Retrain (sum of votes)")),
        )
    absolute = results.series(M2, RETRAIN, "test")
    yield judge_mean(f"R1: Retrain, {M2}", absolute, (0.845, 0.862), "0.845 to 0.862", "accuracy")


def attack_checks(results: Results) -> Iterator[ReproductionCheck]:
    """R3: success of membership inference and of the backdoor on the data set Income."""
    for place in (M2, M1):
        for form in FORMS:
            for measure, limit in (("mia", 0.03), ("backdoor", 0.05)):
                gap = seed_differences(
                    results.series(place, form, measure), results.series(place, RETRAIN, measure)
                )
                name = f"R3: {measure} of {form.label} minus Retrain's, {place}"
                yield from judge_within(name, gap, limit, "share")
        base = mean_over_seeds(results.series(place, RETRAIN, "backdoor-base"))
        yield ReproductionCheck(f"R3: backdoor base rate, {place}", base, "share")


def time_checks(results: Results) -> Iterator[ReproductionCheck]:
    """R4 (Income): time per round, relative to Retrain; must be within 40 % of the paper's."""
    retrain = results.series(TIMED, RETRAIN, "round")
    for row, paper in ((FORMS[0], 1.22 / 1.43), (FORMS[1], 1.22 / 1.43), (ROWS["GA"], 0.79 / 1.43)):
        own = results.series(TIMED, row, "round")
        low, high = 0.6 * paper, 1.4 * paper
        wanted = f"{low:.2f} to {high:.2f} (the paper's {paper:.2f})"
        name = f"R4: time of a round, {row.label} over Retrain"
        yield judge_mean(name, seed_ratios(own, retrain), (low, high), wanted)


def ablation_checks(results: Results) -> Iterator[ReproductionCheck]:
    """R5: how accuracy, attack success and time change if one part of FedORA is left out."""

    def of(variant: str, measure: str) -> SeedSeries:
        return results.series(ABLATED, TableRow(variant, variant, "fedora"), measure)

    for measure, least in (("unlearning", 0.3), ("mia", 0.1), ("backdoor", 0.5)):
        name = f"R5: {measure}, without the unlearning loss minus with it"
        yield from judge_above(name, of("w/o UL", measure), of("paper", measure), least)
    whole = _points(seed_differences(of("w/o AB", "test"), of("paper", "test")))
    yield from judge_within("R5: test accuracy, all of D_r minus a quarter", whole, 1.0, "points")
    slower = seed_ratios(of("w/o AB", "round"), of("paper", "round"))
    name = "R5: time of a round, all of D_r over a quarter"
    yield judge_mean(name, slower, (2.0, math.inf), "at least 2")
    fixed = seed_differences(of("w/o AS", "mia"), of("paper", "mia"))
    name = "R5: mia, fixed steps minus adaptive (the paper: +0.14; may be none)"
    yield ReproductionCheck(name, mean_over_seeds(fixed), "share")


def sweep_checks(results: Results) -> Iterator[ReproductionCheck]:
    """R6: effects of the forgetting weight ω, and of δ, the share of D_r that an iteration uses.

    D_u = the forgotten rows, D_r = the remaining rows. Accuracy on D_u falls as ω grows; test
    accuracy grows as δ grows.
    """

    def of(variant: str, measure: str) -> SeedSeries:
        return results.series(SWEPT, TableRow(variant, variant, "fedora"), measure)

    weights = [(float(omega), of(f"ω={omega}", "unlearning")) for omega in OMEGAS]
    yield from trend_check("R6: Spearman of ω and unlearning accuracy", weights, -0.8)
    shares = [(float(delta), of(f"δ={delta} %", "test")) for delta in DELTAS]
    yield from trend_check("R6: Spearman of δ (to 25 %) and test accuracy", shares, 0.8)
    faster = mean_over_seeds(seed_ratios(of("δ=100 %", "round"), of("δ=5 %", "round")))
    yield ReproductionCheck("R6: time of a round, δ = 100 % over 5 % (the paper: 4.5)", faster, "")


def payload_checks(results: Results) -> Iterator[ReproductionCheck]:
    """R15: the measured payload equals the payload formula in all runs to which it applies."""
    excess = [
        abs(values["payload-excess"])
        for by_seed in results.found.values()
        for values in by_seed.values()
        if "payload-excess" in values
    ]
    name = "R15: payload of FedORA minus the formula, largest of all runs of the paper's form"
    yield judge_value(name, max(excess, default=None), "bytes", (0.0, 0.0), "0")


def trend_check(
    name: str, points: Sequence[tuple[float, SeedSeries]], bound: float
) -> Iterator[ReproductionCheck]:
    """Yield a check of a trend: the rank correlation of ``points`` must reach ``bound``.

    A positive ``bound`` is the smallest allowed correlation, a negative ``bound`` is the
    largest. A point consists of an x value and a series of y values, one per seed. The correlation
    is computed for each seed.
    """
    seeds = set.intersection(*(set(series) for _, series in points))
    at = [each for each, _ in points]
    found = {seed: _correlation(at, [series[seed] for _, series in points]) for seed in seeds}
    between = (-1.0, bound) if bound < 0 else (bound, 1.0)
    wanted = f"at {'most' if bound < 0 else 'least'} {bound:g}"
    check = judge_mean(name, found, between, wanted)
    if check.spread is not None:  # no correlation is beyond -1 or 1
        inside = (max(-1.0, check.spread[0]), min(1.0, check.spread[1]))
        check = replace(check, spread=inside, ok=_decide(inside, between))
    yield check


def _correlation(at: Sequence[float], values: Sequence[float]) -> float:
    """Return Spearman's rank correlation; 0 if all values are equal, which have no ranks."""
    constant = max(values) - min(values) < 1e-12
    return 0.0 if constant else float(spearmanr(at, values).statistic)


def mean_over_seeds(series: SeedSeries) -> float | None:
    """Return the mean of ``series``; None with fewer than ``FEWEST`` seeds."""
    return fmean(series.values()) if len(series) >= FEWEST else None


def _points(series: SeedSeries) -> SeedSeries:
    return {seed: 100 * value for seed, value in series.items()}
