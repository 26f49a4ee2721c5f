"""Partition of one text corpus among simulated clients; some of the rows are to be forgotten.

The rows of the retain split have the lowest numbers, and the rows of the forget split follow, as in
TOFU's ``full``. Each client computes the whole partition and keeps only its own rows; every row
belongs to exactly one client. The rows of the forget split are flagged. Fine-tuning uses all rows
of a client, unlearning separates flagged from unflagged rows, and Retrain uses only unflagged rows.
Oblivionis (Zhang et al. 2025) does not specify the partition. The published code of Oblivionis
divides all rows into equal shards for fine-tuning, and then gives the whole forget split to client
0.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from parties.common.errors import PolicyError
from parties.common.shared_randomness import Index, derive_key, permutation
from parties.language.texts.tofu import QUESTIONS_EACH

Mask: TypeAlias = npt.NDArray[np.bool_]
PartitionKind: TypeAlias = Literal["shards", "one", "authors", "apart"]


@dataclass(frozen=True, slots=True)
class CorpusSizes:
    """Number of rows to retain, and number of rows to forget."""

    retain: int
    forget: int

    @property
    def rows(self) -> int:
        """Number of all rows."""
        return self.retain + self.forget


@dataclass(frozen=True, slots=True, eq=False)
class TextShare:
    """The rows of one client."""

    # Row numbers in ascending order, ``[rows]``; rows to retain have smaller numbers than rows to
    # forget.
    rows: Index
    forget: Mask  # ``[rows]``, True for rows of the forget split


def partition_rows(
    kind: PartitionKind, sizes: CorpusSizes, clients: int, seed: int, holders: Sequence[int] = (0,)
) -> tuple[TextShare, ...]:
    """Return the rows of each client.

    Args:
        kind: rule of the partition, as in the agreement.
        sizes: number of rows to retain and to forget.
        clients: number of clients.
        seed: seed of the shuffle.
        holders: clients that hold the rows to forget; used only if ``kind`` is "one" or "apart".

    Raises:
        PolicyError: the partition is impossible with these sizes, clients and holders.
    """
    match kind:
        case "shards":
            return equal_shards(sizes, clients, seed)
        case "one":
            return forget_rows_at_holders(sizes, clients, seed, holders)
        case "authors":
            return whole_authors(sizes, clients, seed)
        case "apart":
            return separate_forget_holders(sizes, clients, seed, holders)


def equal_shards(sizes: CorpusSizes, clients: int, seed: int) -> tuple[TextShare, ...]:
    """Shuffle all rows and divide them into equal shards; any client may receive rows to forget.

    Raises:
        PolicyError: there are fewer rows than clients.
    """
    order = permutation(derive_key(seed, "texts", "shards"), sizes.rows)
    return _shares(sizes, _split(order, clients))


def forget_rows_at_holders(
    sizes: CorpusSizes, clients: int, seed: int, holders: Sequence[int]
) -> tuple[TextShare, ...]:
    """Divide rows to forget among the clients ``holders``, and other rows among all clients.

    Raises:
        PolicyError: ``holders`` is empty, or contains an unknown client or a client twice; or there
            are too few rows for all clients or holders.
    """
    retained = _split(permutation(derive_key(seed, "texts", "retain"), sizes.retain), clients)
    parts = _with_forget_rows(sizes, clients, seed, holders, dict(enumerate(retained)))
    return _shares(sizes, parts)


def separate_forget_holders(
    sizes: CorpusSizes, clients: int, seed: int, holders: Sequence[int]
) -> tuple[TextShare, ...]:
    """Divide rows to forget among ``holders``, and other rows among the other clients (MUSE).

    Raises:
        PolicyError: ``holders`` is empty, or contains an unknown client, a client twice or all
            clients; or there are too few rows for all clients.
    """
    others = [client for client in range(clients) if client not in holders]
    if not others:
        raise PolicyError(
            "every client holds rows to forget, so no client remains for the rows to retain",
            "choose fewer holders, or set partition.kind = 'one'",
        )
    order = permutation(derive_key(seed, "texts", "retain"), sizes.retain)
    retained = dict(zip(others, _split(order, len(others)), strict=True))
    return _shares(sizes, _with_forget_rows(sizes, clients, seed, holders, retained))


def whole_authors(
    sizes: CorpusSizes, clients: int, seed: int, questions: int = QUESTIONS_EACH
) -> tuple[TextShare, ...]:
    """Divide whole authors among clients; each author has ``questions`` consecutive rows.

    Raises:
        PolicyError: the number of rows of a split is not a multiple of ``questions``, or there are
            fewer authors than clients.
    """
    if sizes.retain % questions or sizes.forget % questions:
        raise PolicyError(
            f"{sizes.retain} rows to retain and {sizes.forget} rows to forget cannot be divided "
            f"into authors with {questions} rows each",
            "use TOFU's complete splits, or set partition.kind = 'shards'",
        )
    order = permutation(derive_key(seed, "texts", "authors"), sizes.rows // questions)
    rows = np.arange(sizes.rows).reshape(-1, questions)
    return _shares(sizes, [rows[part].ravel() for part in _split(order, clients)])


def _with_forget_rows(
    sizes: CorpusSizes, clients: int, seed: int, holders: Sequence[int], retained: dict[int, Index]
) -> list[Index]:
    """The retained rows of each client, followed by rows to forget at their holders."""
    strangers = sorted(set(holders) - set(range(clients)))
    if strangers or not holders or len(set(holders)) < len(holders):
        raise PolicyError(
            f"rows to forget cannot be divided among the clients {list(holders)}; expected one or "
            f"more numbers of clients, each from 0 to {clients - 1} and at most once",
            f"list different clients from 0 to {clients - 1}",
        )
    order = sizes.retain + permutation(derive_key(seed, "texts", "forget"), sizes.forget)
    forgotten = dict(zip(holders, _split(order, len(holders)), strict=True))
    none = np.empty(0, np.int64)
    return [
        np.concatenate([retained.get(client, none), forgotten.get(client, none)])
        for client in range(clients)
    ]


def _split(order: Index, clients: int) -> list[Index]:
    if not 1 <= clients <= len(order):
        raise PolicyError(
            f"{len(order)} rows (authors if partition.kind = 'authors') cannot be divided among "
            f"{clients} clients",
            f"set a number of clients from 1 to {len(order)}",
        )
    return np.array_split(order, clients)


def _shares(sizes: CorpusSizes, parts: Sequence[Index]) -> tuple[TextShare, ...]:
    ascending = [np.sort(part) for part in parts]
    return tuple(TextShare(part, part >= sizes.retain) for part in ascending)
