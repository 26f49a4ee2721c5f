"""The unlearning cross entropy: a loss to *minimise* on the rows to be forgotten, bounded by log 2.

Letters of FedOSD (paper 001): p_y = the probability of the true class.
"""

from math import log

import torch
from torch import Tensor
from torch.nn.functional import log_softmax


def unlearning_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Return ``[rows]`` losses of ``[rows, classes]`` logits, each in [0, log 2].

    Its gradient vanishes once a row is forgotten, and no step can explode: the part along z_y is
    p(1 − p)/(2 − p), at most 3 − 2√2.
    """
    log_p = log_softmax(logits, dim=1).gather(1, labels[:, None]).squeeze(1)
    # FedOSD Eq 3: L = −log(1 − p_y / 2).
    return -torch.log1p(-torch.exp(log_p - log(2.0)))
