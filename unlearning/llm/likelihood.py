"""Negative log-likelihood of sequences: what all objectives on answers are made of.

Letters: y = the label tokens of a sequence, |y| = their number, x = its prompt. The shift by one
token is done here and nowhere else.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import cross_entropy

from unlearning.llm.rows import IGNORED, by_row, check_rows, label_logits


@dataclass(frozen=True, slots=True)
class Nll:
    """Negative log-likelihood of each sequence, in nats."""

    total: Tensor  # [batch], -log p(y|x), a sum over label tokens
    tokens: Tensor  # [batch], |y|

    @property
    def mean(self) -> Tensor:
        """-log p(y|x) / |y|, ``[batch]``: each sequence by its own length."""
        return self.total / self.tokens

    @property
    def token_mean(self) -> Tensor:
        """The mean over all label tokens of the batch, a scalar: long sequences weigh more."""
        return self.total.sum() / self.tokens.sum()


def sequence_nll(logits: Tensor, labels: Tensor) -> Nll:
    """Return what ``[batch, tokens, vocabulary]`` logits say of ``[batch, tokens]`` labels.

    Raises:
        ValueError: other shapes, or a row without a label token.
    """
    check_rows(logits, labels)
    totals: Tensor = _Totals.apply(logits, labels)  # type: ignore[no-untyped-call]
    return Nll(totals, (labels[:, 1:] != IGNORED).sum(dim=1))


@torch.no_grad()
def token_log_probs(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return log p of every label token and where there is one, both ``[batch, tokens - 1]``.

    For audits, so without a gradient; 0 where there is no label.

    Raises:
        ValueError: other shapes, or a row without a label token.
    """
    check_rows(logits, labels)
    counted = labels[:, 1:] != IGNORED
    return by_row(_log_probs, logits, labels), counted


class _Totals(torch.autograd.Function):
    """The sum of each row's losses, whose gradient is written where it belongs, row after row.

    Every step of every objective comes by here; ``by_row`` does the same in three times the time.
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


def _log_probs(logits: Tensor, labels: Tensor) -> Tensor:
    truth, chosen = labels[1:], label_logits(logits, labels)
    losses = cross_entropy(chosen, truth[truth != IGNORED], reduction="none")
    found = torch.zeros(truth.shape, dtype=losses.dtype, device=losses.device)
    return found.masked_scatter(truth != IGNORED, -losses)
