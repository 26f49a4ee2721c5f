"""Who holds which texts, where one data set with rows to forget is dealt to simulated clients.

Rows are numbered through: first those of the retain split, then those of the forget split, as in
TOFU's ``full``. Every client deals by itself and keeps its own part; every row has one holder.
Fine-tuning reads all rows of a holding, unlearning parts them by the flag, Retrain reads only
those without it. Oblivionis (Zhang et al. 2025) leaves the split open; its released code deals
equal shards to fine-tune and then puts the whole forget split at client 0.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from parties.common.errors import PolicyError
from parties.common.shared_randomness import Index, key, permutation
from parties.language.texts.tofu import QUESTIONS_EACH

Mask: TypeAlias = npt.NDArray[np.bool_]
Layout: TypeAlias = Literal["shards", "one", "authors", "apart"]


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many rows there are to keep and to forget."""

    retain: int
    forget: int

    @property
    def rows(self) -> int:
        """All of them."""
        return self.retain + self.forget


@dataclass(frozen=True, slots=True, eq=False)
class Holding:
    """The rows of one client.

    Attributes:
        rows: ascending; those of the retain split first.
        forget: [rows], True where the row is of the forget split.
    """

    rows: Index
    forget: Mask

    @property
    def retained(self) -> Index:
        """The rows without the flag."""
        return self.rows[~self.forget]

    @property
    def forgotten(self) -> Index:
        """The rows with the flag."""
        return self.rows[self.forget]


def deal(
    layout: Layout, sizes: Sizes, clients: int, seed: int, holders: Sequence[int] = (0,)
) -> tuple[Holding, ...]:
    """A holding for every client; ``holders`` matter to ``one`` and ``apart`` only.

    Raises:
        PolicyError: the rows cannot be dealt so.
    """
    match layout:
        case "shards":
            return shards(sizes, clients, seed)
        case "one":
            return at_holders(sizes, clients, seed, holders)
        case "authors":
            return authors(sizes, clients, seed)
        case "apart":
            return apart(sizes, clients, seed, holders)


def shards(sizes: Sizes, clients: int, seed: int) -> tuple[Holding, ...]:
    """Equal shards of all rows after a seeded shuffle; a client forgets what it happens to hold.

    Raises:
        PolicyError: some client would hold nothing.
    """
    order = permutation(key(seed, "texts", "shards"), sizes.rows)
    return _holdings(sizes, _parts(order, clients))


def at_holders(
    sizes: Sizes, clients: int, seed: int, holders: Sequence[int]
) -> tuple[Holding, ...]:
    """All rows to forget at the named clients in equal parts; the others dealt to everybody.

    Raises:
        PolicyError: a holder is no client, or some client or holder would hold nothing.
    """
    retained = _parts(permutation(key(seed, "texts", "retain"), sizes.retain), clients)
    return _holdings(sizes, _joined(sizes, clients, seed, holders, dict(enumerate(retained))))


def apart(sizes: Sizes, clients: int, seed: int, holders: Sequence[int]) -> tuple[Holding, ...]:
    """A corpus to forget at the named clients and nothing else there (MUSE).

    Raises:
        PolicyError: a holder is no client, nobody is left to hold the others, or some client would
            hold nothing.
    """
    others = [client for client in range(clients) if client not in holders]
    if not others:
        raise PolicyError(
            "every client holds the corpus to forget, so nobody holds the other",
            "fewer holders, or the layout 'one'",
        )
    order = permutation(key(seed, "texts", "retain"), sizes.retain)
    dealt = dict(zip(others, _parts(order, len(others)), strict=True))
    return _holdings(sizes, _joined(sizes, clients, seed, holders, dealt))


def authors(
    sizes: Sizes, clients: int, seed: int, questions: int = QUESTIONS_EACH
) -> tuple[Holding, ...]:
    """Authors whole to clients: each has ``questions`` rows one after the other, as in TOFU.

    Raises:
        PolicyError: the splits do not end where an author ends, or some client would hold nothing.
    """
    if sizes.retain % questions or sizes.forget % questions:
        raise PolicyError(
            f"{sizes.retain} and {sizes.forget} rows are not whole authors of {questions} rows",
            "take TOFU's own splits whole, or the layout 'shards'",
        )
    order = permutation(key(seed, "texts", "authors"), sizes.rows // questions)
    rows = np.arange(sizes.rows).reshape(-1, questions)
    return _holdings(sizes, [rows[part].ravel() for part in _parts(order, clients)])


def _joined(
    sizes: Sizes, clients: int, seed: int, holders: Sequence[int], retained: dict[int, Index]
) -> list[Index]:
    """What everybody holds, and the rows to forget beside it at their holders."""
    strangers = sorted(set(holders) - set(range(clients)))
    if strangers or not holders or len(set(holders)) < len(holders):
        raise PolicyError(
            f"rows to forget cannot be dealt to the clients {list(holders)}",
            f"name some of 0 to {clients - 1}, each once",
        )
    order = sizes.retain + permutation(key(seed, "texts", "forget"), sizes.forget)
    forgotten = dict(zip(holders, _parts(order, len(holders)), strict=True))
    none = np.empty(0, np.int64)
    return [
        np.concatenate([retained.get(client, none), forgotten.get(client, none)])
        for client in range(clients)
    ]


def _parts(order: Index, clients: int) -> list[Index]:
    if not 1 <= clients <= len(order):
        raise PolicyError(
            f"{len(order)} rows or authors cannot be dealt to {clients} clients",
            "at least one client, and no more clients than there is to deal",
        )
    return np.array_split(order, clients)


def _holdings(sizes: Sizes, parts: Sequence[Index]) -> tuple[Holding, ...]:
    ascending = [np.sort(part) for part in parts]
    return tuple(Holding(part, part >= sizes.retain) for part in ascending)
