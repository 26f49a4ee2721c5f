"""Verdicts: which of the paper's orderings and gaps hold here, computed from the runs."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

from scipy.stats import spearmanr, ttest_rel

from parties.experiments.bench.blocks import RETRAIN, STANDARD
from parties.experiments.bench.results import Results, Row, Series, differences

FEWEST: Final = 3  # seeds: with fewer there is no verdict
ABOVE_ZERO: Final = (1e-6, math.inf)  # judge forgives 1e-9
LEVEL: Final = 0.05  # of the one-sided paired test of an ordering
M1, M2 = "Income, m=1, n=50 %", "Income, m=2, n=25 %"
TIMED, ABLATED, SWEPT = "Income, timed", "Digits, m=2, n=50 %", "Digits, sweeps"
ROWS: Final = {row.label: row for row in STANDARD}
FORMS: Final = (ROWS["FedORA (paper)"], ROWS["FedORA (default)"])
OMEGAS: Final = ("0.5", "1", "2", "5", "10", "20")
DELTAS: Final = ("0", "5", "10", "25")  # the trend is claimed up to here


@dataclass(frozen=True, slots=True)
class Verdict:
    """One figure; ``ok`` is None where nothing is demanded, or nothing can be said yet."""

    name: str
    value: float | None  # None: no run, or too few seeds
    unit: str
    wanted: str = ""
    ok: bool | None = None


def verdicts(found: Results) -> list[Verdict]:
    """All verdicts; those without runs have no value."""
    parts: Sequence[Callable[[Results], Iterator[Verdict]]] = (
        utility,
        attacks,
        times,
        ablations,
        sweeps,
        payload,
    )
    unsorted = [verdict for part in parts for verdict in part(found)]
    return sorted(unsorted, key=lambda verdict: int(row_of(verdict)[1:]))


def row_of(verdict: Verdict) -> str:
    """The reference row that a verdict belongs to: R1, R2, ..."""
    return verdict.name.partition(":")[0]


def reproduced(found: Sequence[Verdict]) -> dict[str, str]:
    """By reference row (R1, R2, ...), the word for all that it demands."""
    demanded: dict[str, list[bool | None]] = {}
    for verdict in found:
        if verdict.wanted:
            demanded.setdefault(row_of(verdict), []).append(verdict.ok)
    return {row: _word(said) for row, said in demanded.items()}


def _word(said: Sequence[bool | None]) -> str:
    if False in said:
        return "not reproduced"
    return "open" if None in said else "reproduced"


def within(name: str, series: Series, limit: float, unit: str) -> Iterator[Verdict]:
    """The mean stays within ``limit`` of zero."""
    yield judge(name, _mean(series), unit, (-limit, limit), f"within {limit:g}")


def judge(
    name: str, value: float | None, unit: str, between: tuple[float, float], wanted: str
) -> Verdict:
    """A figure that has to lie between two bounds."""
    ok = None if value is None else between[0] - 1e-9 <= value <= between[1] + 1e-9
    return Verdict(name, value, unit, wanted, ok)


def above(name: str, higher: Series, lower: Series, least: float = 0.0) -> Iterator[Verdict]:
    """``higher`` exceeds ``lower`` by at least ``least`` points over seeds, and not by chance.

    A paired t-test, one-sided; where the differences do not vary, their sign decides.
    """
    apart = differences(higher, lower)
    if len(apart) < FEWEST:
        yield Verdict(
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
    yield Verdict(name, mean * 100, "points", wanted, mean >= least and p < LEVEL)


def utility(found: Results) -> Iterator[Verdict]:
    """R1 and R2: test accuracy on Income."""
    for number, place in (("R1", M2), ("R2", M1)):

        def test(label: str, where: str = place) -> Series:
            return found.series(where, ROWS[label], "test")

        retrain = test("Retrain")
        for form in FORMS:
            gap = _points(differences(test(form.label), retrain))
            yield from within(f"{number}: {form.label} minus Retrain, {place}", gap, 1.0, "points")
        for ascent in ("GA", "GA (long)"):
            yield from above(
                f"{number}: Retrain minus {ascent}, {place}", retrain, test(ascent), 0.015
            )
        for rival in ("GA", "ICO-like"):
            yield from above(
                f"{number}: FedORA (paper) minus {rival}, {place}",
                test("FedORA (paper)"),
                test(rival),
            )
        yield from above(
            f"{number}: FedORA (paper) minus CVFU, each minus its Retrain, {place}",
            differences(test("FedORA (paper)"), retrain),
            differences(test("CVFU"), test("Retrain (sum of votes)")),
        )
    absolute = _mean(found.series(M2, RETRAIN, "test"))
    yield judge(f"R1: Retrain, {M2}", absolute, "accuracy", (0.845, 0.862), "0.845 to 0.862")


def attacks(found: Results) -> Iterator[Verdict]:
    """R3: membership inference and the backdoor on Income."""
    for place in (M2, M1):
        for form in FORMS:
            for measure, limit in (("mia", 0.03), ("backdoor", 0.05)):
                gap = differences(
                    found.series(place, form, measure), found.series(place, RETRAIN, measure)
                )
                name = f"R3: {measure} of {form.label} minus Retrain's, {place}"
                yield from within(name, gap, limit, "share")
        base = _mean(found.series(place, RETRAIN, "backdoor-base"))
        yield Verdict(f"R3: backdoor base rate, {place}", base, "share")


def times(found: Results) -> Iterator[Verdict]:
    """R4: seconds of a round on Income as ratios, accepted within 40 %."""
    retrain = found.series(TIMED, RETRAIN, "round")
    for row, paper in ((FORMS[0], 1.22 / 1.43), (FORMS[1], 1.22 / 1.43), (ROWS["GA"], 0.79 / 1.43)):
        own = found.series(TIMED, row, "round")
        ratio = _ratio(own, retrain)
        low, high = 0.6 * paper, 1.4 * paper
        wanted = f"{low:.2f} to {high:.2f} (the paper's {paper:.2f})"
        name = f"R4: time of a round, {row.label} over Retrain"
        yield judge(name, ratio, "", (low, high), wanted)


def ablations(found: Results) -> Iterator[Verdict]:
    """R5: what each part of FedORA is good for, as directions."""

    def of(variant: str, measure: str) -> Series:
        return found.series(ABLATED, Row(variant, variant, "fedora"), measure)

    for measure, least in (("unlearning", 0.3), ("mia", 0.1), ("backdoor", 0.5)):
        name = f"R5: {measure}, without the unlearning loss minus with it"
        yield from above(name, of("w/o UL", measure), of("paper", measure), least)
    whole = _points(differences(of("w/o AB", "test"), of("paper", "test")))
    yield from within("R5: test accuracy, all of D_r minus a quarter", whole, 1.0, "points")
    slower = _ratio(of("w/o AB", "round"), of("paper", "round"))
    name = "R5: time of a round, all of D_r over a quarter"
    yield judge(name, slower, "", (2.0, math.inf), "at least 2")
    fixed = differences(of("w/o AS", "mia"), of("paper", "mia"))
    name = "R5: mia, fixed steps minus adaptive (the paper: +0.14; may be none)"
    yield Verdict(name, _mean(fixed), "share")


def sweeps(found: Results) -> Iterator[Verdict]:
    """R6: the forgetting weight against accuracy on D_u, and the batch share against utility."""

    def of(variant: str, measure: str) -> Series:
        return found.series(SWEPT, Row(variant, variant, "fedora"), measure)

    weights = [(float(omega), of(f"ω={omega}", "unlearning")) for omega in OMEGAS]
    yield from trend("R6: Spearman of ω and unlearning accuracy", weights, -0.8)
    shares = [(float(delta), of(f"δ={delta} %", "test")) for delta in DELTAS]
    yield from trend("R6: Spearman of δ (to 25 %) and test accuracy", shares, 0.8)
    faster = _ratio(of("δ=100 %", "round"), of("δ=5 %", "round"))
    yield Verdict("R6: time of a round, δ = 100 % over 5 % (the paper: 4.5)", faster, "")


def payload(found: Results) -> Iterator[Verdict]:
    """R15: bytes that crossed against the formula, in every run of the paper's form."""
    excess = [
        abs(values["payload-excess"])
        for by_seed in found.found.values()
        for values in by_seed.values()
        if "payload-excess" in values
    ]
    name = "R15: payload of FedORA minus the formula, largest of all runs of the paper's form"
    yield judge(name, max(excess, default=None), "bytes", (0.0, 0.0), "0")


def trend(name: str, points: Sequence[tuple[float, Series]], bound: float) -> Iterator[Verdict]:
    """The rank correlation of the means over seeds is at or beyond ``bound``."""
    rho: float | None = None
    if all(len(series) >= FEWEST for _, series in points):
        ours = [fmean(series.values()) for _, series in points]
        constant = max(ours) - min(ours) < 1e-12  # ranks of equal numbers have no correlation
        rho = 0.0 if constant else float(spearmanr([at for at, _ in points], ours).statistic)
    between = (-1.0, bound) if bound < 0 else (bound, 1.0)
    yield judge(name, rho, "", between, f"at {'most' if bound < 0 else 'least'} {bound:g}")


def _mean(series: Series) -> float | None:
    return fmean(series.values()) if len(series) >= FEWEST else None


def _points(series: Series) -> Series:
    return {seed: 100 * value for seed, value in series.items()}


def _ratio(ours: Series, theirs: Series) -> float | None:
    """The ratio of means over the seeds that both have."""
    seeds = ours.keys() & theirs.keys()
    if len(seeds) < FEWEST:
        return None
    return fmean(ours[seed] for seed in seeds) / fmean(theirs[seed] for seed in seeds)
