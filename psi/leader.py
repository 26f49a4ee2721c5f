"""The leader (active party) of a semi-honest run: the leader's steps per run and per bucket."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np

from psi.aes import KEY_BYTES
from psi.base_ot import answer_ot_offer
from psi.buckets import bucket_capacity, refuse_overflow
from psi.column_kernels import ColumnKernels, select_kernels
from psi.errors import PsiError
from psi.okvs import StoreLayout, StoreSlots, decode_slots, refuse_bad_store, store_layout
from psi.oprf import RowBits, bucket_position_key, column_positions, column_seed, leader_column
from psi.parameters import PsiParameters
from psi.shared_types import Bytes, ColumnPlaces, Entropy, Positions
from psi.single_use import BucketOrder, StepOrder
from psi.tags import sorted_tags

T = TypeVar("T")

KeyPairs = Sequence[tuple[bytes, bytes]]  # of the base OT: one pair of 16 bytes for each column

MATRIX_BLOCK_BYTES = 1 << 20  # most bytes of a block of the matrix; it has at least one column
BUCKET_STEPS = ("matrix_blocks", "the last block of the matrix", "receive_store", "finish")


@dataclass(frozen=True, slots=True, eq=False)
class CommonRows:
    """The common rows of one bucket, and the tags that the leader sends to each member."""

    rows: Positions = field(repr=False)  # [k] common rows as positions in the bucket, ascending
    tags: Mapping[str, Bytes] = field(repr=False)  # member → [k, 12] uint8, ascending


class PairState:
    """What the leader stores for one bucket and one member; ``keys`` are the base OT keys."""

    # Set by `evaluate`:
    _pads: Bytes  # [n, ℓ]
    _tags: Bytes  # [n, 12]

    def __init__(
        self, parameters: PsiParameters, count: int, keys: KeyPairs, kernels: ColumnKernels
    ) -> None:
        self.parameters = parameters
        self.steps = StepOrder(f"leader, with {parameters.member}", BUCKET_STEPS)
        self._keys = keys
        self._row_bits = RowBits(count, parameters.width, kernels)

    def mask(self, column: Bytes, where: ColumnPlaces) -> Bytes:
        """Return the next column Δ_j for the member, and store the leader's bits of column A_j.

        Args:
            column: D_j, packed bits, [m / 8] uint8.
            where: the positions of the leader's rows in the column, [n].

        Returns:
            The column Δ_j as packed bits, [m / 8] uint8.
        """
        j = self._row_bits.columns
        zero, one = (column_seed(key, self.parameters, j) for key in self._keys[j])
        own, delta = leader_column((zero, one), column)
        self._row_bits.read(own, where)
        return delta

    def evaluate(self) -> None:
        """Compute pads and tags of the leader's rows; delete the column bits and the OT keys."""
        self._pads, self._tags = self._row_bits.outputs(self.parameters)
        del self._row_bits, self._keys

    @property
    def layout(self) -> StoreLayout:
        """The shape and the hash functions of the member's store."""
        return store_layout(self.parameters)

    def residual(self, store: Bytes, slots: StoreSlots) -> Bytes:
        """Decode h(x) from the store for every ID x of the leader, and XOR the result with pad(x).

        The result is the zero share z(x) if the member has the ID x.

        Args:
            store: the member's store, [slots, ℓ] uint8.
            slots: for each of the n IDs of the leader, the slots of the store that the ID reads.

        Returns:
            [n, ℓ] uint8.

        Raises:
            PsiError: ``store`` is not a uint8 array of the declared shape.
        """
        refuse_bad_store(store, self.layout, self.parameters.member)
        return decode_slots(slots, np.ascontiguousarray(store)) ^ self._pads

    def tags(self, rows: Positions) -> Bytes:
        """The tags of ``rows`` [k]; the result, [k, 12] uint8, is sorted in ascending order."""
        return sorted_tags(self._tags, rows)


