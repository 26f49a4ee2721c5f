"""One sequence after the other: what keeps the memory of a loss at one row's logits.

A softmax over all of ``[batch, tokens, vocabulary]`` costs several times the logits themselves, at
single precision even where the model computes at half. Here only one row's label positions are
looked at, and computed again on the way back.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

IGNORED = -100  # the label of a token without a loss


def by_row(function: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
    """Return ``function`` of every row of ``[batch, ...]`` tensors, stacked.

    For the backward pass nothing is kept but the tensors themselves.
    """
    rows = zip(*(tensor.unbind(0) for tensor in tensors), strict=True)
    if not torch.is_grad_enabled():
        return torch.stack([function(*row) for row in rows])
    # What a row does draws no random numbers, so none have to be replayed.
    found = [
        checkpoint(function, *row, use_reentrant=False, preserve_rng_state=False) for row in rows
    ]
    return torch.stack(found)


def label_logits(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the logits that predict one row's labels, ``[label tokens, vocabulary]``.

    Position t predicts token t + 1; at least single precision.
    """
    found = logits[:-1][labels[1:] != IGNORED]
    return found.to(torch.promote_types(found.dtype, torch.float32))


def check_rows(logits: Tensor, labels: Tensor) -> None:
    """Refuse logits and labels that are not of the same tokens.

    Raises:
        ValueError: the shapes differ, the batch is empty, or a row has no label token.
    """
    if logits.dim() != 3 or logits.shape[:2] != labels.shape:
        raise ValueError(
            f"logits {list(logits.shape)} and labels {list(labels.shape)} are not of the same "
            "tokens; legal is [batch, tokens, vocabulary] beside [batch, tokens], unshifted"
        )
    if not len(labels):
        raise ValueError("a batch of no sequences has no loss; leave the term out instead")
    bare = (labels[:, 1:] == IGNORED).all(dim=1).nonzero().flatten().tolist()
    if bare:
        raise ValueError(
            f"rows {bare} of the batch have no label token; every row needs one after its first "
            "token. Was the answer cut off by the maximum length?"
        )
