"""A member (passive party) of a semi-honest run: the member's steps per run and per bucket."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from psi.aes import KEY_BYTES
from psi.base_ot import OtReceiverState, derive_chosen_keys, make_ot_offer
from psi.buckets import bucket_capacity, refuse_overflow
from psi.column_kernels import select_kernels
from psi.errors import PsiError
from psi.group import POINT_BYTES
from psi.okvs import encode_store, store_layout
from psi.oprf import RowBits, bucket_position_key, column_positions, column_seed, member_column
from psi.parameters import PsiParameters
from psi.shared_types import Bytes, Entropy
from psi.single_use import BucketOrder, StepOrder
from psi.zero_share import KeyExchange, KeyShare, zero_shares

MEMBER_STEPS = ("start", "make_offer", "receive_answer", "open_bucket")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MemberSecrets:
    """The secrets that a member uses in all buckets of a run."""

    position_key: bytes  # k of the OPRF
    keys: Sequence[bytes]  # of the base OT, one for each column
    bits: Bytes  # [w] choice bits s
    pair_keys: Sequence[bytes]  # K_ij with every other member


class MemberBucket:
    """A member's side of one bucket: receive the leader's matrix, then make the key-value store.

    Args:
        parameters: the parameters of the bucket.
        hashes: h(x) of this member's rows in the bucket, [n, 16] uint8; n is at most the declared
            size.
        secrets: the secrets of the run.
        entropy: the source of uniform random bytes.

    Raises:
        PsiError: there are more rows than declared.
    """

    tags: Bytes  # the tags of this member's rows, [n, 12] uint8; set by `make_store`

    def __init__(
        self, parameters: PsiParameters, hashes: Bytes, secrets: MemberSecrets, entropy: Entropy
    ) -> None:
        refuse_overflow(parameters.member, len(hashes), parameters.member_size)
        self._parameters, self._hashes, self._secrets = parameters, hashes, secrets
        self._entropy = entropy
        self._steps = StepOrder(parameters.member, ("make_store",))
        kernels = select_kernels(parameters.buckets)
        self._row_bits = RowBits(len(hashes), parameters.width, kernels)
        key = bucket_position_key(secrets.position_key, parameters)
        self._columns = column_positions(key, parameters.session, hashes, parameters.rows, kernels)

    def receive_block(self, block: Bytes) -> None:
        """Read the next columns Δ of the matrix, [columns, m / 8] uint8.

        Raises:
            PsiError: ``block`` has a wrong type or shape, or the matrix has more than w columns.
            UsedTwice: the store was made before.
        """
        self._steps.require("make_store")
        self._refuse_bad_block(block)
        for delta in block:
            j = self._row_bits.columns
            seed = column_seed(self._secrets.keys[j], self._parameters, j)
            column = member_column(seed, int(self._secrets.bits[j]), delta)
            self._row_bits.read(column, next(self._columns))

    @property
    def columns_left(self) -> int:
        """The number of columns of the matrix that are still missing."""
        return self._parameters.width - self._row_bits.columns

    def make_store(self) -> Bytes:
        """The key-value store for the leader, [slots, ℓ] uint8.

        The call also sets ``tags``, and deletes the member's secrets.

        Raises:
            PsiError: columns are missing, or the equations of the store have no solution
                (probability below 2⁻⁴⁰).
            UsedTwice: the store was made before.
        """
        self._steps.take("make_store")
        if self.columns_left:
            raise PsiError(
                f"leader: the matrix ended after {self._row_bits.columns} columns; "
                f"expected {self._parameters.width} columns"
            )
        parameters = self._parameters
        pads, self.tags = self._row_bits.outputs(parameters)
        values = pads ^ zero_shares(self._secrets.pair_keys, self._hashes, parameters.check_bytes)
        del self._secrets, self._row_bits
        return encode_store(store_layout(parameters), self._hashes, values, self._entropy)

    def _refuse_bad_block(self, block: Bytes) -> None:
        left, size = self.columns_left, self._parameters.rows // 8
        right_type = block.dtype == np.uint8 and block.ndim == 2
        if not right_type or block.shape[1] != size or not 1 <= len(block) <= left:
            raise PsiError(
                f"leader: a block of the matrix is an array of type {block.dtype} and shape "
                f"{list(block.shape)}; expected type uint8 and shape [1 to {left}, {size}]",
                hint="both sides must declare the same set sizes",
            )


class PsiMember(KeyShare):
    """A member's side of one run: make a base OT offer, receive the answer, open each bucket.

    Args:
        name: the member's own name.
        members: the names of all members, including ``name``, from the signed agreement. The names
            must not come from the leader: a leader that leaves out members could learn the
            intersection with a single member.
        session: 16 or more bytes, never used before, the same for all parties.
        entropy: the source of uniform random bytes.

    Raises:
        PsiError: a name is repeated, or ``name`` is not in ``members``.
    """

    # Set by `make_offer`:
    _pair_keys: list[bytes]
    _parameters: PsiParameters
    _bucket_order: BucketOrder
    _receiver: OtReceiverState
    # Set by `receive_answer`:
    _keys: list[bytes]
    _position_key: bytes

    def __init__(
        self,
        *,
        name: str,
        members: Sequence[str],
        session: bytes,
        entropy: Entropy = os.urandom,
    ) -> None:
        self._name, self._session, self._entropy = name, session, entropy
        self._key_exchange = KeyExchange(name, members, entropy)
        self._steps = StepOrder(name, MEMBER_STEPS)

    def make_offer(
        self, shares: Mapping[str, bytes], *, size: int, leader_size: int, buckets: int = 1
    ) -> bytes:
        """Return the member's offer for the base OT, 64 · w bytes.

        Args:
            shares: the public key shares of all members, with verified signatures.
            size: the member's declared number of IDs, public.
            leader_size: the leader's declared number of IDs, public.
            buckets: the number of buckets, the same for all parties.

        Raises:
            PsiError: a share is missing, unknown, changed or repeated, has a wrong length or is a
                point of small order; the session id is too short, or a size is out of range.
            UsedTwice: the offer was made before.
        """
        self._steps.take("make_offer")
        self._pair_keys = self._key_exchange.pair_keys(shares, self._session)
        self._bucket_order = BucketOrder(self._name, buckets)
        self._parameters = PsiParameters(
            session=self._session,
            member=self._name,
            leader_size=bucket_capacity(leader_size, buckets),
            member_size=bucket_capacity(size, buckets),
            buckets=buckets,
        )
        context = self._parameters.context("base-ot")
        self._receiver = make_ot_offer(context, self._parameters.width, self._entropy)
        return self._receiver.offer

    def receive_answer(self, answer: bytes) -> None:
        """Take the OPRF key from the leader's ``answer``; derive the base OT keys from the rest.

        ``answer`` has 16 + 64 · w bytes: first the OPRF key, then the answer of the base OT.

        Raises:
            PsiError: ``answer`` has a wrong length or an invalid point.
            UsedTwice: an answer was received before.
        """
        self._steps.take("receive_answer")
        expected = KEY_BYTES + 2 * POINT_BYTES * self._parameters.width
        if len(answer) != expected:
            raise PsiError(f"leader: the answer has {len(answer)} bytes, expected {expected}")
        context = self._parameters.context("base-ot")
        self._keys = derive_chosen_keys(context, self._receiver, answer[KEY_BYTES:])
        self._position_key = answer[:KEY_BYTES]

    def open_bucket(self, number: int, hashes: Bytes) -> MemberBucket:
        """Open bucket ``number``; ``hashes`` are h(x) of this member's rows in it, [n, 16] uint8.

        The keys of the run are deleted when the last bucket is opened.

        Raises:
            PsiError: no answer was received yet, there is no bucket with this number, or there are
                more rows than declared.
            UsedTwice: this bucket or a later one was opened before.
        """
        self._steps.require("open_bucket")
        self._bucket_order.take(number)
        parameters = replace(self._parameters, bucket=number)
        bits = self._receiver.bits
        secrets = MemberSecrets(self._position_key, self._keys, bits, self._pair_keys)
        if self._bucket_order.finished:
            del self._receiver, self._keys, self._pair_keys, self._key_exchange
        return MemberBucket(parameters, hashes, secrets, self._entropy)