class LeaderBucket:
    """The leader's side of one bucket: send the matrix, receive the stores, find the common rows.

    Args:
        parameters: the parameters of the bucket, one entry per member.
        hashes: h(x) of the leader's rows in the bucket, [n, 16] uint8; n is at most the declared
            size.
        position_key: the OPRF key k of the run, the same for all members.
        keys: the key pairs of the base OT for each member.

    Raises:
        PsiError: there are more rows than declared.
    """

    def __init__(
        self,
        parameters: Sequence[PsiParameters],
        hashes: Bytes,
        position_key: bytes,
        keys: Mapping[str, KeyPairs],
    ) -> None:
        refuse_overflow("leader", len(hashes), parameters[0].leader_size)
        self._hashes = hashes
        self._position_key = bucket_position_key(position_key, parameters[0])
        self._kernels = select_kernels(parameters[0].buckets)
        self._pairs = {
            each.member: PairState(each, len(hashes), keys[each.member], self._kernels)
            for each in parameters
        }
        self._residual = np.zeros((len(hashes), parameters[0].check_bytes), np.uint8)
        self._slots: dict[StoreLayout, StoreSlots] = {}

    def matrix_blocks(self) -> Iterator[dict[str, Bytes]]:
        """Return matrix blocks: each maps members to their next columns, [columns, m / 8] uint8.

        A member whose matrix has fewer columns than the other matrices gets no columns in the last
        blocks. The caller must read the iterator to the end, because the leader computes the OPRF
        outputs after the last block.

        Raises:
            UsedTwice: the matrix was requested before.
        """
        self._take_for_all("matrix_blocks")
        return self._blocks()

    def receive_store(self, member: str, store: Bytes) -> None:
        """Decode the key-value ``store`` of ``member``, [slots, ℓ] uint8.

        Raises:
            PsiError: ``member`` is unknown, ``store`` has a wrong type or shape, or the last block
                of the matrix was not read yet.
            UsedTwice: the store of this member was received before.
        """
        pair = lookup_member(self._pairs, member)
        pair.steps.take("receive_store")
        self._residual ^= pair.residual(store, self._slots_of(pair.layout))

    def finish(self) -> CommonRows:
        """Return the common rows (possibly none), and the tags to send to each member.

        Raises:
            PsiError: a store is missing.
            UsedTwice: ``finish`` was called before.
        """
        self._take_for_all("finish")
        # KMPRT: on common rows ⊕_i (Decode(OKVS_i, h(x)) ⊕ pad_i(x)) = ⊕_i z_i(x) = 0.
        rows = np.flatnonzero(~self._residual.any(axis=1))
        return CommonRows(rows, {name: pair.tags(rows) for name, pair in self._pairs.items()})

    def _slots_of(self, layout: StoreLayout) -> StoreSlots:
        if layout not in self._slots:
            self._slots[layout] = layout.slots(self._hashes)
        return self._slots[layout]

    def _blocks(self) -> Iterator[dict[str, Bytes]]:
        rows, width = self._shape()
        per_block = max(1, MATRIX_BLOCK_BYTES // (rows // 8))
        session = next(iter(self._pairs.values())).parameters.session
        columns = column_positions(self._position_key, session, self._hashes, rows, self._kernels)
        for start in range(0, width, per_block):
            yield self._block(columns, start, min(start + per_block, width))
        self._take_for_all("the last block of the matrix")
        for pair in self._pairs.values():
            pair.evaluate()

    def _block(self, columns: Iterator[ColumnPlaces], start: int, stop: int) -> dict[str, Bytes]:
        masked: dict[str, list[Bytes]] = {member: [] for member in self._pairs}
        for j, where in zip(range(start, stop), columns, strict=False):
            # Chase and Miao, "precomputation": D_j[v[j]] = 0 for v = F_k(H₁(y)), y ∈ Y; else 1.
            column = self._kernels.pack_zeros(where, self._shape()[0])
            for member, pair in self._pairs.items():
                if j < pair.parameters.width:
                    masked[member].append(pair.mask(column, where))
        return {member: np.stack(deltas) for member, deltas in masked.items() if deltas}

    def _shape(self) -> tuple[int, int]:
        """The number m of rows and the largest width w of the members' matrices."""
        parameters = [pair.parameters for pair in self._pairs.values()]
        return parameters[0].rows, max(each.width for each in parameters)

    def _take_for_all(self, step: str) -> None:
        """Take ``step`` with every member, or with none."""
        for pair in self._pairs.values():
            pair.steps.require(step)
        for pair in self._pairs.values():
            pair.steps.take(step)


class PsiLeader:
    """The leader's side of one run: answer each member's base OT offer, then open each bucket.

    Args:
        size: the leader's declared number of IDs, public.
        sizes: the declared number of IDs of each member, public.
        session: 16 or more bytes, never used before, the same for all parties.
        buckets: the number of buckets, the same for all parties.
        entropy: the source of uniform random bytes.

    Raises:
        PsiError: ``sizes`` is empty, the session id is too short, a name is empty, or a size is out
            of range.
    """

    def __init__(
        self,
        *,
        size: int,
        sizes: Mapping[str, int],
        session: bytes,
        buckets: int = 1,
        entropy: Entropy = os.urandom,
    ) -> None:
        if not sizes:
            raise PsiError(
                "leader: the list of members is empty; expected at least one member",
                hint="declare the size of at least one member",
            )
        self._parameters = {
            member: PsiParameters(
                session=session,
                member=member,
                leader_size=bucket_capacity(size, buckets),
                member_size=bucket_capacity(member_size, buckets),
                buckets=buckets,
            )
            for member, member_size in sizes.items()
        }
        self._entropy = entropy
        self._position_key = entropy(KEY_BYTES)  # k of the OPRF, one for all members
        self._steps = {
            member: StepOrder(f"leader, with {member}", ("answer_offer", "open_bucket"))
            for member in sizes
        }
        self._bucket_order = BucketOrder("leader", buckets)
        self._keys: dict[str, KeyPairs] = {}

    def answer_offer(self, member: str, offer: bytes) -> bytes:
        """The OPRF key and the answer to the base OT ``offer`` of ``member``: 16 + 64 · w bytes.

        Raises:
            PsiError: ``member`` is unknown, or ``offer`` has a wrong length or an invalid point.
            UsedTwice: an offer of this member was answered before.
        """
        parameters = lookup_member(self._parameters, member)
        self._steps[member].take("answer_offer")
        result = answer_ot_offer(
            parameters.context("base-ot"), parameters.width, offer, self._entropy, member
        )
        self._keys[member] = result.keys
        return self._position_key + result.answer

    def open_bucket(self, number: int, hashes: Bytes) -> LeaderBucket:
        """Open bucket ``number``; ``hashes`` are h(x) of the leader's rows in it, [n, 16] uint8.

        The keys of the base OT are deleted when the last bucket is opened.

        Raises:
            PsiError: the offer of a member was not answered yet, no bucket has this number,
                or there are more rows than declared.
            UsedTwice: this bucket or a later one was opened before.
        """
        for steps in self._steps.values():
            steps.require("open_bucket")
        self._bucket_order.take(number)
        parameters = [replace(each, bucket=number) for each in self._parameters.values()]
        keys = self._keys
        if self._bucket_order.finished:
            self._keys = {}
        return LeaderBucket(parameters, hashes, self._position_key, keys)


def lookup_member(members: Mapping[str, T], member: str) -> T:
    """Return the entry of ``member`` in ``members``.

    Raises:
        PsiError: ``members`` has no entry for ``member``.
    """
    if member not in members:
        names = ", ".join(members)
        raise PsiError(f"{member!r} is not a member of this run", hint=f"the members are {names}")
    return members[member]
