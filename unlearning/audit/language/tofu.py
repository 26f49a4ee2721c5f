"""TOFU metrics: answer probability, truth ratio, forget quality and model utility.

Notation (arXiv 2401.06121; Oblivionis, paper 000): a = an answer, |a| = its number of tokens, nll =
its mean token loss, â = the paraphrased true answer, ã_k = a perturbed (false) answer, R = truth
ratio. Probabilities of answers are per token, so answers of different lengths can be compared.

The truth ratio has two definitions. The papers use the arithmetic mean of the probabilities of the
answers ã_k. The code of TOFU and of open-unlearning uses their geometric mean: it averages the
losses of the answers and then computes exp. The geometric mean is never larger than the arithmetic
mean, so truth ratios of the two definitions cannot be compared. Published figures come from the
code, so forget quality is computed from both.

A high p-value of forget quality means that the test cannot distinguish the two samples, not that
the samples are equal. The test statistic D is the Kolmogorov-Smirnov distance of the two
samples. With 40 truth ratios per sample, the test rejects equality at the 5 % level only if
D > 0.30.
"""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
from scipy.stats import ks_2samp
from torch import Tensor

Law: TypeAlias = Literal["exact", "asymptotic"]
_METHOD: dict[Law, str] = {"exact": "exact", "asymptotic": "asymp"}
MAX_EXACT_ROWS = 10_000  # of a sample; SciPy's exact law takes too long for more


def answer_probability(nll: Tensor) -> Tensor:
    """Return the probability per token of each answer, in the shape of ``nll``.

    ``nll`` are mean token losses, ``[batch]`` or any shape.
    """
    # TOFU: P(a)^(1/|a|) = exp(−nll).
    return nll.detach().double().neg().exp()


def option_probability(correct: Tensor, wrong: Tensor) -> Tensor:
    """Return the probability of the correct option among all options, ``[batch]``.

    ``correct`` are the mean token losses of the correct options, ``[batch]``; ``wrong`` are the
    mean token losses of the other options, ``[batch, options]``. The computation uses logarithms,
    so that the result is defined even if all options are very unlikely. TOFU uses this probability
    for the question sets on real authors and world facts.

    Raises:
        ValueError: the shapes do not match, or there are no other options.
    """
    _check_options(correct, wrong)
    # TOFU: P(correct) / Σ_options P, each P per token.
    both = torch.cat([correct[:, None], wrong], dim=1).detach().double()
    return both.neg().softmax(dim=1)[:, 0]


def arithmetic_truth_ratio(paraphrased: Tensor, perturbed: Tensor) -> Tensor:
    """Return the truth ratio R of each question, ``[batch]``.

    ``paraphrased`` are the mean token losses of â, ``[batch]``; ``perturbed`` are the mean token
    losses of the ã_k, ``[batch, answers]``.

    Raises:
        ValueError: the shapes do not match, or there are no perturbed answers.
    """
    _check_options(paraphrased, perturbed)
    # Oblivionis (paper 000) Eq 13: R = mean_k P(ã_k)^(1/|ã_k|) / P(â)^(1/|â|).
    true, false = paraphrased.detach().double(), perturbed.detach().double()
    log_mean = torch.logsumexp(-false, dim=1) - math.log(false.shape[1])
    return (log_mean + true).exp()


def geometric_truth_ratio(paraphrased: Tensor, perturbed: Tensor) -> Tensor:
    """Return the truth ratio R of each question with the geometric mean, ``[batch]``.

    The arguments are those of ``arithmetic_truth_ratio``.

    Raises:
        ValueError: the shapes do not match, or there are no perturbed answers.
    """
    _check_options(paraphrased, perturbed)
    # TOFU, aggregate_eval_stat.py: 1/R = exp(mean_k nll(ã_k) − nll(â)); the test of forget quality
    # gives the same result for R and for 1/R.
    true, false = paraphrased.detach().double(), perturbed.detach().double()
    return (true - false.mean(dim=1)).exp()


def forget_truth_ratio(ratios: Tensor) -> float:
    """Return FTR, the mean of min(R, 1/R) on the forget set; a higher FTR is better.

    ``ratios`` are R, ``[batch]``. FTR is 1 if true and false answers are equally likely. Eq 14
    of paper 000 defines another metric, for the questions that are not forgotten.
    """
    # open-unlearning: min(R, 1/R) = exp(−|log R|), defined also for R = 0 and R = ∞.
    return float(ratios.double().log().abs().neg().exp().mean())


def retained_truth_ratio(ratios: Tensor) -> float:
    """Return the mean of max(0, 1 − R) for a question set that is not forgotten.

    ``ratios`` are R, ``[batch]``. The sets are the retain set, real authors and world facts.
    """
    # Oblivionis (paper 000) Eq 14: max(0, 1 − R).
    return float((1.0 - ratios.double()).clamp_min(0.0).mean())


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetQuality:
    """Two-sample Kolmogorov-Smirnov test of truth ratios."""

    distance: float  # D; it still distinguishes models whose p is practically 0
    p: float
    log10_p: float
    law: Law  # distribution of D from which p was computed
    unlearned: int  # n
    retrained: int  # m


