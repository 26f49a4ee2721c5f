"""Features for an attack that finds deleted rows from a model before and after unlearning.

Unlearning itself can leak which rows were deleted (Chen et al., "When Machine Unlearning
Jeopardizes Privacy", CCS 2021). This update-difference attack needs the model from before and the
model from after unlearning; whether both models are published is a policy decision. The reference
is the result of the same attack on Retrain, which was not trained on the deleted rows.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import softmax


def output_change_features(before: Tensor, after: Tensor) -> NDArray[np.float64]:
    """Return the attack's features of each row from two models' outputs, ``[rows, 3 classes + 1]``.

    ``before`` and ``after`` are logits, ``[rows, classes]``. With the softmax p_o before and p_u
    after unlearning, the features are p_o, p_u, p_o − p_u and ‖p_o − p_u‖. Classes are sorted by
    decreasing probability before unlearning, because the attack could learn the class if the
    classes had a fixed order.
    """
    p, q = softmax(before.detach().double(), dim=1), softmax(after.detach().double(), dim=1)
    order = p.argsort(dim=1, descending=True, stable=True)
    return change_features(p.gather(1, order), q.gather(1, order))


def change_features(before: Tensor, after: Tensor) -> NDArray[np.float64]:
    """Return ``before``, ``after``, the difference and its norm per row, ``[rows, 3 width + 1]``.

    ``before`` and ``after`` are ``[rows, width]``, such as a party's embeddings.
    """
    moved = before.double() - after.double()
    parts = [before.double(), after.double(), moved, moved.norm(dim=1, keepdim=True)]
    features: NDArray[np.float64] = torch.cat(parts, dim=1).detach().numpy()
    return features
