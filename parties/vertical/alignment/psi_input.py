"""What a party brings to the intersection: its IDs by bucket, and the results of whole buckets."""

from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from parties.common.errors import PolicyError
from parties.common.shared_randomness import Index
from parties.session.party import Party
from parties.vertical.alignment.bucket_store import InFolder, InMemory, Kept
from psi.buckets import cut
from psi.id_list import AT_ONCE, IdList
from psi.ids import HASH_BYTES, bound, fingerprints, refuse_duplicates
from psi.shared_types import Bytes

Numbers: TypeAlias = NDArray[np.uint32]  # of rows, or of places in a bucket

PSI = "psi"  # the folder, in the party's own, while the intersection lasts
NUMBER = 4  # bytes of a row number
RANKS_AT_ONCE = 1 << 20
OWN = HASH_BYTES + NUMBER  # bytes of a row as it is laid out: fingerprint and row number


class Brought:
    """The own rows and the state of one intersection.

    Raises:
        PolicyError: more rows than the agreement declares or allows.
    """

    def __init__(self, party: Party) -> None:
        self._party = party
        self.ids = IdList.of(party.holding.ids)
        self.size = _declared(party, len(self.ids))
        key = sha256(party.digest + self.ids.digest).digest()
        self._folder = InFolder(party.state / PSI, key)
        self._kept: Kept = self._folder
        self.done, self.buckets = self._folder.done, 1

    def begin(self, buckets: int, done: int) -> None:
        """Go on behind the first ``done`` of ``buckets`` buckets."""
        self.buckets, self.done = buckets, done
        if buckets == 1:
            self._folder.remove()
            self._kept = InMemory()
        else:
            self._folder.begin(done)

    def lay_out(self) -> None:
        """Hash all IDs and sort them into buckets.

        Raises:
            PsiError: two IDs are equal; it names rows.
        """
        parts = -(-len(self.ids) // AT_ONCE)
        self._party.watch.phase("hashing IDs", parts)
        start = 0
        for prints in fingerprints(self.ids, self._party.digest):
            for bucket, places in cut(prints, self.buckets):
                self._kept.lay(bucket, _records(prints[places], start + places))
            start += len(prints)
            self._party.watch.step()
        for bucket in range(self.buckets):
            prints, rows = self._own(bucket)
            refuse_duplicates(prints, self._party.name, rows)

    def hashes(self, bucket: int, session: bytes) -> Bytes:
        """h(x) of the own rows in ``bucket``: [n, 16] uint8."""
        return bound(self._own(bucket)[0], session)

    def keep(self, bucket: int, result: Bytes) -> None:
        """``bucket`` is complete, with one line of ``result`` for each row of it."""
        self._kept.keep(bucket, result)

    def kept(self, bucket: int, width: int) -> Bytes:
        """What was kept of a complete bucket: [k, width] uint8."""
        return self._kept.kept(bucket, width)

    def rows(self, places: Sequence[Numbers]) -> Numbers:
        """The row numbers of rows that are named by their ``places`` in each bucket."""
        found = np.empty(sum(map(len, places)), np.uint32)
        start = 0
        for bucket, within in enumerate(places):
            self._own(bucket)[1].take(within, out=found[start : start + len(within)])
            start += len(within)
        return found

    def prints(self, places: Sequence[Numbers], ranks: Numbers) -> Iterator[Bytes]:
        """The fingerprints of the same rows, each at its rank, in parts.

        Reading all buckets once for each part keeps but one part in memory.
        """
        for low in range(0, len(ranks), RANKS_AT_ONCE):
            found = np.empty((min(RANKS_AT_ONCE, len(ranks) - low), HASH_BYTES), np.uint8)
            start = 0
            for bucket, within in enumerate(places):
                here = ranks[start : start + len(within)] - np.uint32(low)  # wraps below low
                chosen = here < len(found)
                found[here[chosen]] = self._own(bucket)[0].take(within[chosen], axis=0)
                start += len(within)
            yield found

    def remove(self) -> None:
        """Forget all of it."""
        self._folder.remove()

    def _own(self, bucket: int) -> tuple[Bytes, Numbers]:
        """Fingerprints and row numbers of the own rows in ``bucket``."""
        laid = self._kept.laid(bucket, OWN)
        numbers = np.ascontiguousarray(laid[:, HASH_BYTES:]).view("<u4").reshape(-1)
        return np.ascontiguousarray(laid[:, :HASH_BYTES]), numbers


def _records(prints: Bytes, rows: Index) -> Bytes:
    numbers = rows.astype("<u4").view(np.uint8).reshape(-1, NUMBER)
    return np.concatenate([prints, numbers], axis=1)


def _declared(party: Party, rows: int) -> int:
    """The number of rows that peers see."""
    declared = party.agreement.parties[party.name].declared_rows
    if declared is not None and rows > declared:
        raise PolicyError(
            f"{party.name} brings more rows than its declared_rows = {declared}",
            "raise parties.<name>.declared_rows in the agreement, or bring fewer rows",
        )
    return not_too_many(party, party.name, declared or rows)


def claimed(party: Party, who: str, rows: int) -> int:
    """The number of rows that ``who`` says it brings, if it may.

    Raises:
        PolicyError: it is not what the agreement declares, or more than it allows.
    """
    declared = party.agreement.parties[who].declared_rows
    if declared not in (None, rows):
        raise PolicyError(f"{who} brings {rows} rows; its declared_rows = {declared}")
    return not_too_many(party, who, rows)


def not_too_many(party: Party, who: str, rows: int) -> int:
    """Memory grows with what others say they bring, so the agreement bounds it."""
    most = party.agreement.limits.rows
    if rows > most:
        raise PolicyError(f"{who} brings {rows} rows; limits.rows = {most}")
    return rows
