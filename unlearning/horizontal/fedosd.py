"""FedOSD: unlearning loss, orthogonal steepest descent, and projection in post-training.

Notation of FedOSD (paper 001): ω = the model, ω⁰ = the model before unlearning,
G = pseudo-gradients of the remaining clients, ``[clients, d]``, g_u = pseudo-gradient of the
leaving client under the unlearning loss, d = the direction that is *subtracted* from ω,
g_a = ω − ω⁰ = the change by unlearning, p_y = the probability of the true class.

``common_descent`` (MGDA) computes the direction of the paper's ablation M3 (Table 5). This
direction preserves the utility but does not unlearn.
"""

from dataclasses import dataclass
from math import log
from typing import Literal, TypeAlias

import numpy as np
import torch
from scipy.optimize import nnls
from torch import Tensor
from torch.nn.functional import log_softmax

Projection: TypeAlias = Literal["conditional", "always", "none"]
PINV_CUTOFF = 1e-10  # relative to the largest eigenvalue of G Gᵀ; smaller ones count as zero
MAX_RESCALING = 100.0  # of ‖g_u‖ / ‖r‖; above it the remainder r is rounding noise


def unlearning_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the unlearning loss of each row, to be *minimised*, in [0, log 2], ``[rows]``.

    ``logits`` are ``[rows, classes]`` and ``labels`` are ``[rows]``. The gradient is bounded and
    vanishes once a row is forgotten: the component for the logit z_y is p(1 − p)/(2 − p), at most
    3 − 2√2.
    """
    log_p = log_softmax(logits, dim=1).gather(1, labels[:, None]).squeeze(1)
    # FedOSD Eq 3: L = −log(1 − p_y / 2).
    return -torch.log1p(-torch.exp(log_p - log(2.0)))


@dataclass(frozen=True, slots=True)
class UnlearningDirection:
    """Direction that is subtracted from the model in an unlearning round."""

    # D, ``[d]``, with the norm of g_u; None if g_u lies in the span of G, so that the round must be
    # skipped.
    direction: Tensor | None
    # The largest |cos(g_i, d)| over the remaining clients; it differs from 0 only by rounding.
    cosine: float
    kept: float  # ‖r‖ / ‖g_u‖, where r is the part of g_u that is orthogonal to G


def orthogonal_steepest_descent(g_u: Tensor, others: Tensor) -> UnlearningDirection:
    """Return the direction closest to ``g_u`` that is orthogonal to every gradient in ``others``.

    ``g_u`` is ``[d]`` and ``others`` are G, ``[clients, d]``. The computation is in float64. A
    client whose gradient is zero adds no orthogonality condition.
    """
    wide, target = others.double(), g_u.double()
    # FedOSD Eq 6: r = g_u − Gᵀ (G Gᵀ)⁺ G g_u; applied twice, to remove what rounding left.
    inverse = torch.linalg.pinv(wide @ wide.T, hermitian=True, rtol=PINV_CUTOFF)
    rest = target
    for _ in range(2):
        rest = rest - wide.T @ (inverse @ (wide @ rest))
    before, after = float(target.norm()), float(rest.norm())
    if before == 0 or after * MAX_RESCALING < before:
        return UnlearningDirection(None, 0.0, after / before if before else 0.0)
    # The paper's μ has exponent 4 where 3 is correct: d must have the norm of g_u.
    direction = rest * (before / after)
    return UnlearningDirection(
        direction.to(g_u.dtype), _largest_cosine(wide, direction), after / before
    )


def client_cosines(others: Tensor, direction: Tensor) -> Tensor:
    """Return cos(g_i, d) of each client, ``[clients]``; the cosine is 0 for a zero gradient.

    ``others`` are G, ``[clients, d]``, and ``direction`` is ``[d]``. Clients with a negative cosine
    are in conflict with d, because subtracting d raises their loss.
    """
    wide, d = others.double(), direction.double()
    sizes = wide.norm(dim=1) * d.norm()
    return torch.where(sizes > 0, wide @ d / sizes.clamp_min(torch.finfo(sizes.dtype).tiny), 0.0)


def _largest_cosine(others: Tensor, direction: Tensor) -> float:
    return float(client_cosines(others, direction).abs().max()) if len(others) else 0.0


def project_recovery(gradient: Tensor, away: Tensor, project: Projection = "conditional") -> Tensor:
    """Return a remaining client's pseudo-gradient without the component along g_a, ``[d]``.

    ``gradient`` is g_i and ``away`` is g_a, both ``[d]``. If g_i · g_a > 0, subtracting g_i moves
    the model back towards ω⁰. The mode "conditional" projects a gradient only in this case. The
    mode "always" projects every gradient, as the authors' code does. The projected gradient keeps
    the norm of g_i, or is zero if nothing is left.
    """
    along, square = float(gradient.double() @ away.double()), float(away.double().square().sum())
    if project == "none" or square == 0 or (project == "conditional" and along <= 0):
        return gradient
    # FedOSD Eq 7: g_i ← g_i − (g_i · g_a / ‖g_a‖²) g_a, scaled to its norm as in Alg 1, line 17.
    rest = gradient.double() - along / square * away.double()
    before, after = float(gradient.double().norm()), float(rest.norm())
    if after * MAX_RESCALING * 1e6 < before:
        return torch.zeros_like(gradient)
    return (rest * (before / after)).to(gradient.dtype)


def common_descent(gradients: Tensor) -> Tensor:
    """Return the convex combination of the clients' gradients with the smallest norm, ``[d]``.

    ``gradients`` are ``[clients, d]``. To first order, subtracting the result lowers every client's
    loss. The result is zero if no direction lowers all losses at once.
    """
    # MGDA (Désidéri 2012): min ‖Σ v_k g_k‖² over v_k ≥ 0, Σ v_k = 1.
    wide = gradients.double()
    gram = (wide @ wide.T).numpy()
    largest = float(gram.diagonal().max())
    if largest == 0:
        return torch.zeros_like(gradients[0])
    values, vectors = np.linalg.eigh(gram / largest)
    root = np.sqrt(values.clip(min=0))[:, None] * vectors.T  # rootᵀ root = G Gᵀ
    # With w = s v, Σ v = 1, the minimum of ‖root w‖² + (Σ w − 1)² has the v of smallest ‖root v‖
    # for every s, so non-negative least squares finds v (Lawson and Hanson 1974, least distance
    # programming).
    count = len(gram)
    found, _ = nnls(np.vstack([root, np.ones(count)]), np.append(np.zeros(count), 1.0))
    weights = torch.from_numpy(found / found.sum())
    shortest: Tensor = (weights @ wide).to(gradients.dtype)
    return shortest
