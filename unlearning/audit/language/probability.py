"""Probability of answers, by token: how sure a model is of an answer whatever its length.

Letters: a = an answer, |a| = its tokens, nll = its mean token loss.
"""

import torch
from torch import Tensor


def mean_nll(log_probs: Tensor, mask: Tensor) -> Tensor:
    """Return the mean token loss of each answer in nats, ``[batch]``, of ``[batch, tokens]``.

    Raises:
        ValueError: other shapes, a row without a token, or a log-probability that is none.
    """
    check_tokens(log_probs, mask)
    kept = torch.where(mask.bool(), log_probs.detach().double(), 0.0)
    return -kept.sum(dim=1) / mask.sum(dim=1)


def probability(nll: Tensor) -> Tensor:
    """Return P(a)^(1/|a|) = exp(−nll), ``[batch]`` or any other shape."""
    return nll.detach().double().neg().exp()


def option_probability(correct: Tensor, wrong: Tensor) -> Tensor:
    """Return P(correct) / Σ_options P, ``[batch]``, each P by token, as for RA and WF.

    Takes mean token losses, ``[batch]`` of the correct option and ``[batch, options]`` of the
    others; formed in logarithms, so it is defined however unlikely all of them are.

    Raises:
        ValueError: not the same rows.
    """
    check_options(correct, wrong)
    both = torch.cat([correct[:, None], wrong], dim=1).detach().double()
    return both.neg().softmax(dim=1)[:, 0]


def check_tokens(values: Tensor, mask: Tensor) -> None:
    """Refuse log-probabilities from which no figure of a row can be formed.

    Raises:
        ValueError: other shapes, a row without a token, or a log-probability that is none.
    """
    if values.dim() != 2 or values.shape != mask.shape:
        raise ValueError(
            f"log-probabilities {list(values.shape)} and mask {list(mask.shape)} must both be "
            "[batch, tokens]"
        )
    bare = (~mask.bool()).all(dim=1).nonzero().flatten().tolist()
    if bare:
        raise ValueError(f"rows {bare} have no token in the mask; leave such answers out")
    if not bool((values[mask.bool()] <= 1e-6).all()):  # NaN fails as well
        raise ValueError("log-probabilities must be numbers of at most 0; were losses given?")


def check_options(correct: Tensor, wrong: Tensor) -> None:
    """Refuse losses of other answers that are not beside the right ones.

    Raises:
        ValueError: not the same rows, or no other answers.
    """
    beside = correct.dim() == 1 and wrong.dim() == 2 and len(correct) == len(wrong)
    if not beside or not wrong.numel():
        raise ValueError(
            f"losses of right answers {list(correct.shape)} and of others {list(wrong.shape)}: "
            "legal is [batch] beside [batch, answers]"
        )
