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
``EpochChoice`` uses h⁺ and h⁻ as they were after the number of epochs after which h⁺ was most like
the model: with further epochs a model remembers more, and the difference of the two grows.
``label_shortfalls`` measures the rows on the other side of their targets: every step moves single
outputs up and down, also those of a model without D_u.
"""

import math

import torch
from torch import Tensor
from torch.nn.functional import log_softmax, softmax

# Values of rows that a model learned and of rows that it has not seen: logits, ``[rows, classes]``,
# or labels, ``[rows]``.
Known = tuple[Tensor, Tensor]

SCALE = 1.0  # κ, in nats: with a larger disagreement of h⁺ and h⁻, the target is h⁻ itself
SIGNIFICANT = 2.0  # standard errors by which h⁺ must remember more than the model


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


class EpochChoice:
    """Chooses, during the training of h⁺ and h⁻, the epoch after which both are used.

    What a model remembers is the mean probability of the labels of rows that it learned, minus that
    of rows that it has not seen. If h⁺ remembers more than the model after the last epoch, it is
    used as it was after the epoch after which the two were most nearly equal; else as it is after
    the last one. Both are measured on the same rows, so that how hard a row is cancels. The mean of
    log-probabilities would be that of the few rows of which a model is wrongly sure, with a large
    standard error.
    """

    def __init__(self, model: Known, labels: Known) -> None:
        """Compare h⁺ with ``model``.

        Args:
            model: the logits of the model, of learned and of unseen rows, ``[rows, classes]`` each.
            labels: the label of each of these rows, ``[rows]`` each.
        """
        self._labels, self._known = labels, _label_probabilities(model, labels)
        self._least = math.inf

    def suits(self, reference: Known, *, last: bool) -> bool:
        """Return whether h⁺ after this epoch replaces the one chosen so far.

        Call it once for each epoch, in order. An h⁺ whose outputs are not finite replaces none.

        Args:
            reference: the logits of h⁺ of learned and of unseen rows, ``[rows, classes]`` each.
            last: whether no epoch follows.
        """
        excess, error = self._excess(reference)
        if math.isnan(excess):
            return False
        nearest, self._least = abs(excess) < self._least, min(abs(excess), self._least)
        remembers_more = excess > SIGNIFICANT * error
        return nearest or (last and not remembers_more)

    def _excess(self, reference: Known) -> tuple[float, float]:
        """How much more h⁺ remembers than the model does, and the standard error of this number.

        Without rows they are 0 and infinity; the error of a single row is infinity too.
        """
        if not all(map(len, self._labels)):
            return 0.0, math.inf
        found = _label_probabilities(reference, self._labels)
        learned, unseen = (each - own for each, own in zip(found, self._known, strict=True))
        excess = (learned.mean() - unseen.mean()).item()
        if min(len(learned), len(unseen)) <= 1:
            return excess, math.inf
        variance = sum(each.var().item() / len(each) for each in (learned, unseen))
        return excess, math.sqrt(variance)


def _label_probabilities(logits: Known, labels: Known) -> list[Tensor]:
    """The probability of each row's label, of learned and of unseen rows, ``[rows]`` each."""
    pairs = zip(logits, labels, strict=True)
    return [softmax(each, dim=1).gather(1, own[:, None])[:, 0] for each, own in pairs]


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
