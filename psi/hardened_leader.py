"""The leader (active party) of a hardened run, who blinds IDs and verifies the members' proofs."""

import os
from collections.abc import Iterator, Sequence

import numpy as np

from psi.buckets import refuse_overflow
from psi.dleq import DleqStatement, verify_dleq
from psi.errors import PsiError
from psi.group import POINT_BYTES
from psi.hardened_oprf import blind_ids, hash_outputs, multiply_points, points_array
from psi.leader import CommonRows, lookup_member
from psi.okvs import decode_store, refuse_bad_store, store_layout
from psi.parallel import BLOCK_POINTS, ParallelMap, chunks, serial_map
from psi.parameters import PsiParameters
from psi.receive import PointReceiver
from psi.shared_types import Bytes, Entropy, Positions
from psi.single_use import StepOrder
from psi.tags import sorted_tags

RUN_STEPS = ("blind", "the last block of blinded IDs", "receive_evaluated")
PAIR_STEPS = ("verify_proof", "receive_store", "finish")


class HardenedPairState:
    """What the leader stores about one member during a hardened run."""

    # Set by `verify_proof`:
    _pads: Bytes  # [n, ℓ]
    _tags: Bytes  # [n, 12]

    def __init__(self, parameters: PsiParameters) -> None:
        self.parameters = parameters
        self.steps = StepOrder(f"leader, with {parameters.member}", PAIR_STEPS)
        name = f"{parameters.member}: evaluated IDs"
        self._evaluated = PointReceiver(name, parameters.leader_size)
        self._unblinded: list[bytes] = []

    @property
    def evaluated_left(self) -> int:
        """The number of evaluated IDs that are still missing."""
        return self._evaluated.left

    def receive_evaluated(
        self, block: Bytes, unblinders: bytearray, parallel_map: ParallelMap
    ) -> None:
        """Unblind the next evaluated IDs, ``block``, [n, 32] uint8.

        ``unblinders`` contains the scalars r⁻¹ of all rows.

        Raises:
            PsiError: ``block`` has a wrong type or shape, more points than declared, or an invalid
                point.
        """
        first = self._evaluated.received
        points = self._evaluated.add(block)
        at = first * POINT_BYTES
        scalars = bytes(unblinders[at : at + len(points)])
        self._unblinded.append(
            multiply_points(scalars, points, self._evaluated.what, first, parallel_map)
        )

    def verify_proof(
        self,
        blinded: bytes,
        ids: Sequence[bytes],
        claim: tuple[bytes, bytes],
        parallel_map: ParallelMap,
    ) -> None:
        """Verify ``claim``, a pair of commitment and proof, and then compute pads and tags.

        Raises:
            PsiError: evaluated IDs are missing, or the proof is invalid.
        """
        commitment, proof = claim
        context, evaluated = self.parameters.context("dleq"), self._evaluated.all_points()
        statement = DleqStatement(context, commitment, blinded, evaluated)
        verify_dleq(statement, proof, self.parameters.member, parallel_map)
        self._pads, self._tags = hash_outputs(self.parameters, ids, b"".join(self._unblinded))
        del self._evaluated, self._unblinded

    @property
    def slots(self) -> int:
        """The number of slots (rows) in the member's key-value store."""
        return store_layout(self.parameters).shape[0]

    def residual(self, store: Bytes, hashes: Bytes) -> Bytes:
        """Decode h(x) from the store for every ID x of the leader, and XOR the result with pad(x).

        The result is the zero share z(x) if the member has the ID x.

        Args:
            store: the member's store, [slots, ℓ] uint8.
            hashes: h(x) of the rows, [n, 16] uint8.

        Returns:
            [n, ℓ] uint8.

        Raises:
            PsiError: ``store`` is not a uint8 array of the declared shape.
        """
        layout = store_layout(self.parameters)
        refuse_bad_store(store, layout, self.parameters.member)
        values = decode_store(layout, np.ascontiguousarray(store), hashes)
        return values ^ self._pads[: len(hashes)]

    def tags(self, rows: Positions) -> Bytes:
        """The tags of ``rows`` [k]; the result, [k, 12] uint8, is sorted in ascending order."""
        return sorted_tags(self._tags, rows)