def forget_quality(unlearned: Tensor, retrained: Tensor, law: Law = "exact") -> ForgetQuality:
    """Compare the truth ratios of the unlearned model and of Retrain on the forget set.

    ``unlearned`` and ``retrained`` are truth ratios R, ``[n]`` and ``[m]``, not min(R, 1/R). Any
    strictly monotone function of R gives the same D and p. ``law`` names the distribution of D from
    which p is computed. The exact distribution is computed by counting lattice paths; if SciPy's
    computation fails because of rounding, the asymptotic distribution is used instead and the
    ``law`` of the result is "asymptotic". The asymptotic distribution is the one that SciPy uses,
    for one sample of round(nm/(n + m)) rows. For n = m = 5 and D = 0.6, p is 0.32 by the asymptotic
    distribution, 0.3571 by the exact distribution, 0.3291 by Kolmogorov's limit and 0.3306 by Eq
    15–17 of paper 000. For n = m = 400, the values of p by these four ways differ by a few per
    cent.

    Raises:
        ValueError: a sample is empty, contains NaN, or is too large for the exact distribution.
    """
    ours, theirs = _sample(unlearned, "unlearned"), _sample(retrained, "retrained")
    n, m = len(ours), len(theirs)
    if law == "exact" and max(n, m) > MAX_EXACT_ROWS:
        raise ValueError(
            f'law="exact" supports at most {MAX_EXACT_ROWS} truth ratios per sample '
            f'(got {n} and {m}); set law="asymptotic"'
        )
    with warnings.catch_warnings(record=True) as fell_back:
        warnings.simplefilter("always", RuntimeWarning)
        found = ks_2samp(ours, theirs, method=_METHOD[law])
    law = "asymptotic" if fell_back else law
    distance, p = float(found.statistic), float(found.pvalue)
    log10_p = math.log10(p) if p > 0 else _log10_bound(distance, n * m / (n + m))
    return ForgetQuality(distance=distance, p=p, log10_p=log10_p, law=law, unlearned=n, retrained=m)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionSetScores:
    """Three scores of one question set, each in [0, 1]; a higher score is better."""

    probability: float  # per token; among the options for real authors and world facts
    rouge: float  # mean ROUGE-L recall
    truth_ratio: float  # mean max(0, 1 − R)


def model_utility(
    retain: QuestionSetScores, real_authors: QuestionSetScores, world_facts: QuestionSetScores
) -> float:
    """Return the model utility: the harmonic mean of nine scores, 0 if one of them is 0.

    Raises:
        ValueError: a score is not in [0, 1].
    """
    # Oblivionis (paper 000) Eq 18: 9 / Σ 1/m.
    sets = (retain, real_authors, world_facts)
    return harmonic_mean(
        [x for each in sets for x in (each.probability, each.rouge, each.truth_ratio)]
    )


def harmonic_mean(values: Sequence[float]) -> float:
    """Return the harmonic mean n / Σ 1/x, or 0 if one value is 0.

    Raises:
        ValueError: there are no values, or a value is not in [0, 1].
    """
    outside = [value for value in values if not 0.0 <= value <= 1.0]  # NaN among them
    if outside or not values:
        raise ValueError(
            f"model utility needs at least one score, and every score must be in [0, 1] "
            f"(scores outside: {outside})"
        )
    # 1/x of the smallest doubles is infinite, which gives 0 as well.
    return len(values) / math.fsum(1.0 / x if x else math.inf for x in values)


def _check_options(correct: Tensor, wrong: Tensor) -> None:
    matching = correct.dim() == 1 and wrong.dim() == 2 and len(correct) == len(wrong)
    if not matching or not wrong.numel():
        raise ValueError(
            "the shapes of the losses do not match: the losses of the right answers are "
            f"{list(correct.shape)}, expected [batch]; the losses of the other answers are "
            f"{list(wrong.shape)}, expected [batch, answers]"
        )


def _sample(ratios: Tensor, whose: str) -> list[float]:
    values: list[float] = ratios.detach().double().flatten().tolist()
    if not values or any(math.isnan(value) for value in values):
        raise ValueError(
            f"forget quality needs at least one truth ratio of the {whose} model, and none may be "
            f"NaN (got {len(values)} ratios)"
        )
    return values


def _log10_bound(distance: float, size: float) -> float:
    """Return log10 of 2 exp(−2 D² nm/(n + m)), for a p below the smallest double."""
    return min(0.0, (math.log(2.0) - 2.0 * distance * distance * size) / math.log(10.0))
