"""Random relabelling, the trivial way to unlearn: rows to forget get any class but their own."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def wrong_labels(labels: Tensor, words: NDArray[np.uint64], classes: int) -> Tensor:
    """Return ``[rows]`` classes other than ``labels``, each as likely; ``words`` are uniform.

    With two classes this is the other one.

    Raises:
        ValueError: there is no other class.
    """
    if classes < 2:
        raise ValueError(f"a wrong label needs 2 classes or more; there are {classes}")
    shift = 1 + torch.from_numpy((words % np.uint64(classes - 1)).astype(np.int64))
    return (labels + shift) % classes
