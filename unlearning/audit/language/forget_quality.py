"""Forget quality: can the truth ratios of the unlearned model be told from those of Retrain.

Letters (paper 000, Eq 15–17): D = largest distance of the two distribution functions, n and m = the
samples' sizes. A high p says "cannot tell apart" with these samples, never that they are equal: for
n = m = 40 only D > 0.30 is seen at 5 %.
"""

import math
import warnings
from dataclasses import dataclass
from typing import Literal, TypeAlias

from scipy.stats import ks_2samp
from torch import Tensor

Law: TypeAlias = Literal["exact", "asymptotic"]
_METHOD: dict[Law, str] = {"exact": "exact", "asymptotic": "asymp"}
MOST = 10_000  # rows of a sample up to which SciPy's exact law is affordable


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetQuality:
    """A two-sample Kolmogorov-Smirnov test of truth ratios."""

    distance: float  # D, which compares models where p is too small to
    p: float
    log10_p: float
    law: Law  # of D, from which p comes
    unlearned: int  # n
    retrained: int  # m


def forget_quality(unlearned: Tensor, retrained: Tensor, law: Law = "exact") -> ForgetQuality:
    """Compare the ratios R of two models, ``[n]`` and ``[m]``; R itself, not min(R, 1/R).

    Any strictly monotone function of R gives the same D and p. The exact law counts lattice paths;
    where rounding defeats SciPy's count the asymptotic law stands in, and the result says so. The
    asymptotic law is SciPy's: that of one sample of round(nm/(n + m)) rows. For n = m = 5 and
    D = 0.6 it gives 0.32, the exact law 0.3571, Kolmogorov's limit 0.3291 and Eq 15–17 0.3306; at
    n = m = 400 the laws are a few per cent apart.

    Raises:
        ValueError: a sample is empty or has a NaN, or is too large for the exact law.
    """
    ours, theirs = _sample(unlearned, "unlearned"), _sample(retrained, "retrained")
    n, m = len(ours), len(theirs)
    if law == "exact" and max(n, m) > MOST:
        raise ValueError(f"{n} and {m} rows; the exact law is for {MOST} at most, take asymptotic")
    with warnings.catch_warnings(record=True) as fell_back:
        warnings.simplefilter("always", RuntimeWarning)
        found = ks_2samp(ours, theirs, method=_METHOD[law])
    law = "asymptotic" if fell_back else law
    distance, p = float(found.statistic), float(found.pvalue)
    log10_p = math.log10(p) if p > 0 else _log10_bound(distance, n * m / (n + m))
    return ForgetQuality(distance=distance, p=p, log10_p=log10_p, law=law, unlearned=n, retrained=m)


def _sample(ratios: Tensor, whose: str) -> list[float]:
    values: list[float] = ratios.detach().double().flatten().tolist()
    if not values or any(math.isnan(value) for value in values):
        raise ValueError(
            f"the {whose} model's {len(values)} truth ratios must be some, and none NaN"
        )
    return values


def _log10_bound(distance: float, size: float) -> float:
    """Return log10 of 2 exp(−2 D² nm/(n + m)), for a p below the smallest double."""
    return min(0.0, (math.log(2.0) - 2.0 * distance * distance * size) / math.log(10.0))
