"""Checks R1 to R6 and R15: which orderings and gaps of the FedORA paper are reproduced."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

from scipy.stats import spearmanr, ttest_rel

from parties.experiments.bench.blocks import RETRAIN, STANDARD
from parties.experiments.bench.results import Results, SeedSeries, TableRow, seed_differences

FEWEST: Final = 3  # seeds; a check needs as many
ABOVE_ZERO: Final = (1e-6, math.inf)  # above the tolerance of ``judge_value``
LEVEL: Final = 0.05  # significance level of the one-sided paired tests
M1, M2 = "Income, m=1, n=50 %", "Income, m=2, n=25 %"
TIMED, ABLATED, SWEPT = "Income, timed", "Digits, m=2, n=50 %", "Digits, sweeps"
ROWS: Final = {row.label: row for row in STANDARD}
FORMS: Final = (ROWS["FedORA (paper)"], ROWS["FedORA (default)"])
OMEGAS: Final = ("0.5", "1", "2", "5", "10", "20")
DELTAS: Final = ("0", "5", "10", "25")  # the paper claims a trend up to 25 %


@dataclass(frozen=True, slots=True)
class ReproductionCheck:
    """A value, the requirement on this value, and whether the value meets the requirement.

    ``ok`` is None if there is no requirement, or if too few runs are finished.
    """

    name: str
    value: float | None  # None: no run, or too few seeds
    unit: str
    wanted: str = ""
    ok: bool | None = None


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
    demanded: dict[str, list[bool | None]] = {}
    for check in results:
        if check.wanted:
            demanded.setdefault(check_row(check), []).append(check.ok)
    return {row: _joint_result(checks) for row, checks in demanded.items()}


def _joint_result(checks: Sequence[bool | None]) -> str:
    if False in checks:
        return "not reproduced"
    return "open" if None in checks else "reproduced"


def judge_mean(
    name: str, series: SeedSeries, between: tuple[float, float], wanted: str, unit: str = ""
) -> ReproductionCheck:
    """Return the check that the mean of ``series`` is within ``between``."""
    return judge_value(name, mean_over_seeds(series), unit, between, wanted)


def judge_within(
    name: str, series: SeedSeries, limit: float, unit: str
) -> Iterator[ReproductionCheck]:
    """Yield the check that the mean of ``series`` is between -``limit`` and ``limit``."""
    yield judge_mean(name, series, (-limit, limit), f"within {limit:g}", unit)


def judge_value(
    name: str, value: float | None, unit: str, between: tuple[float, float], wanted: str
) -> ReproductionCheck:
    """Return the check that ``value`` is within ``between``, the smallest and largest value."""
    ok = None if value is None else between[0] - 1e-9 <= value <= between[1] + 1e-9
    return ReproductionCheck(name, value, unit, wanted, ok)


def judge_above(
    name: str, higher: SeedSeries, lower: SeedSeries, least: float = 0.0
) -> Iterator[ReproductionCheck]:
    """Yield the check that ``higher`` exceeds ``lower`` significantly, and by at least ``least``.

    The test is a one-sided paired t-test over seeds. If the differences of all seeds are equal, no
    t-test is possible; then a positive difference counts as significant.
    """
    apart = seed_differences(higher, lower)
    if len(apart) < FEWEST:
        yield ReproductionCheck(
            name, None, "points", f"above {least * 100:g} points, over {FEWEST} seeds or more"
        )
        return
    mean = fmean(apart.values())
    seeds = list(apart)
    constant = max(apart.values()) - min(apart.values()) < 1e-12
    p = float(mean <= 0)
    if not constant:
        pair = [[side[seed] for seed in seeds] for side in (higher, lower)]
        p = float(ttest_rel(*pair, alternative="greater").pvalue)
    wanted = f"above {least * 100:g} points, p < {LEVEL:g} (p = {p:.2g}, {len(seeds)} seeds)"
    yield ReproductionCheck(name, mean * 100, "points", wanted, mean >= least and p < LEVEL)


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
    absolute = mean_over_seeds(results.series(M2, RETRAIN, "test"))
    yield judge_value(f"R1: Retrain, {M2}", absolute, "accuracy", (0.845, 0.862), "0.845 to 0.862")


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
        ratio = _ratio(own, retrain)
        low, high = 0.6 * paper, 1.4 * paper
        wanted = f"{low:.2f} to {high:.2f} (the paper's {paper:.2f})"
        name = f"R4: time of a round, {row.label} over Retrain"
        yield judge_value(name, ratio, "", (low, high), wanted)


def ablation_checks(results: Results) -> Iterator[ReproductionCheck]:
    """R5: how accuracy, attack success and time change if one part of FedORA is left out."""

    def of(variant: str, measure: str) -> SeedSeries:
        return results.series(ABLATED, TableRow(variant, variant, "fedora"), measure)

    for measure, least in (("unlearning", 0.3), ("mia", 0.1), ("backdoor", 0.5)):
        name = f"R5: {measure}, without the unlearning loss minus with it"
        yield from judge_above(name, of("w/o UL", measure), of("paper", measure), least)
    whole = _points(seed_differences(of("w/o AB", "test"), of("paper", "test")))
    yield from judge_within("R5: test accuracy, all of D_r minus a quarter", whole, 1.0, "points")
    slower = _ratio(of("w/o AB", "round"), of("paper", "round"))
    name = "R5: time of a round, all of D_r over a quarter"
    yield judge_value(name, slower, "", (2.0, math.inf), "at least 2")
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
    faster = _ratio(of("δ=100 %", "round"), of("δ=5 %", "round"))
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
    largest. A point consists of an x value and a series of values, one value per seed; the mean of
    the series is the y value.
    """
    rho: float | None = None
    if all(len(series) >= FEWEST for _, series in points):
        ours = [fmean(series.values()) for _, series in points]
        constant = max(ours) - min(ours) < 1e-12  # ranks of equal numbers have no correlation
        rho = 0.0 if constant else float(spearmanr([at for at, _ in points], ours).statistic)
    between = (-1.0, bound) if bound < 0 else (bound, 1.0)
    yield judge_value(name, rho, "", between, f"at {'most' if bound < 0 else 'least'} {bound:g}")


def mean_over_seeds(series: SeedSeries) -> float | None:
    """Return the mean of ``series``; None with fewer than ``FEWEST`` seeds."""
    return fmean(series.values()) if len(series) >= FEWEST else None


def _points(series: SeedSeries) -> SeedSeries:
    return {seed: 100 * value for seed, value in series.items()}


def _ratio(ours: SeedSeries, theirs: SeedSeries) -> float | None:
    """Return the ratio of means over the seeds that both series have."""
    seeds = ours.keys() & theirs.keys()
    if len(seeds) < FEWEST:
        return None
    return fmean(ours[seed] for seed in seeds) / fmean(theirs[seed] for seed in seeds)
