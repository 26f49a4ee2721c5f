"""Unlearning objectives: what is raised on the forget set, as a score per row.

Letters of FedORA (paper 004): P = softmax of the logits, H = entropy, U = uniform distribution,
C = classes, ω = ``weight``, S = the score (the paper's L_j^u, which is to be *raised*).
"""

import math

from torch import Tensor
from torch.nn.functional import log_softmax


def forgetting_scores(logits: Tensor, weight: float) -> Tensor:
    """Return ``[rows]`` scores of ``[rows, classes]`` logits, from -ω log C (sure) to +ω log C.

    No label is used; the gradient is finite at one-hot outputs and zero at uniform ones.
    """
    classes = logits.shape[1]
    # FedORA Eq 28: L_j^u = ω (H(P_j) − KL(P_j‖U)), which equals ω (2 H(P_j) − log C).
    return weight * (2.0 * entropy(logits) - math.log(classes))


def entropy(logits: Tensor) -> Tensor:
    """Return H(P) in nats, ``[rows]``; via log-softmax, so p log p is 0 where p underflows."""
    log_p = log_softmax(logits, dim=1)
    return -(log_p.exp() * log_p).sum(dim=1)
