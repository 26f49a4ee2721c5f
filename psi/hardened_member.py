"""A member (passive party) of a hardened run, who proves that one key evaluated all blinded IDs."""

import os
from collections.abc import Iterator, Mapping, Sequence

from psi.buckets import refuse_overflow
from psi.dleq import DleqStatement, prove_dleq
from psi.group import (
    POINT_BYTES,
    UNIFORM_BYTES,
    multiply_generator,
    scalar_from_uniform,
    split_bytes,
)
from psi.hardened_oprf import evaluate_ids, hash_outputs, multiply_points, points_array
from psi.okvs import encode_store, store_layout
from psi.parallel import BLOCK_POINTS, ParallelMap, serial_map
from psi.parameters import PsiParameters
from psi.receive import PointReceiver
from psi.shared_types import Bytes, Entropy
from psi.single_use import StepOrder
from psi.zero_share import KeyExchange, KeyShare, zero_shares

HARDENED_MEMBER_STEPS = ("start", "evaluate", "prove", "make_store")


class HardenedMember(KeyShare):
    """A member's side of one run: start, receive blinded IDs, evaluate, prove, make the store.

    Args:
        ids: normalised IDs without duplicates. The row number of an ID is its position in ``ids``.
        hashes: h(x) of every row, [n, 16] uint8.
        parameters: the public parameters. The leader's declared size is the number of blinded IDs,
            and the member's declared size determines the size of the store.
        members: the names of all members, including this member, from the signed agreement. The
            names must not come from the leader: a leader that leaves out members could learn the
            intersection with a single member.
        entropy: the source of uniform random bytes.
        parallel_map: distributes the multiplications over workers.

    Raises:
        PsiError: there are more IDs than declared, a name is repeated, or the name of this member
            is not in ``members``.
    """

    tags: Bytes  # the tags of this member's rows, [n, 12] uint8; set by `make_store`

    # Set by `evaluate`:
    _pair_keys: list[bytes]

    def __init__(
        self,
        ids: Sequence[bytes],
        hashes: Bytes,
        *,
        parameters: PsiParameters,
        members: Sequence[str],
        entropy: Entropy = os.urandom,
        parallel_map: ParallelMap = serial_map,
    ) -> None:
        name = parameters.member
        refuse_overflow(name, len(ids), parameters.member_size)
        self._ids, self._hashes, self._parameters = ids, hashes, parameters
        self._entropy, self._parallel_map = entropy, parallel_map
        self._steps = StepOrder(name, HARDENED_MEMBER_STEPS)
        self._key_exchange = KeyExchange(name, members, entropy)
        self._key = scalar_from_uniform(entropy(UNIFORM_BYTES))  # k, of this run only
        self._blinded = PointReceiver("leader: blinded IDs", parameters.leader_size)
        self._evaluated: list[bytes] = []

    @property
    def blinded_left(self) -> int:
        """The number of blinded IDs that are still missing."""
        return self._blinded.left

    def receive_blinded(self, block: Bytes) -> None:
        """Receive the leader's next blinded IDs C, [n, 32] uint8, and multiply them by the key.

        Raises:
            PsiError: ``block`` has a wrong type or shape, more points than the leader declared, or
                an invalid point.
            UsedTwice: the evaluated IDs were requested before.
        """
        self._steps.require("evaluate")
        first = self._blinded.received
        points = self._blinded.add(block)
        self._evaluated.append(
            multiply_points(self._key, points, self._blinded.what, first, self._parallel_map)
        )

    def evaluate(self, shares: Mapping[str, bytes]) -> Iterator[Bytes]:
        """The evaluated IDs D for the leader, in blocks of [n, 32] uint8.

        ``shares`` are the public key shares of all members, with verified signatures.

        Raises:
            PsiError: blinded IDs are missing; or a share is missing, unknown, changed or repeated,
                has a wrong length or is a point of small order.
            UsedTwice: the evaluated IDs were requested before.
        """
        self._steps.take("evaluate")
        self._blinded.all_points()
        self._pair_keys = self._key_exchange.pair_keys(shares, self._parameters.session)
        points = b"".join(self._evaluated)
        return map(points_array, split_bytes(points, BLOCK_POINTS * POINT_BYTES))

    def prove(self) -> tuple[bytes, bytes]:
        """The key's commitment, 32 bytes, and the proof that the key evaluated all IDs, 64 bytes.

        Raises:
            UsedTwice: the proof was made before.
        """
        self._steps.take("prove")
        commitment = multiply_generator(self._key)
        blinded, evaluated = self._blinded.all_points(), b"".join(self._evaluated)
        statement = DleqStatement(self._parameters.context("dleq"), commitment, blinded, evaluated)
        del self._blinded, self._evaluated
        return commitment, prove_dleq(statement, self._key, self._entropy, self._parallel_map)

    def make_store(self) -> Bytes:
        """The key-value store for the leader, [slots, ℓ] uint8.

        The call also sets ``tags``, and deletes the member's secret keys.

        Raises:
            PsiError: the equations of the store have no solution (probability below 2⁻⁴⁰).
            UsedTwice: the store was made before.
        """
        self._steps.take("make_store")
        parameters = self._parameters
        points = evaluate_ids(self._ids, parameters.session, self._key, self._parallel_map)
        pads, self.tags = hash_outputs(parameters, self._ids, points)
        values = pads ^ zero_shares(self._pair_keys, self._hashes, parameters.check_bytes)
        del self._key, self._pair_keys, self._key_exchange
        return encode_store(store_layout(parameters), self._hashes, values, self._entropy)
