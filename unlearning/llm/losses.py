"""Unlearning losses of language models: gradient ascent, NPO, SimNPO, RMU and the retain terms.

* Gradient ascent has no lower bound. Without a stop, gradient ascent destroys the model, and the
  destroyed model passes membership tests.
* Gradient difference adds a retain term to gradient ascent. The forgetting term of gradient
  difference has no lower bound either, so in the long run the forgetting term outweighs the retain
  term at any finite weight.
* NPO (negative preference optimisation, Zhang et al. 2024, arXiv 2404.05868): θ = the model, ref =
  the model before unlearning, β = ``beta``. SimNPO (Fan et al. 2024, arXiv 2410.07163) needs no
  reference model: δ = ``delta``, |y| = number of label tokens. Forgetting by NPO or SimNPO slows
  down by itself but never stops at a fixed level; relearning and quantisation may bring answers
  back.
* RMU (Li et al. 2024, arXiv 2403.03218) moves hidden activations of forgotten texts towards a
  random direction: M = activations of one layer, u = the random direction, c = ``coefficient``, d =
  width. RMU changes the activations of only one layer, and the weights of later layers still
  contain the knowledge, so fine-tuning may bring answers back.

Notation of Oblivionis (paper 000): γ = weight of the forgetting term, α = weight of the retain
term.
"""

import torch
from torch import Tensor
from torch.nn.functional import kl_div, log_softmax, logsigmoid

from unlearning.llm.likelihood import IGNORED, SequenceNll, by_row, check_labels, label_logits


def gradient_ascent_loss(forget: SequenceNll) -> Tensor:
    """Return minus the mean cross entropy over the label tokens of the batch, a scalar."""
    # Oblivionis (paper 000) Eq 36 with γ = 1: L = −E ℓ(y_f | x).
    return -forget.token_mean


def npo_loss(forget: SequenceNll, reference: Tensor, beta: float = 0.1) -> Tensor:
    """Return −(2/β) mean log σ(β (NLL_θ − NLL_ref)), a scalar, at least 0.

    ``reference`` is NLL_ref, ``[batch]``. NLLs are sums over tokens, not divided by the length of
    the answer. At the start, where NLL_θ = NLL_ref, the derivative of each answer's loss with
    respect to its NLL is −1 for every β. In the limit β → 0, the gradient of the loss is that of
    minus the mean NLL, as in gradient ascent on these sums.

    Raises:
        ValueError: ``beta`` is not positive, or ``reference`` does not have one value for each row
            of the batch.
    """
    if not beta > 0:
        raise ValueError(f"NPO: beta must be above 0 (got {beta})")
    if reference.shape != forget.total.shape:
        raise ValueError(
            f"NPO: the reference has shape {list(reference.shape)}, but the batch has "
            f"{len(forget.total)} rows to forget; pass one reference NLL per row"
        )
    # Oblivionis (paper 000) Eq 38, with −log p = NLL: −(2/β) E log σ(−β log(p_θ / p_ref)).
    gain = forget.total - reference.detach()
    return -(2.0 / beta) * logsigmoid(beta * gain).mean()


def simnpo_loss(forget: SequenceNll, beta: float = 4.5, delta: float = 0.0) -> Tensor:
    """Return −(2/β) mean log σ(β (NLL/|y| − δ)), a scalar, at least 0.

    δ is inside the parentheses, as in the authors' code. In Oblivionis (paper 000), δ is outside
    the parentheses; for δ = 0 both forms are the same.

    Raises:
        ValueError: ``beta`` is not positive.
    """
    if not beta > 0:
        raise ValueError(f"SimNPO: beta must be above 0 (got {beta})")
    # Oblivionis (paper 000) Eq 39, with −log p = NLL and δ inside the bracket.
    return -(2.0 / beta) * logsigmoid(beta * (forget.mean - delta)).mean()


