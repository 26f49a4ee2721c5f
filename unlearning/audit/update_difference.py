"""The update-difference attack: who holds both versions of a model asks what was deleted between.

Unlearning itself can leak (Chen et al., "When Machine Unlearning Jeopardizes Privacy", CCS 2021).
Whether both versions are published is a policy; Retrain's figure is what even a model that never
saw the rows gives away.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import softmax


def differences(before: Tensor, after: Tensor) -> NDArray[np.float64]:
    """Features ``[p_o, p_u, p_o - p_u, ‖p_o - p_u‖]`` of each row, ``[rows, 3 classes + 1]``.

    Takes logits. Classes stand in the order of the original's probabilities, the largest first:
    by number they would let the attack learn the class.
    """
    p, q = softmax(before.detach().double(), dim=1), softmax(after.detach().double(), dim=1)
    order = p.argsort(dim=1, descending=True, stable=True)
    return changes(p.gather(1, order), q.gather(1, order))


def changes(before: Tensor, after: Tensor) -> NDArray[np.float64]:
    """The same features of any two ``[rows, width]``, such as a party's embeddings."""
    moved = before.double() - after.double()
    parts = [before.double(), after.double(), moved, moved.norm(dim=1, keepdim=True)]
    features: NDArray[np.float64] = torch.cat(parts, dim=1).detach().numpy()
    return features
