"""Checks R7 to R13: which orderings and gaps of the client unlearning papers are reproduced."""

import math
from collections.abc import Iterator
from typing import Final

from parties.experiments.bench.checks import (
    ABOVE_ZERO,
    ReproductionCheck,
    judge_count,
    judge_mean,
    mean_over_seeds,
)
from parties.experiments.bench.horizontal.blocks import RETRAIN
from parties.experiments.bench.results import (
    Results,
    SeedSeries,
    TableRow,
    seed_differences,
    seed_ratios,
)

PAT_20, PAT_50, IID = (f"Fashion-MNIST, {split}" for split in ("Pat-20", "Pat-50", "IID"))
LONG: Final = f"{PAT_20}, 2,000 rounds"
ASCENTS: Final = ("ewc-sga", "fu-pga")
POINT: Final = 0.01
SPARSE: Final = tuple(  # ζ = 0.01
    f"Mimir, {data} {pair}" for data in ("MNIST", "Fashion-MNIST") for pair in ("(0, 1)", "(8, 9)")
)
DENSER: Final = ("Mimir, MNIST (4, 5)", "Mimir, MNIST (3, 6)")  # ζ = 0.1
# With the network and the rates of the paper.
OWN_SPARSE: Final = tuple(f"Mimir's CNN, MNIST {pair}" for pair in ("(0, 1)", "(8, 9)"))
OWN_DENSER: Final = tuple(f"Mimir's CNN, MNIST {pair}" for pair in ("(4, 5)", "(3, 6)"))
BY_STAYING: Final = ("by_retained", "by_forgotten")


def horizontal_checks(results: Results) -> list[ReproductionCheck]:
    """Return all checks; if the runs for a check are missing, its value is None."""
    return [
        *fedosd_checks(results),
        *conflict_checks(results),
        *fedosd_ablation_checks(results),
        *fu_pga_checks(results),
        *fedforget_checks(results),
        *mimir_checks(results),
    ]


def fedosd_checks(results: Results) -> Iterator[ReproductionCheck]:
    """R7: FedOSD forgets and stays accurate.

    Gradient ascent loses accuracy, and its backdoor returns after recovery.
    """
    for place in (PAT_20, LONG, PAT_50, IID):
        asr = _series(results, place, "fedosd", "asr2")
        yield judge_mean(f"R7: ASR² of FedOSD, {place}", asr, (-math.inf, 0.05), "at most 0.05")
        gap = seed_differences(
            _series(results, place, "fedosd", "right2"),
            _series(results, place, "original", "right2"),
        )
        name = f"R7: R-Acc² of FedOSD minus the original's, {place}"
        yield judge_mean(name, gap, (-0.03, 0.03), "within 0.03")
        if place != LONG:
            yield from _ascents(results, place)


def _ascents(results: Results, place: str) -> Iterator[ReproductionCheck]:
    own = _series(results, place, "fedosd", "right1")
    for name in ASCENTS:
        first = _series(results, place, name, "right1")
        ahead = seed_differences(own, first)
        title = f"R7: R-Acc¹ of FedOSD minus that of {name}, {place}"
        yield judge_mean(title, ahead, (0.2, math.inf), "at least 0.2")
        if place == IID:
            continue
        asr = _series(results, place, name, "asr1")
        yield judge_mean(f"R7: ASR¹ of {name}, {place}", asr, (-math.inf, 0.02), "at most 0.02")
        part = seed_ratios(first, _series(results, place, "original", "right1"))
        title = f"R7: R-Acc¹ of {name} over the original's, {place}"
        yield judge_mean(title, part, (-math.inf, 0.5), "at most 0.5")
        back = _series(results, place, name, "asr2")
        yield judge_mean(f"R7: ASR² of {name}, {place}", back, (0.3, math.inf), "above 0.3")


def conflict_checks(results: Results) -> Iterator[ReproductionCheck]:
    """R8: with how many remaining clients the steps of FedOSD and of gradient ascent conflict."""
    place = "MNIST, Pat-20"
    own = _series(results, place, "fedosd", "conflicts")
    yield judge_mean(f"R8: NC of FedOSD, {place}", own, (0.0, 0.0), "0")
    for name in ASCENTS:
        series = _series(results, place, name, "conflicts")
        yield judge_mean(f"R8: NC of {name}, {place}", series, (5.0, math.inf), "more than 5 of 9")


