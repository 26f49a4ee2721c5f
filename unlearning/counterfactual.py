"""The counterfactual constraint: what a model without the forgotten rows would say about them.

Two small top models, trained on the same codes, differ only in D_u: h⁺ was trained on D, and h⁻ on
D_r. Notation: z⁺, z⁻ = their log-softmax outputs on D_u; z⁰ = that of the model to unlearn;
p = exp(z); q_j = the target of row j; P_Θ = the softmax of the model; y_j = the label of row j;
c = the constraint: the mean over D_u of the Kullback-Leibler divergence between the target's
probability of y_j and the model's. It is FedORA's constraint (arXiv 2512.23171, Eq. 20) with the
score S_u = -c and the threshold γ = -ε.

The constraint is one-sided: a row takes part only while the model gives y_j a larger probability
than the target does. A two-sided constraint would also teach D_u where the model knows less than
the target, and would give all forgotten rows nearly the same output, which an attack recognises.

Two corrections keep the constraint from asking for more, or less, than D_u has left behind.
``matched_epoch`` uses h⁺ and h⁻ as they were when h⁺ was as confident as the model: with further
epochs a model becomes more confident and remembers more, and the difference of the two grows.
``label_shortfalls`` measures the rows on the other side of their targets: every step moves single
outputs up and down, also those of a model without D_u.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import log_softmax, softmax

SCALE = 1.0  # κ, in nats: with a larger disagreement of h⁺ and h⁻, the target is h⁻ itself


def counterfactual_targets(
    trained: Tensor, with_rows: Tensor, without_rows: Tensor, scale: float = SCALE
) -> Tensor:
    """Return log q_j of each row, ``[rows, classes]``.

    The target is the model's own output, changed as h⁻ differs from h⁺. Where the difference is
    large, only D_u explains the row, and the target is the output of h⁻.

    Args:
        trained: the logits of the model to unlearn, ``[rows, classes]``.
        with_rows: the logits of h⁺, ``[rows, classes]``.
        without_rows: the logits of h⁻, ``[rows, classes]``.
        scale: κ.
    """
    own, plus, minus = (log_softmax(z, dim=1) for z in (trained, with_rows, without_rows))
    # w_j = exp(-(KL(p⁺_j ‖ p⁻_j) / κ)²), q_j = softmax(z⁻_j + w_j (z⁰_j - z⁺_j))
    weight = torch.exp(-((row_divergences(plus, minus) / scale) ** 2))[:, None]
    return log_softmax(minus + weight * (own - plus), dim=1)


def label_scores(log_targets: Tensor, logits: Tensor, labels: Tensor) -> Tensor:
    """Return minus the divergence of the probability of each row's label, ``[rows]``.

    It is the Kullback-Leibler divergence of two Bernoulli distributions, or 0 where the model gives
    the label a smaller probability than the target does.

    Args:
        log_targets: log q_j, ``[rows, classes]``.
        logits: the logits of the model, ``[rows, classes]``.
        labels: the label y_j of each row, ``[rows]``.
    """
    wanted = _label_and_rest(log_targets, labels)
    found = _label_and_rest(log_softmax(logits, dim=1), labels)
    return -row_divergences(wanted, found) * (found[:, 0] > wanted[:, 0])


def label_shortfalls(log_targets: Tensor, logits: Tensor, labels: Tensor) -> Tensor:
    """Return the divergence of each row that the model knows less well than its target, ``[rows]``.

    It is 0 where the model gives the label the same or a larger probability. Arguments as for
    ``label_scores``.
    """
    wanted = _label_and_rest(log_targets, labels)
    found = _label_and_rest(log_softmax(logits, dim=1), labels)
    return row_divergences(wanted, found) * (found[:, 0] < wanted[:, 0])


def confidence(logits: Tensor) -> float:
    """Return the mean probability of the most probable class; ``logits``: ``[rows, classes]``."""
    return softmax(logits, dim=1).max(dim=1).values.mean().item()


def matched_epoch(model: float, references: Sequence[float], planned: int) -> int:
    """Return the epoch, counted from 0, after which h⁺ and h⁻ are used.

    If h⁺ is more confident than the model after the ``planned`` epochs, it is the last epoch before
    after which it was not, or the first epoch if there is none. Else h⁺ is trained on, and it is
    the last epoch before it becomes more confident, or the last of ``references``.

    Args:
        model: the confidence of the model on rows that nobody learned.
        references: that of h⁺ on the same rows, after each epoch; ``planned`` or more.
        planned: the number of epochs of the training.
    """
    below = [number for number, each in enumerate(references[:planned]) if each <= model]
    if not below or below[-1] < planned - 1:
        return below[-1] if below else 0
    above = [number for number, each in enumerate(references) if number >= planned and each > model]
    return above[0] - 1 if above else len(references) - 1


def row_divergences(log_p: Tensor, log_q: Tensor) -> Tensor:
    """Return KL(p ‖ q) of each row in nats, ``[rows]``, from log-probabilities ``[rows, classes]``.

    Terms with p = 0 are 0.
    """
    return (log_p.exp() * (log_p - log_q)).sum(dim=1)


def _label_and_rest(log_p: Tensor, labels: Tensor) -> Tensor:
    """The log-probabilities of the label and of all other classes, ``[rows, 2]``."""
    own = log_p.gather(1, labels[:, None])
    others = log_p.scatter(1, labels[:, None], -torch.inf).logsumexp(dim=1, keepdim=True)
    return torch.cat([own, others], dim=1)
