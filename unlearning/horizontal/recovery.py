"""FedRecovery: what a client's gradients did, taken out of the final model, and noise over it.

Letters (Zhang et al. 2023): w_i = the model of round i, ∇f_j(w_i) = client j's gradient there, n =
clients, u = those who leave, m of them, one in the paper; η = the server's learning rate. The sign
is ours: after one round, w − δ must be what training without u gives.
"""

from collections.abc import Sequence
from math import log, sqrt

from torch import Tensor


def residual(gradients: Tensor, leaving: Sequence[int], rate: float) -> Tensor:
    """δ_i of one round, ``[d]``, of all clients' gradients ``[clients, d]``."""
    n, m = len(gradients), len(leaving)
    left = gradients[list(leaving)].sum(dim=0)
    # δ_i = (η / n) [ (m / (n − m)) Σ_{j∉u} ∇f_j − Σ_{j∈u} ∇f_j ].
    return rate / n * (m * (gradients.sum(dim=0) - left) / (n - m) - left)


def weights(squares: Tensor) -> Tensor:
    """p_i = ‖∇F(w_i)‖² / Σ_j ‖∇F(w_j)‖², ``[rounds]``; equal where all gradients vanish."""
    total = squares.sum()
    return squares / total if total > 0 else squares.new_full(squares.shape, 1 / len(squares))


def noise_scale(epsilon: float, beta: float, distance: float) -> float:
    """σ of the Gaussian noise that hides a ``distance``.

    A guarantee needs a bound known beforehand and the same noise on every retrained model; with a
    measured distance it is calibrated noise and nothing else.
    """
    # σ = d / (√2 (√(ln(1/β) + ε) − √ln(1/β))).
    return distance / (sqrt(2) * (sqrt(log(1 / beta) + epsilon) - sqrt(log(1 / beta))))
