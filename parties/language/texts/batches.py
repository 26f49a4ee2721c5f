"""Batches: which rows go together, and their ids padded to one width."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from parties.common.errors import PolicyError
from parties.common.shared_randomness import Index, key, permutation
from parties.language.texts.encoding import IGNORED, Encoded

POOL = 32  # batches whose rows are sorted by length together


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Rows to learn from, padded on the right.

    Attributes:
        ids: [batch, width] int64.
        mask: [batch, width] int64, 1 where a token is no padding.
        labels: [batch, width] int64, -100 where nothing is learned.
    """

    ids: Tensor
    mask: Tensor
    labels: Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Prompts:
    """Prompts to go on from, padded on the left; ``ids`` and ``mask`` as in ``Batch``."""

    ids: Tensor
    mask: Tensor


def training_batch(rows: Sequence[Encoded], pad: int) -> Batch:
    """Rows as one batch, as wide as the longest."""
    width = max(len(row.ids) for row in rows)
    ids, labels = np.full((len(rows), width), pad), np.full((len(rows), width), IGNORED)
    mask = np.zeros((len(rows), width), np.int64)
    for at, row in enumerate(rows):
        ids[at, : len(row.ids)], labels[at, : len(row.ids)] = row.ids, row.labels
        mask[at, : len(row.ids)] = 1
    return Batch(*map(torch.from_numpy, (ids, mask, labels)))


def prompt_batch(prompts: Sequence[Index], pad: int) -> Prompts:
    """Prompts as one batch that ends in their last tokens."""
    width = max(map(len, prompts))
    ids = np.full((len(prompts), width), pad)
    mask = np.zeros((len(prompts), width), np.int64)
    for at, prompt in enumerate(prompts):
        ids[at, width - len(prompt) :], mask[at, width - len(prompt) :] = prompt, 1
    return Prompts(torch.from_numpy(ids), torch.from_numpy(mask))


def bucketed(lengths: Sequence[int], size: int, order: bytes, pool: int = POOL) -> list[Index]:
    """Rows of every batch: shuffled, and sorted by length within pools of ``pool`` batches.

    Rows of like length lie together, so little is padded, and still every epoch brings others
    together. Every row comes once; all batches but one have ``size`` rows. ``order`` is the key of
    this epoch (``parties.common.shared_randomness.key``); ``pool`` 1 is a plain shuffle.
    """
    sizes = np.asarray(lengths, np.int64)
    shuffled = permutation(key_of(order, "rows"), len(sizes))
    batches = []
    for first in range(0, len(sizes), size * pool):
        rows = shuffled[first : first + size * pool]
        ascending = rows[np.argsort(sizes[rows], kind="stable")]
        batches += [ascending[at : at + size] for at in range(0, len(ascending), size)]
    return [batches[at] for at in permutation(key_of(order, "batches"), len(batches)).tolist()]


def paired(
    forget: Sequence[int], retain: int, size: int, order: bytes
) -> list[tuple[Index, Index]]:
    """Batches of rows to forget (whose lengths are given), each with as many of ``retain`` rows.

    Rows to keep are shuffled and cycled until the rows to forget are through, as the programs of
    the benchmarks do; they are not sorted, so that what goes with what stays a draw.

    Raises:
        PolicyError: there are no rows to keep.
    """
    if not retain:
        raise PolicyError(
            "there are no rows to keep beside those to forget",
            "another layout of the texts, or a method that needs none",
        )
    batches = bucketed(forget, size, key_of(order, "forget"))
    cycled = np.resize(permutation(key_of(order, "retain"), retain), sum(map(len, batches)))
    ends = np.cumsum([len(batch) for batch in batches])[:-1]
    return list(zip(batches, np.split(cycled, ends), strict=True))


def padding(lengths: Sequence[int], batches: Sequence[Index]) -> float:
    """The share of a run's tokens that is padding, between 0 and 1."""
    sizes = np.asarray(lengths, np.int64)
    computed = sum(len(batch) * int(sizes[batch].max()) for batch in batches)
    return 1.0 - int(sizes.sum()) / computed


def key_of(order: bytes, purpose: str) -> bytes:
    """The key of one draw of an epoch."""
    return key(0, order.hex(), purpose)