class HardenedLeader:
    """The leader's side of one run: send blinded IDs, verify proofs, receive stores, finish.

    Args:
        ids: normalised IDs without duplicates. The row number of an ID is its position in ``ids``.
        hashes: h(x) of every row, [n, 16] uint8.
        parameters: the public parameters, one entry per member. The leader always sends the
            declared number of blinded IDs, and adds random IDs if there are fewer ``ids``.
        entropy: the source of uniform random bytes.
        parallel_map: distributes the multiplications over workers.

    Raises:
        PsiError: ``parameters`` is empty, or there are more IDs than declared.
    """

    def __init__(
        self,
        ids: Sequence[bytes],
        hashes: Bytes,
        *,
        parameters: Sequence[PsiParameters],
        entropy: Entropy = os.urandom,
        parallel_map: ParallelMap = serial_map,
    ) -> None:
        if not parameters:
            raise PsiError(
                "leader: the list of members is empty; expected at least one member",
                hint="declare the size of at least one member",
            )
        size = parameters[0].leader_size
        refuse_overflow("leader", len(ids), size)
        # No member holds the random IDs: the probability of equal 32 random bytes is 2^-256.
        self._ids = [*ids, *(entropy(POINT_BYTES) for _ in range(size - len(ids)))]
        self._hashes, self._session = hashes, parameters[0].session
        self._entropy, self._parallel_map = entropy, parallel_map
        self._steps = StepOrder("leader", RUN_STEPS)
        self._blinded, self._unblinders = bytearray(), bytearray()
        self._pairs = {each.member: HardenedPairState(each) for each in parameters}
        self._residual = np.zeros((len(ids), parameters[0].check_bytes), np.uint8)

    def blind(self) -> Iterator[Bytes]:
        """The blinded IDs, the same for all members, in blocks of [n, 32] uint8.

        Raises:
            UsedTwice: the blinded IDs were requested before.
        """
        self._steps.take("blind")
        return self._blocks()

    def receive_evaluated(self, member: str, block: Bytes) -> None:
        """Unblind the next evaluated IDs of ``member``, [n, 32] uint8.

        Raises:
            PsiError: ``member`` is unknown; ``block`` has a wrong type or shape, more points than
                declared, or an invalid point; or the last block of blinded IDs was not read yet.
            UsedTwice: the proof of this member was verified before.
        """
        pair = lookup_member(self._pairs, member)
        pair.steps.require("verify_proof")
        self._steps.require("receive_evaluated")
        pair.receive_evaluated(block, self._unblinders, self._parallel_map)

    def verify_proof(self, member: str, commitment: bytes, proof: bytes) -> None:
        """Verify that ``member`` evaluated all blinded IDs with the key of the ``commitment``.

        Raises:
            PsiError: ``member`` is unknown, evaluated IDs are missing, or the proof is invalid.
            UsedTwice: a proof of this member was received before.
        """
        pair = lookup_member(self._pairs, member)
        pair.steps.take("verify_proof")
        claim = (commitment, proof)
        pair.verify_proof(bytes(self._blinded), self._ids, claim, self._parallel_map)

    def evaluated_left(self, member: str) -> int:
        """The number of evaluated IDs of ``member`` that are still missing."""
        return lookup_member(self._pairs, member).evaluated_left

    def slots(self, member: str) -> int:
        """The number of slots (rows) in the key-value store of ``member``."""
        return lookup_member(self._pairs, member).slots

    def receive_store(self, member: str, store: Bytes) -> None:
        """Decode the key-value ``store`` of ``member``, [slots, ℓ] uint8.

        Raises:
            PsiError: ``member`` is unknown, ``store`` has a wrong type or shape, or the proof of
                this member was not verified yet.
            UsedTwice: the store of this member was received before.
        """
        pair = lookup_member(self._pairs, member)
        pair.steps.take("receive_store")
        self._residual ^= pair.residual(store, self._hashes)

    def finish(self) -> CommonRows:
        """The common rows (possibly none), and the tags to send to each member.

        Raises:
            PsiError: the key-value store of a member has not been received yet.
            UsedTwice: `finish` was called before.
        """
        for pair in self._pairs.values():
            pair.steps.require("finish")
        for pair in self._pairs.values():
            pair.steps.take("finish")
        # KMPRT: on common rows ⊕_i (Decode(OKVS_i, h(x)) ⊕ pad_i(x)) = ⊕_i z_i(x) = 0.
        rows = np.flatnonzero(~self._residual.any(axis=1))
        return CommonRows(rows, {name: pair.tags(rows) for name, pair in self._pairs.items()})

    def _blocks(self) -> Iterator[Bytes]:
        for _, ids in chunks(self._ids, BLOCK_POINTS):
            points, unblinders = blind_ids(ids, self._session, self._entropy, self._parallel_map)
            self._blinded += points
            self._unblinders += unblinders
            yield points_array(points)
        self._steps.take("the last block of blinded IDs")
