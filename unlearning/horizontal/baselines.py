"""Computations of the server in the baseline methods of horizontal unlearning.

* FU-PGA (Halimi et al. 2022): gradient ascent inside a ball around a reference model.
* AdaClipping-like: dampens the parameters whose Fisher information is large on the rows of the
  leaving client, compared with the remaining rows. AdaClipping belongs to the family of selective
  synaptic dampening (Foster et al. 2024); "like" means that it is reimplemented from a description
  of Xie 2024.
* MoDe (Zhao et al. 2023): moves the model towards a degradation model, which is freshly initialised
  and trained by the remaining clients in parallel.
* FedEraser (Liu et al. 2021): rescales new updates of the remaining clients to the norms of their
  stored updates.
* FedRecovery (Zhang et al. 2023): removes the contribution of the leaving clients' gradients from
  the final model and adds noise.
* SFU (Li et al. 2023): gradient ascent orthogonal to the inputs of the remaining clients.

A model is one vector ``[d]``.
"""

from collections.abc import Sequence
from math import log, sqrt

import torch
from torch import Tensor

# --- FU-PGA ---------------------------------------------------------------------------------------
# Notation: w = the global model, w_u = the model of the leaving client, N = number of clients,
# m = number of leaving clients, w_ref = centre of the ball. The authors' program compares squared
# norms; the radius here is a norm, the square root of theirs.

RADIUS_SHARE = 1 / 3  # squared radius, divided by the mean squared distance to random models


def ball_centre(model: Tensor, leaving: Tensor, clients: int, gone: int = 1) -> Tensor:
    """Return FU-PGA's reference model w_ref, the centre of the ball, ``[d]``.

    ``model`` is w and ``leaving`` is the mean model of the ``gone`` leaving clients, both ``[d]``;
    ``clients`` is N.

    Raises:
        ValueError: no client remains.
    """
    if gone >= clients:
        raise ValueError(
            f"FU-PGA computes its reference model from the remaining clients, but {gone} of "
            f"{clients} clients leave and none remains; let fewer clients leave"
        )
    # Halimi et al. 2022: w_ref = (N w − m w_u) / (N − m), with m = 1 in the paper.
    return (clients * model - gone * leaving) / (clients - gone)


def ball_radius(at: Tensor, random: Tensor) -> float:
    """Return the radius of FU-PGA's ball.

    ``at`` is the centre of the ball, ``[d]``; ``random`` are randomly initialised models,
    ``[count, d]``.
    """
    # Halimi et al. 2022, authors' program: radius² = mean ‖w_ref − random model‖² / 3.
    return sqrt(RADIUS_SHARE * float((random - at).double().square().sum(dim=1).mean()))


def project_to_ball(model: Tensor, at: Tensor, size: float) -> Tensor:
    """Return the point of FU-PGA's ball that is nearest to ``model``, ``[d]``.

    ``model`` and the centre ``at`` are ``[d]``; ``size`` is the radius.
    """
    away = model - at
    far = float(away.double().norm())
    return model if far <= size else at + away * (size / far)


def squared_model_distance(model: Tensor, other: Tensor) -> float:
    """Return ‖w − w'‖² of two models, both ``[d]``, for FU-PGA's early stopping."""
    return float((model - other).double().square().sum())


# --- AdaClipping-like -----------------------------------------------------------------------------
# Notation: I_u, I_r = diagonal Fisher information on the rows of the leaving client and on the
# remaining rows, a = ``ratio``, λ = ``strength``.


def dampen_parameters(
    model: Tensor, own: Tensor, others: Tensor, ratio: float, strength: float
) -> Tensor:
    """Return the model after dampening the parameters that matter most for the leaving client.

    ``own`` and ``others`` are the Fisher information I_u on the leaving client's rows and I_r on
    the remaining rows. ``model``, ``own``, ``others`` and the result are ``[d]``.
    """
    # Selective synaptic dampening (Foster et al. 2024):
    # θ_i ← θ_i min(1, λ I_r,i / I_u,i) where I_u,i > a I_r,i.
    chosen = own > ratio * others
    factor = (strength * others / own.clamp_min(torch.finfo(own.dtype).tiny)).clamp_max(1.0)
    return torch.where(chosen, model * factor, model)


# --- MoDe -----------------------------------------------------------------------------------------


def mode_erasure(model: Tensor, degradation: Tensor, momentum: float) -> Tensor:
    """Return the model after MoDe's erasure step, ``[d]``.

    ``model`` is M_u and ``degradation`` is the degradation model M_d, both ``[d]``; ``momentum`` is
    λ.
    """
    # Zhao et al. 2023: M_u ← λ M_u + (1 − λ) M_d.
    return momentum * model + (1 - momentum) * degradation


# --- FedEraser ------------------------------------------------------------------------------------


