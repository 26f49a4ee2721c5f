"""Negative log-likelihood of sequences, from which the objectives on answers are computed.

Notation: x = the prompt of a sequence, y = the label tokens, |y| = the number of label tokens.
Callers pass logits and labels unshifted, because this module itself pairs the logits at position t
with the label at position t + 1.

A softmax over all of ``[batch, tokens, vocabulary]`` takes several times the memory of the logits,
because the softmax is in float32 even if the model computes in bfloat16. Therefore the functions of
this module process one row at a time, use only the label positions of the row, and recompute the
softmax in the backward pass.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import cross_entropy
from torch.utils.checkpoint import checkpoint

IGNORED = -100  # the label of a token without a loss


@dataclass(frozen=True, slots=True)
class SequenceNll:
    """Negative log-likelihood of each sequence, in nats."""

    total: Tensor  # [batch], -log p(y|x), a sum over label tokens
    tokens: Tensor  # [batch], |y|

    @property
    def mean(self) -> Tensor:
        """−log p(y|x) / |y| of each sequence, ``[batch]``."""
        return self.total / self.tokens

    @property
    def token_mean(self) -> Tensor:
        """Mean NLL over all label tokens of the batch, a scalar; longer sequences weigh more."""
        return self.total.sum() / self.tokens.sum()


def sequence_nll(logits: Tensor, labels: Tensor) -> SequenceNll:
    """Return the negative log-likelihood of each row's labels.

    ``logits`` are ``[batch, tokens, vocabulary]`` and ``labels`` are ``[batch, tokens]``.

    Raises:
        ValueError: the shapes do not match, the batch is empty, or a row has no label token.
    """
    check_labels(logits, labels)
    totals: Tensor = _Totals.apply(logits, labels)  # type: ignore[no-untyped-call]
    return SequenceNll(totals, (labels[:, 1:] != IGNORED).sum(dim=1))


class _Totals(torch.autograd.Function):
    """Sum of the token losses of each row, ``[batch]``, with a gradient computed row by row.

    Every step of every objective calls it; ``by_row`` gives the same result in three times the
    time.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, labels: Tensor) -> Tensor:
        ctx.save_for_backward(logits, labels)
        return torch.stack([_total(*row) for row in zip(logits, labels, strict=True)])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None]:
        logits, labels = ctx.saved_tensors
        gradients = torch.zeros_like(logits)
        for gradient, row, label, factor in zip(gradients, logits, labels, upstream, strict=True):
            counted = label[1:] != IGNORED
            # ∂NLL/∂z = softmax(z) − onehot(y) at the positions that predict a label.
            slope = label_logits(row, label).softmax(dim=1)
            slope.scatter_add_(1, label[1:][counted][:, None], slope.new_full((len(slope), 1), -1))
            gradient[:-1][counted] = (slope * factor).to(gradient.dtype)
        return gradients, None


def _total(logits: Tensor, labels: Tensor) -> Tensor:
    truth = labels[1:]
    return cross_entropy(label_logits(logits, labels), truth[truth != IGNORED], reduction="sum")


def by_row(function: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
    """Apply ``function`` to each row of the ``tensors`` and stack the results, ``[batch, ...]``.

    ``tensors`` are ``[batch, ...]``. Only ``tensors`` are kept for the backward pass, which calls
    ``function`` again.
    """
    rows = zip(*(tensor.unbind(0) for tensor in tensors), strict=True)
    if not torch.is_grad_enabled():
        return torch.stack([function(*row) for row in rows])
    # The function draws no random numbers, so no generator state needs to be restored.
    results = [
        checkpoint(function, *row, use_reentrant=False, preserve_rng_state=False) for row in rows
    ]
    return torch.stack(results)


def label_logits(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the logits that predict the labels of one row, ``[label tokens, vocabulary]``.

    ``logits`` are ``[tokens, vocabulary]`` and ``labels`` are ``[tokens]``. Position t predicts
    token t + 1. The result is float32, or float64 if the logits are float64.
    """
    chosen = logits[:-1][labels[1:] != IGNORED]
    return chosen.to(torch.promote_types(chosen.dtype, torch.float32))


def check_labels(logits: Tensor, labels: Tensor) -> None:
    """Check that ``logits`` are ``[batch, tokens, vocabulary]`` and ``labels`` ``[batch, tokens]``.

    Raises:
        ValueError: the shapes do not match, the batch is empty, or a row has no label token.
    """
    if logits.dim() != 3 or logits.shape[:2] != labels.shape:
        raise ValueError(
            f"logits {list(logits.shape)} and labels {list(labels.shape)} do not match: expected "
            "logits [batch, tokens, vocabulary] and labels [batch, tokens], both unshifted"
        )
    if not len(labels):
        raise ValueError(
            "an empty batch has no loss; leave the loss term of this batch out of the objective"
        )
    bare = (labels[:, 1:] == IGNORED).all(dim=1).nonzero().flatten().tolist()
    if bare:
        raise ValueError(
            f"every row needs a label token after its first token, but rows {bare} of the batch "
            "have none; check whether the maximum length cut off the answers"
        )
