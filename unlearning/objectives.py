"""FedORA's forgetting score: the value per row that unlearning raises on the forget set.

Notation of FedORA (paper 004): P = softmax of the logits, H = entropy, U = uniform distribution,
C = number of classes, ω = ``weight``, S = the score (the paper's L_j^u, which is to be *raised*).
"""

import math

from torch import Tensor
from torch.nn.functional import log_softmax


def forgetting_scores(logits: Tensor, weight: float) -> Tensor:
    """Return the forgetting score of each row, ``[rows]``.

    ``logits`` are ``[rows, classes]``; ``weight`` is ω. A score lies between −ω log C (the model is
    certain of one class) and +ω log C (the output is uniform). The score uses no labels. The
    gradient is finite at one-hot outputs and zero at uniform outputs.
    """
    classes = logits.shape[1]
    # FedORA Eq 28: L_j^u = ω (H(P_j) − KL(P_j‖U)), which equals ω (2 H(P_j) − log C).
    return weight * (2.0 * softmax_entropy(logits) - math.log(classes))


def softmax_entropy(logits: Tensor) -> Tensor:
    """Return the entropy of the softmax of each row in nats, ``[rows]``.

    ``logits`` are ``[rows, classes]``. The entropy is computed from the log-softmax, so that
    p log p is 0 where p underflows.
    """
    log_p = log_softmax(logits, dim=1)
    return -(log_p.exp() * log_p).sum(dim=1)