def fedosd_ablation_checks(results: Results) -> Iterator[ReproductionCheck]:
    """R9: how accuracy and backdoor change if one part of FedOSD is left out."""
    right = _series(results, PAT_50, "fedosd", "right1")
    for name in ("m1", "m2"):
        lost = seed_differences(right, _series(results, PAT_50, name, "right1"))
        title = f"R9: R-Acc¹ of FedOSD minus that of {name.upper()}"
        yield judge_mean(title, lost, (0.3, math.inf), "at least 0.3")
    common, keeps = (_series(results, PAT_50, "m3", word) for word in ("asr1", "right1"))
    yield judge_mean("R9: ASR¹ of M3", common, (0.5, math.inf), "above 0.5")
    kept = seed_differences(keeps, _series(results, PAT_50, "original", "right1"))
    yield judge_mean(
        "R9: R-Acc¹ of M3 minus the original's", kept, (-0.03, math.inf), "at least -0.03"
    )
    back = seed_differences(
        _series(results, PAT_50, "m5", "asr2"), _series(results, PAT_50, "fedosd", "asr2")
    )
    yield judge_mean("R9: ASR² of M5 minus FedOSD's", back, ABOVE_ZERO, "above 0")


def fu_pga_checks(results: Results) -> Iterator[ReproductionCheck]:
    """R10: training reaches the paper's accuracy; the method FU-PGA removes the backdoor."""
    place = "MNIST, IBM"
    for name, paper in (("original", 0.9829), ("retrain", 0.9847)):
        series = _series(results, place, name, "test")
        low, high = paper - POINT, paper + POINT
        yield judge_mean(f"R10: test accuracy of {name}", series, (low, high), f"{paper} ± 0.01")
    for name in ("retrain", "fu-pga"):
        series = _series(results, place, name, "stamped")
        yield judge_mean(f"R10: trigger on test rows, {name}", series, (0.08, 0.12), "about 0.1")


def fedforget_checks(results: Results) -> Iterator[ReproductionCheck]:
    """R13: FedForget forgets no more than fine-tuning; FedForget's mode 'repel' loses accuracy.

    The ratio of Retrain's time to FedForget's time is reported without a requirement.
    """
    place = "MNIST, FedForget"
    rest = seed_differences(
        _series(results, place, "fedforget", "forgotten"),
        _series(results, place, "fine-tune", "forgotten"),
    )
    title = "R13: accuracy on D_u, FedForget minus fine-tune"
    yield judge_mean(title, rest, (0.0, math.inf), "at least 0: it forgets no more")
    lost = seed_differences(
        _series(results, place, "original", "test"), _series(results, place, "repel", "test")
    )
    title = "R13: test accuracy, original minus repel"
    yield judge_mean(title, lost, (0.03, math.inf), "at least 0.03")
    times = seed_ratios(
        _series(results, place, "retrain", "seconds"),
        _series(results, place, "fedforget", "seconds"),
    )
    yield ReproductionCheck(
        "R13: time of a Retrain over FedForget's (the paper: 2.3)", mean_over_seeds(times), ""
    )


def mimir_checks(results: Results) -> Iterator[ReproductionCheck]:
    """R11 and R12: Mimir's accuracy is close to Retrain's on D_r and D_f.

    D_r = the rows of a remaining client, D_f = the rows of the leaving client. On D_r, Mimir is
    also compared with FedMM.
    """
    for place in (*SPARSE, *OWN_SPARSE):
        kept, rest = (_beside_retrain(results, place, word) for word in BY_STAYING)
        name = f"R11: D_r of Mimir minus Retrain's, {place}"
        yield judge_mean(name, kept, (-0.12, 0.12), "within 0.12")
        name = f"R11: D_f of Mimir minus Retrain's, {place}"
        yield judge_mean(name, rest, (-math.inf, 0.1), "at most 0.1")
    yield _order_check(results)
    for place in (*DENSER, *OWN_DENSER):
        for word, title, most in zip(BY_STAYING, ("D_r", "D_f"), (0.1, 0.2), strict=True):
            gap = _beside_retrain(results, place, word)
            name = f"R12: {title} of Mimir minus Retrain's, {place}"
            yield judge_mean(name, gap, (-most, most), f"within {most}")


def _order_check(results: Results) -> ReproductionCheck:
    """Mimir is at least as accurate as FedMM on D_r, in three or four of four pairs of clients."""
    signs = []
    for place in SPARSE:
        own, other = (_series(results, place, each, BY_STAYING[0]) for each in ("mimir", "fedmm"))
        ahead = seed_differences(own, other)
        signs.append(judge_mean(place, ahead, (0.0, math.inf), "at least 0"))
    name = "R11: pairs of four in which D_r of Mimir is at least FedMM's"
    return judge_count(name, signs, (3, len(SPARSE)), "3 or 4")


def _beside_retrain(results: Results, place: str, measure: str) -> SeedSeries:
    ours, theirs = (_series(results, place, each, measure) for each in ("mimir", "retrain"))
    return seed_differences(ours, theirs)


def _series(results: Results, place: str, method: str, measure: str) -> SeedSeries:
    row = RETRAIN if method == "retrain" else TableRow("", "", method)
    return results.series(place, row, measure)
