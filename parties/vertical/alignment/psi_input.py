"""Input of the intersection: a party's IDs by bucket, and the results of complete buckets."""

from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from parties.common.errors import PolicyError
from parties.common.shared_randomness import Index
from parties.data.sources.arrays import Mask
from parties.vertical.alignment.bucket_store import (
    BucketStore,
    FolderBucketStore,
    MemoryBucketStore,
)
from parties.vertical.alignment.row_order import order_secret
from parties.vertical.engine.party import VerticalParty
from psi.alignment import OrderWords, order_words
from psi.buckets import split_into_buckets
from psi.id_list import CHUNK_IDS, IdList
from psi.ids import HASH_BYTES, bind_to_session, fingerprint_ids, refuse_duplicates
from psi.shared_types import Bytes

RowNumbers: TypeAlias = NDArray[np.uint32]  # of rows, or of places in a bucket

PSI = "psi"  # folder in the party's folder, during the intersection
NUMBER = 4  # bytes of a row number
RANKS_AT_ONCE = 1 << 20
OWN = HASH_BYTES + NUMBER  # bytes of a stored row: fingerprint and row number


class PsiInput:
    """This party's rows and the progress of one intersection.

    Rows that are known to be common do not cross the intersection. They are stored like the rows
    of one more bucket, after the buckets that are intersected.

    Attributes:
        ids: the IDs of this party that cross the intersection.
        size: the number of IDs that this party reports to its peers; it may exceed the number of
            ``ids``.
        skipped: the number of known rows, equal at all parties.
        completed: number of complete buckets.
        buckets: number of all buckets.
    """

    def __init__(self, party: VerticalParty, known: Mask | None = None) -> None:
        """Read the IDs of a party.

        Args:
            party: the party.
            known: [rows], True for own rows that are known to be common; None: there are none.

        Raises:
            PolicyError: the party has more rows than the agreement allows.
        """
        self._party = party
        self._secret = order_secret(party.agreement)
        self._all = IdList.of(party.holding.ids)
        self._known = np.zeros(len(self._all), np.bool_) if known is None else known
        self.skipped = int(np.count_nonzero(self._known))
        others = np.flatnonzero(~self._known)
        self.ids = IdList(self._all.take(others)) if self.skipped else self._all
        self.size = _declared(party, len(self._all)) - self.skipped
        marks = np.packbits(self._known).tobytes()
        key = sha256(party.digest + self._all.digest + marks).digest()
        self._folder = FolderBucketStore(party.state / PSI, key)
        self._store: BucketStore = self._folder
        self.completed, self.buckets = self._folder.completed, 1

    def begin(self, buckets: int, completed: int) -> None:
        """Set the number of buckets, and skip the first ``completed`` buckets."""
        self.buckets, self.completed = buckets, completed
        if buckets == 1:
            self._folder.remove()
            self._store = MemoryBucketStore()
        else:
            self._folder.begin(completed)

    def hash_ids(self) -> None:
        """Hash all IDs and assign the hashes to buckets.

        Raises:
            PsiError: two IDs are equal; the error names their rows.
        """
        parts = -(-len(self._all) // CHUNK_IDS)
        self._party.progress.phase("hashing IDs", parts)
        start = 0
        for prints in fingerprint_ids(self._all, self._secret):
            known = self._known[start : start + len(prints)]
            rows = np.flatnonzero(~known)
            for bucket, places in split_into_buckets(prints[rows], self.buckets):
                self._store.add_rows(bucket, _records(prints[rows[places]], start + rows[places]))
            rows = np.flatnonzero(known)
            self._store.add_rows(self.buckets, _records(prints[rows], start + rows))
            start += len(prints)
            self._party.progress.step()
        for bucket in range(self.buckets + 1):
            prints, numbers = self._read_own(bucket)
            refuse_duplicates(prints, self._party.name, numbers)

    @property
    def known_places(self) -> RowNumbers:
        """The positions of all known rows in the bucket after the last one: [known_rows]."""
        return np.arange(self.skipped, dtype=np.uint32)

    def check_claim(self, name: str, rows: int) -> int:
        """Check and return the number of IDs that a peer reports for this intersection.

        Raises:
            PolicyError: the number does not fit the peer's ``declared_rows``, or the peer has more
                rows than ``limits.rows``.
        """
        return check_claimed_rows(self._party, name, rows + self.skipped) - self.skipped

    def hashes(self, bucket: int, session: bytes) -> Bytes:
        """Hashes of this party's IDs in a bucket, [n, 16] uint8; the session ID is hashed too."""
        return bind_to_session(self._read_own(bucket)[0], session)

    def write_result(self, bucket: int, result: Bytes) -> None:
        """Store the result of a complete bucket, [k, width] uint8."""
        self._store.write_result(bucket, result)

    def read_result(self, bucket: int, width: int) -> Bytes:
        """The result of a complete bucket, [k, width] uint8."""
        return self._store.read_result(bucket, width)

    def rows(self, places: Sequence[RowNumbers]) -> RowNumbers:
        """This party's row numbers, [rows], of the rows at the positions ``places``.

        ``places`` contains one array, [bucket_rows], per bucket.
        """
        block = np.empty(sum(map(len, places)), np.uint32)
        start = 0
        for bucket, within in enumerate(places):
            self._read_own(bucket)[1].take(within, out=block[start : start + len(within)])
            start += len(within)
        return block

    def order_words(self, places: Sequence[RowNumbers], part: int) -> OrderWords:
        """The sort keys, [rows] uint64, of the rows at the positions ``places``.

        Args:
            places: positions of the rows in each bucket, one array [bucket_rows] per bucket.
            part: 0 for the sort keys, 1 for the words that decide between equal sort keys.
        """
        words = np.empty(sum(map(len, places)), np.uint64)
        start = 0
        for bucket, within in enumerate(places):
            prints = self._read_own(bucket)[0].take(within, axis=0)
            words[start : start + len(within)] = order_words(prints, self._secret, part)
            start += len(within)
        return words

    def fingerprints(self, places: Sequence[RowNumbers], ranks: RowNumbers) -> Iterator[Bytes]:
        """The fingerprints of rows, sorted by ``ranks``, in chunks of [chunk, 16] uint8.

        All buckets are read again for each chunk, so that only one chunk is in memory.

        Args:
            places: positions of the rows in each bucket, one array [bucket_rows] per bucket.
            ranks: [rows], the position of each row of ``places`` in the result.
        """
        for low in range(0, len(ranks), RANKS_AT_ONCE):
            block = np.empty((min(RANKS_AT_ONCE, len(ranks) - low), HASH_BYTES), np.uint8)
            start = 0
            for bucket, within in enumerate(places):
                here = ranks[start : start + len(within)] - np.uint32(low)  # wraps below low
                chosen = here < len(block)
                block[here[chosen]] = self._read_own(bucket)[0].take(within[chosen], axis=0)
                start += len(within)
            yield block

    def remove(self) -> None:
        """Delete the stored files."""
        self._folder.remove()

    def _read_own(self, bucket: int) -> tuple[Bytes, RowNumbers]:
        """Fingerprints, [n, 16] uint8, and own row numbers, [n], of a bucket."""
        records = self._store.read_rows(bucket, OWN)
        numbers = np.ascontiguousarray(records[:, HASH_BYTES:]).view("<u4").reshape(-1)
        return np.ascontiguousarray(records[:, :HASH_BYTES]), numbers


def _records(prints: Bytes, rows: Index) -> Bytes:
    numbers = rows.astype("<u4").view(np.uint8).reshape(-1, NUMBER)
    return np.concatenate([prints, numbers], axis=1)


def _declared(party: VerticalParty, rows: int) -> int:
    """The number of rows that peers see; raises ``PolicyError`` if the party has more."""
    declared = party.agreement.parties[party.name].declared_rows
    if declared is not None and rows > declared:
        raise PolicyError(
            f"{party.name} has more rows than its declared_rows = {declared}",
            f"raise parties.{party.name}.declared_rows in the agreement, or use fewer rows",
        )
    return check_row_limit(party, party.name, declared or rows)


def check_claimed_rows(party: VerticalParty, name: str, rows: int) -> int:
    """Check and return the number of rows that a peer claims.

    Raises:
        PolicyError: the number differs from the peer's ``declared_rows``, or exceeds
            ``limits.rows``.
    """
    declared = party.agreement.parties[name].declared_rows
    if declared not in (None, rows):
        raise PolicyError(
            f"{name} has {rows} rows, but its declared_rows is {declared} in the agreement",
            f"correct parties.{name}.declared_rows in the agreement",
        )
    return check_row_limit(party, name, rows)


def check_row_limit(party: VerticalParty, name: str, rows: int) -> int:
    """Check that ``rows`` is at most ``limits.rows``, and return ``rows``.

    The limit bounds the memory use, which grows with the number of rows of each peer.

    Raises:
        PolicyError: there are more rows than ``limits.rows``.
    """
    limit = party.agreement.limits.rows
    if rows > limit:
        raise PolicyError(
            f"{name} has {rows} rows, but the agreement allows at most limits.rows = {limit}",
            "raise limits.rows in the agreement, or use fewer rows",
        )
    return rows
