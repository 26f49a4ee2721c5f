"""FedEraser: a client's stored updates, in new directions, without the client that left.

Letters (Liu et al. 2021): U_k = client k's stored update, Û_k = the update that it finds now, from
the model that is being rebuilt.
"""

from collections.abc import Sequence

import torch
from torch import Tensor


def calibrated(stored: Sequence[Tensor], found: Sequence[Tensor]) -> list[Tensor]:
    """‖U‖ Û / ‖Û‖ of one client, tensor by tensor; where Û is zero, so is the result."""
    return [_calibrated(u, u_hat) for u, u_hat in zip(stored, found, strict=True)]


def _calibrated(stored: Tensor, found: Tensor) -> Tensor:
    size = found.norm()
    return stored.norm() / size * found if size > 0 else torch.zeros_like(found)
