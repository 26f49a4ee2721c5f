"""Batches of token rows: choice of the rows in each batch, and padding to equal length."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from parties.common.errors import PolicyError
from parties.common.shared_randomness import Index, derive_key, permutation
from parties.language.texts.encoding import IGNORED_LABEL, EncodedText

POOL = 32  # batches in a pool; the rows of one pool are sorted by length


@dataclass(frozen=True, slots=True, eq=False)
class TextBatch:
    """Training rows, padded on the right."""

    ids: Tensor  # token ids, ``[batch, width]`` int64
    mask: Tensor  # attention mask, ``[batch, width]`` int64: 1 for tokens, 0 for padding
    labels: Tensor  # ``[batch, width]`` int64, -100 for tokens without a loss


@dataclass(frozen=True, slots=True, eq=False)
class PromptBatch:
    """Prompts for generation, padded on the left."""

    ids: Tensor  # token ids, ``[batch, width]`` int64
    mask: Tensor  # attention mask, ``[batch, width]`` int64: 1 for tokens, 0 for padding


def training_batch(rows: Sequence[EncodedText], pad: int) -> TextBatch:
    """Return the rows as one batch, padded with ``pad`` to the length of the longest row."""
    width = max(len(row.ids) for row in rows)
    ids, labels = np.full((len(rows), width), pad), np.full((len(rows), width), IGNORED_LABEL)
    mask = np.zeros((len(rows), width), np.int64)
    for at, row in enumerate(rows):
        ids[at, : len(row.ids)], labels[at, : len(row.ids)] = row.ids, row.labels
        mask[at, : len(row.ids)] = 1
    return TextBatch(*map(torch.from_numpy, (ids, mask, labels)))


def prompt_batch(prompts: Sequence[Index], pad: int) -> PromptBatch:
    """Return prompts, each ``[tokens]``, as one batch in which all prompts end in the last column.

    Shorter prompts are filled on their left with the token ``pad``.
    """
    width = max(map(len, prompts))
    ids = np.full((len(prompts), width), pad)
    mask = np.zeros((len(prompts), width), np.int64)
    for at, prompt in enumerate(prompts):
        ids[at, width - len(prompt) :], mask[at, width - len(prompt) :] = prompt, 1
    return PromptBatch(torch.from_numpy(ids), torch.from_numpy(mask))


def bucketed_batches(
    lengths: Sequence[int], size: int, order: bytes, pool: int = POOL
) -> list[Index]:
    """Return the row numbers of each batch, ``[size]`` each; the last batch may be smaller.

    Rows are shuffled, divided into pools of ``pool`` batches, and sorted by length within each
    pool, so that a batch has rows of similar length and little padding. Every row is in exactly one
    batch. With ``pool`` = 1, the rows of a batch are chosen at random, whatever their lengths.

    Args:
        lengths: number of tokens of each row.
        size: number of rows per batch.
        order: random key of the epoch, from ``parties.common.shared_randomness.derive_key``.
        pool: number of batches per pool.
    """
    sizes = np.asarray(lengths, np.int64)
    shuffled = permutation(epoch_key(order, "rows"), len(sizes))
    batches = []
    for first in range(0, len(sizes), size * pool):
        rows = shuffled[first : first + size * pool]
        ascending = rows[np.argsort(sizes[rows], kind="stable")]
        batches += [ascending[at : at + size] for at in range(0, len(ascending), size)]
    drawn = permutation(epoch_key(order, "batches"), len(batches))
    return [batches[at] for at in drawn.tolist()]


def forget_retain_batches(
    forget: Sequence[int], retain: int, size: int, order: bytes
) -> list[tuple[Index, Index]]:
    """Return pairs of batches: row numbers to forget, and equally many row numbers to retain.

    Both batches of a pair have the shape ``[size]``; one pair may be smaller. Rows to retain are
    shuffled and, if they are too few, repeated until each row to forget has a partner, as in the
    published code of TOFU and MUSE. Rows to retain are not sorted by length, so each row to forget
    is paired with a random row to retain.

    Args:
        forget: number of tokens of each row to forget.
        retain: number of rows to retain.
        size: number of rows to forget per batch, and of rows to retain per batch.
        order: random key of the epoch.

    Raises:
        PolicyError: there are no rows to retain.
    """
    if not retain:
        raise PolicyError(
            "the unlearning method needs rows to retain, but this client has no such rows",
            "change the partition of the texts, or choose a method that needs no rows to retain",
        )
    batches = bucketed_batches(forget, size, epoch_key(order, "forget"))
    cycled = np.resize(permutation(epoch_key(order, "retain"), retain), sum(map(len, batches)))
    ends = np.cumsum([len(batch) for batch in batches])[:-1]
    return list(zip(batches, np.split(cycled, ends), strict=True))


def epoch_key(order: bytes, purpose: str) -> bytes:
    """Derive the random key for one purpose from the key of an epoch."""
    return derive_key(0, order.hex(), purpose)