def steering_vector(width: int, coefficient: float, seed: int) -> Tensor:
    """Return RMU's target c · u/‖u‖ with u ~ U[0, 1]^d, ``[d]``.

    The target depends only on the arguments. The target is the same for all clients during a run,
    because all clients compute it from one seed.
    """
    u = torch.rand(width, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    target: Tensor = coefficient * u / u.norm()
    return target


def rmu_forget_loss(activations: Tensor, target: Tensor, mask: Tensor) -> Tensor:
    """Return the mean squared distance of ``activations`` to the steering vector, a scalar.

    ``activations`` are ``[batch, tokens, d]``, ``target`` is ``[d]`` and ``mask`` is
    ``[batch, tokens]``. The squared distance is divided by d, averaged over the tokens of the mask
    in each row, and then over the rows. (The paper does not divide by d, so the paper's forget and
    retain terms are both d times as large.)

    Raises:
        ValueError: a row has no token in ``mask``.
    """
    return _masked_distance(activations, target.to(activations).expand_as(activations), mask)


def rmu_retain_loss(activations: Tensor, frozen: Tensor, mask: Tensor) -> Tensor:
    """Return the mean squared distance between ``activations`` and ``frozen``, a scalar.

    ``frozen`` are the activations of the frozen model, which unlearning does not change.
    ``activations`` and ``frozen`` are ``[batch, tokens, d]`` and ``mask`` is ``[batch, tokens]``.
    The mean is taken in the same way as in ``rmu_forget_loss``.

    Raises:
        ValueError: a row has no token in ``mask``.
    """
    return _masked_distance(activations, frozen.detach().to(activations), mask)


def _masked_distance(activations: Tensor, target: Tensor, mask: Tensor) -> Tensor:
    counts = mask.sum(dim=1)
    if not bool((counts > 0).all()):
        bare = (counts == 0).nonzero().flatten().tolist()
        raise ValueError(
            f"RMU: rows {bare} of the batch have no token in the mask; leave out these rows"
        )
    # RMU (arXiv 2403.03218) Eq 1 and 2: E_x 1/L_x Σ_t ‖M(t) − target‖², divided by the width as in
    # the authors' program.
    squares = (activations - target).square().mean(dim=2)
    # Tokens outside the mask add nothing, even if their activations are not finite.
    kept = torch.where(mask.bool(), squares, 0.0)
    return (kept.sum(dim=1) / counts).mean()


def retain_nll_loss(retain: SequenceNll) -> Tensor:
    """Return the mean cross entropy over the label tokens of the batch, a scalar."""
    return retain.token_mean


def retain_kl_loss(reference: Tensor, logits: Tensor, labels: Tensor) -> Tensor:
    """Return KL(reference ‖ model), averaged over all label tokens of the batch, a scalar.

    ``reference`` and ``logits`` are the logits of the model before unlearning and of the present
    model, ``[batch, tokens, vocabulary]``; ``labels`` are ``[batch, tokens]``. ``reference`` gets
    no gradient. Tokens without a label (prompt and padding) do not count.

    Raises:
        ValueError: the shapes do not match, the batch is empty, or a row has no label token.
    """
    check_labels(logits, labels)
    check_labels(reference, labels)
    divergences = by_row(_kl_divergence, reference.detach(), logits, labels)
    # The paper's program divides by rows, so α grows with the length of answers (decision 224).
    return divergences.sum() / (labels[:, 1:] != IGNORED).sum()


def weighted_loss(forget: Tensor, retain: Tensor, gamma: float = 1.0, alpha: float = 1.0) -> Tensor:
    """Return γ · forget + α · retain, a scalar, from two scalar losses.

    Oblivionis uses γ = α = 1, and γ = 0.125 for SimNPO.
    """
    # Oblivionis (paper 000) Eq 37, with any of the forgetting and retain terms above.
    return gamma * forget + alpha * retain


def _kl_divergence(reference: Tensor, logits: Tensor, labels: Tensor) -> Tensor:
    log_p, log_q = (log_softmax(label_logits(x, labels), dim=1) for x in (reference, logits))
    return kl_div(log_q, log_p, reduction="sum", log_target=True)
