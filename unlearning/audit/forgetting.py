"""Forgetting in simple figures: how a model treats D_u, and how much of the way to Retrain that is.

All are read as gaps to Retrain; none is better for being small.
"""

from torch import Tensor
from torch.nn.functional import log_softmax


def confidence(logits: Tensor) -> Tensor:
    """The probability of the predicted class, ``[rows]``."""
    return log_softmax(logits.detach().double(), dim=1).exp().max(dim=1).values


def label_odds(logits: Tensor, labels: Tensor) -> Tensor:
    """φ = log p_y - log(1 - p_y), ``[..., rows]``, of logits ``[..., rows, classes]``.

    Carlini et al. 2022, §IV. 1 - p_y is the sum of the other classes, so that a sure row gives no
    infinity.
    """
    exact = logits.detach().double()
    own = labels.expand(logits.shape[:-1]).unsqueeze(-1)
    others = exact.scatter(-1, own, -float("inf")).logsumexp(dim=-1)
    return exact.gather(-1, own).squeeze(-1) - others


def retrain_relative(
    unlearned: float, retrain: float, original: float, spread: float
) -> float | None:
    """1 - |m_u - m_R| / |m_o - m_R|: 1 at Retrain, 0 where the original is, negative beyond.

    None where the original lies within two of the Retrains' standard deviations (``spread``): a
    metric that the untouched original already meets says nothing.
    """
    way = abs(original - retrain)
    return 1 - abs(unlearned - retrain) / way if way and way >= 2 * spread else None
