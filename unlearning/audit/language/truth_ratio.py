"""Truth ratio: how likely false answers are beside a true one in other words.

Letters (TOFU; paper 000, Eq 13): R = the ratio, ã_k = a perturbed (false) answer, â = the
paraphrased true one, P by token as in ``probability``. There are two means over k: the arithmetic
one stands in the papers; TOFU's and open-unlearning's programs average losses before exp, which is
the geometric one. The latter is never larger; figures of the two cannot be compared.
"""

import math

import torch
from torch import Tensor

from unlearning.audit.language.probability import check_options


def arithmetic_truth_ratio(paraphrased: Tensor, perturbed: Tensor) -> Tensor:
    """Return R = mean_k P(ã_k)^(1/|ã_k|) / P(â)^(1/|â|), ``[batch]``.

    Takes mean token losses, ``[batch]`` of â and ``[batch, answers]`` of the ã_k.

    Raises:
        ValueError: not the same rows.
    """
    check_options(paraphrased, perturbed)
    true, false = paraphrased.detach().double(), perturbed.detach().double()
    log_mean = torch.logsumexp(-false, dim=1) - math.log(false.shape[1])
    return (log_mean + true).exp()


def geometric_truth_ratio(paraphrased: Tensor, perturbed: Tensor) -> Tensor:
    """Return R = exp(mean_k log P(ã_k)^(1/|ã_k|)) / P(â)^(1/|â|), ``[batch]``; as the other one.

    Raises:
        ValueError: not the same rows.
    """
    check_options(paraphrased, perturbed)
    return (paraphrased.detach().double() - perturbed.detach().double().mean(dim=1)).exp()


def forget_truth_ratio(ratios: Tensor) -> float:
    """Return FTR = mean min(R, 1/R): 1 where true and false answers are alike, higher is better.

    On the forget set; it is not Eq 14, which is for the others.
    """
    # min(R, 1/R) = exp(−|log R|), defined for R = 0 and R = ∞ as well.
    return float(ratios.double().log().abs().neg().exp().mean())


def retained_truth_ratio(ratios: Tensor) -> float:
    """Return mean max(0, 1 − R), paper 000 Eq 14: on the retain set, real authors, world facts."""
    return float((1.0 - ratios.double()).clamp_min(0.0).mean())
