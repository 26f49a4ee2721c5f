"""Negative log-likelihood of sequences: what all objectives on answers are made of.

Letters: y = the label tokens of a sequence, |y| = their number, x = its prompt. The shift by one
token is done here and nowhere else.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
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
    return Nll(by_row(_total, logits, labels), (labels[:, 1:] != IGNORED).sum(dim=1))


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


def _total(logits: Tensor, labels: Tensor) -> Tensor:
    truth = labels[1:]
    return cross_entropy(label_logits(logits, labels), truth[truth != IGNORED], reduction="sum")


def _log_probs(logits: Tensor, labels: Tensor) -> Tensor:
    truth, chosen = labels[1:], label_logits(logits, labels)
    losses = cross_entropy(chosen, truth[truth != IGNORED], reduction="none")
    found = torch.zeros(truth.shape, dtype=losses.dtype, device=losses.device)
    return found.masked_scatter(truth != IGNORED, -losses)