def calibrated_update(stored: Sequence[Tensor], found: Sequence[Tensor]) -> list[Tensor]:
    """Return one client's new update, each tensor rescaled to the norm of the stored tensor.

    ``stored`` is the client's update U from the training, and ``found`` is the client's new update
    Û of the model that is being rebuilt. Both are lists of tensors of any shape; corresponding
    tensors have the same shape. A tensor of zeros in Û stays zero.
    """
    # Liu et al. 2021: ‖U‖ Û / ‖Û‖.
    return [_calibrated(u, u_hat) for u, u_hat in zip(stored, found, strict=True)]


def _calibrated(stored: Tensor, found: Tensor) -> Tensor:
    size = found.norm()
    return stored.norm() / size * found if size > 0 else torch.zeros_like(found)


# --- FedRecovery ----------------------------------------------------------------------------------
# Notation: w_i = the model of round i, ∇f_j(w_i) = the gradient of client j at w_i, n_j = its rows,
# u = the set of leaving clients, η = the server's learning rate, δ_i = the residual of round i,
# p_i = its weight. The sign is ours, and so are the weights n_j, with which the server averages:
# after one round, w − δ must be the model that training without u gives.


def recovery_residual(
    gradients: Tensor, rows: Tensor, leaving: Sequence[int], rate: float
) -> Tensor:
    """Return FedRecovery's residual δ_i of one round, ``[d]``.

    Args:
        gradients: the gradients of all clients, ``[clients, d]``.
        rows: the clients' numbers of rows n_j, ``[clients]``.
        leaving: the positions of the leaving clients, not of all clients.
        rate: the server's learning rate η.
    """
    stay = rows.clone()
    stay[list(leaving)] = 0
    # Zhang et al. 2023, for several clients, sign and weights as above:
    # δ_i = η [ Σ_{j∉u} n_j ∇f_j / Σ_{j∉u} n_j − Σ_j n_j ∇f_j / Σ_j n_j ].
    # With equal n_j and one client it is the paper's (η / n) [ Σ_{j≠u} ∇f_j / (n − 1) − ∇f_u ].
    return rate * (stay / stay.sum() - rows / rows.sum()) @ gradients


def recovery_weights(squares: Tensor) -> Tensor:
    """Return the weights p_i of the rounds, ``[rounds]``; all are equal if all gradients are zero.

    ``squares`` are the squared norms ‖∇F(w_i)‖² of the mean gradients, ``[rounds]``.
    """
    # Zhang et al. 2023: p_i = ‖∇F(w_i)‖² / Σ_j ‖∇F(w_j)‖².
    total = squares.sum()
    return squares / total if total > 0 else squares.new_full(squares.shape, 1 / len(squares))


def recovery_noise_scale(epsilon: float, beta: float, distance: float) -> float:
    """Return σ of Gaussian noise that makes two models at ``distance`` d hard to distinguish.

    The noise gives a guarantee only if a bound of d is known in advance, and if noise with this σ
    is also added to every retrained model. With a measured distance the noise gives no guarantee.
    """
    # Zhang et al. 2023: σ = d / (√2 (√(ln(1/β) + ε) − √ln(1/β))).
    return distance / (sqrt(2) * (sqrt(log(1 / beta) + epsilon) - sqrt(log(1 / beta))))


# --- SFU ------------------------------------------------------------------------------------------
# Notation: R_l = inputs of layer l at the remaining clients, ``[width, rows]``, ε = ``energy``. An
# update [ΔW | Δb] of a linear layer changes its outputs on inputs x by ΔW x + Δb, so an update that
# is orthogonal to the subspace of [x; 1] changes no output. Including the bias is our addition: an
# update of the bias alone would change every output.


def leading_directions(inputs: Tensor, energy: float) -> Tensor:
    """Return the leading left singular vectors of ``inputs``, ``[width, k]``.

    ``inputs`` are ``[width, rows]``. k is the smallest number of vectors whose squared singular
    values sum to at least the share ``energy`` of the total; k is 0 if all inputs are 0.
    """
    vectors, sizes, _ = torch.linalg.svd(inputs.double(), full_matrices=False)
    squares = sizes.square()
    total = float(squares.sum())
    k = int((squares.cumsum(0) < (energy - 1e-12) * total).sum()) + 1 if total else 0
    # Row by row, as a stored tensor: with the columns of the SVD, products round differently.
    leading: Tensor = vectors[:, :k].to(inputs.dtype).contiguous()
    return leading


def append_ones(inputs: Tensor) -> Tensor:
    """Return ``inputs`` with a row of ones for the bias, ``[width + 1, rows]``.

    ``inputs`` are ``[width, rows]``.
    """
    return torch.cat([inputs, inputs.new_ones(1, inputs.shape[1])])


def remove_subspace(update: Tensor, kept: Tensor) -> Tensor:
    """Return the ``update`` of a weight without the component in a subspace, ``[out, width]``.

    ``update`` is ``[out, width]``; ``kept`` is an orthonormal basis of the subspace,
    ``[width, k]``.
    """
    return update - (update @ kept) @ kept.T
