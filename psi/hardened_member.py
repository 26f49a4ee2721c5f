"""A member of a hardened run: it answers as often as declared, with one key, and proves it."""

import os
from collections.abc import Iterator, Mapping, Sequence

from psi.blind import as_array, keyed, outputs, products
from psi.buckets import refuse_overflow
from psi.dleq import Statement, prove
from psi.group import POINT_BYTES, UNIFORM_BYTES, generated, random_scalar, split
from psi.intake import Intake
from psi.okvs import encode, layout
from psi.shared_types import Bytes, Entropy
from psi.shares import Shares
from psi.spread import BLOCK, Spread, alone
from psi.terms import Terms
from psi.turns import Turns
from psi.zero_share import zero_shares

STEPS = ("start", "answer", "prove", "store")


class HardenedMember:
    """One side of one run: start, hear every ask, answer, prove, store.

    Args:
        ids: normalised and without duplicates; row numbers are positions in this sequence.
        hashes: h(x) of every row, [n, 16] uint8.
        terms: its name, the session, and what both sides declared: so many asks of the leader are
            answered, and so large a store is made, whatever this member brings.
        members: the names of all, its own included: they come from the signed agreement and never
            from the leader, which could otherwise pretend that there is no other member and so
            learn a pairwise intersection.
        entropy: uniform bytes, as many as asked for.
        spread: shares the multiplications out among workers.

    Raises:
        PsiError: the own set is larger than declared, or the names are bad.
    """

    tags: Bytes  # [n, 12], of the own rows, once the store is made

    # What each step leaves for later ones.
    _pair_keys: list[bytes]  # answer

    def __init__(
        self,
        ids: Sequence[bytes],
        hashes: Bytes,
        *,
        terms: Terms,
        members: Sequence[str],
        entropy: Entropy = os.urandom,
        spread: Spread = alone,
    ) -> None:
        name = terms.member
        refuse_overflow(name, len(ids), terms.member_size)
        self._ids, self._hashes, self._terms = ids, hashes, terms
        self._entropy, self._spread = entropy, spread
        self._turns = Turns(name, STEPS)
        self._shares = Shares(name, members, entropy)
        self._key = random_scalar(entropy(UNIFORM_BYTES))  # k, of this run alone
        self._asks = Intake("leader: asks", terms.leader_size)
        self._answers: list[bytes] = []

    def start(self) -> bytes:
        """The public X25519 share, 32 bytes: sign it with the party's identity key.

        Raises:
            UsedTwice: the run was started before.
        """
        self._turns.take("start")
        return self._shares.public

    @property
    def asks_left(self) -> int:
        """How many asks are still to come."""
        return self._asks.left

    def asked(self, block: Bytes) -> None:
        """Take the leader's next asks C, [n, 32] uint8, and work out the answers.

        Raises:
            PsiError: a wrong type or shape, more asks than the leader declared, or a bad point.
            UsedTwice: the answers were given before.
        """
        self._turns.require("answer")
        first = self._asks.seen
        points = self._asks.take(block)
        self._answers.append(products(self._key, points, self._asks.whose, first, self._spread))

    def answer(self, shares: Mapping[str, bytes]) -> Iterator[Bytes]:
        """The answers D in blocks [n, 32] uint8, once the ``shares`` of all members are verified.

        Raises:
            PsiError: asks are missing; a share is missing, unknown, changed, repeated, too long or
                of small order.
            UsedTwice: they were given before.
        """
        self._turns.take("answer")
        self._asks.whole()
        self._pair_keys = self._shares.pair_keys(shares, self._terms.session)
        whole = b"".join(self._answers)
        return map(as_array, split(whole, BLOCK * POINT_BYTES))

    def prove(self) -> tuple[bytes, bytes]:
        """The commitment to the key, 32 bytes, and the proof that it gave all answers, 64 bytes.

        Raises:
            UsedTwice: it was proved before.
        """
        self._turns.take("prove")
        commitment = generated(self._key)
        asked, answered = self._asks.whole(), b"".join(self._answers)
        statement = Statement(self._terms.context("dleq"), commitment, asked, answered)
        del self._asks, self._answers
        return commitment, prove(statement, self._key, self._entropy, self._spread)

    def store(self) -> Bytes:
        """The key-value store for the leader, [slots, ℓ] uint8.

        From here on ``tags`` are known; the keys are dropped.

        Raises:
            PsiError: the store has no solution (probability below 2⁻⁴⁰).
            UsedTwice: the store was made before.
        """
        self._turns.take("store")
        terms = self._terms
        points = keyed(self._ids, terms.session, self._key, self._spread)
        pads, self.tags = outputs(terms, self._ids, points)
        values = pads ^ zero_shares(self._pair_keys, self._hashes, terms.check_bytes)
        del self._key, self._pair_keys, self._shares
        return encode(layout(terms), self._hashes, values, self._entropy)
