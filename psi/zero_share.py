"""Zero sharing: on rows that all members have, the XOR of all members' values is zero.

The method is the unconditional zero-sharing of Kolesnikov, Matania, Pinkas, Rosulek and Trieu
(KMPRT, CCS 2017). Every two members i and j share a key K_ij. Member i computes the value
z_i(x) = ⊕_{j≠i} F(K_ij, x). The XOR of all members' values contains each F(K_ij, x) twice, so it is
zero. The members agree on the keys K_ij by X25519; each member has one key share per run.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from psi.aes import KEY_BYTES, encrypt_blocks
from psi.domain import labelled_bytes
from psi.errors import PsiError
from psi.shared_types import Bytes, Entropy
from psi.single_use import StepOrder

SHARE_BYTES = 32


class KeyExchange:
    """One member's side of the key agreement among all members.

    ``members`` are the names of all members from the agreement; ``name`` is one of them.

    Attributes:
        public: the member's public key share, 32 bytes.

    Raises:
        PsiError: a name is repeated, or ``name`` is not in ``members``.
    """

    def __init__(self, name: str, members: Sequence[str], entropy: Entropy) -> None:
        if name not in members or len(set(members)) != len(members):
            raise PsiError(
                f"{name}: the list of members contains a name twice, or does not contain {name}"
            )
        self._name, self._members = name, tuple(members)
        self._private = X25519PrivateKey.from_private_bytes(entropy(SHARE_BYTES))
        self.public = self._private.public_key().public_bytes_raw()

    def pair_keys(self, shares: Mapping[str, bytes], session: bytes) -> list[bytes]:
        """Return the keys K_ij that this member shares with each of the other members.

        ``shares`` are the public key shares of all members by name. The caller must have verified
        the signatures of the shares.

        Raises:
            PsiError: a share is missing, unknown, changed or repeated, has a wrong length, or is
                a point of small order.
        """
        self._refuse_bad(shares)
        return [
            zero_share_key(self._private, shares, session, (self._name, other))
            for other in self._members
            if other != self._name
        ]

    def _refuse_bad(self, shares: Mapping[str, bytes]) -> None:
        if set(shares) != set(self._members):
            raise PsiError(
                f"{self._name}: got {len(shares)} public key shares, expected one from each member",
                hint=f"the members are {', '.join(self._members)}",
            )
        for member, share in shares.items():
            if len(share) != SHARE_BYTES:
                raise PsiError(
                    f"{member}: the public key share has {len(share)} bytes, expected {SHARE_BYTES}"
                )
        if shares[self._name] != self.public:
            raise PsiError(
                f"{self._name}: the leader relayed a public key share of {self._name} that "
                f"differs from the share that {self._name} sent",
                hint="the leader, who relays the shares, is faulty or dishonest",
            )
        if len(set(shares.values())) != len(shares):
            raise PsiError(f"{self._name}: received the same public key share from two members")


class KeyShare:
    """The first step of a member's run, in which the member sends its public key share."""

    _steps: StepOrder
    _key_exchange: KeyExchange

    def start(self) -> bytes:
        """Return the member's public X25519 key share, 32 bytes.

        The caller must sign the share with the party's identity key.

        Raises:
            UsedTwice: the run was started before.
        """
        self._steps.take("start")
        return self._key_exchange.public


def zero_share_key(
    private: X25519PrivateKey, shares: Mapping[str, bytes], session: bytes, names: tuple[str, str]
) -> bytes:
    """Return the key K_ij, 16 bytes, of two members; both members compute the same key.

    ``names`` are the name of this member and the name of the other member.

    Raises:
        PsiError: the other member's share is a point of small order.
    """
    try:
        secret = private.exchange(X25519PublicKey.from_public_bytes(shares[names[1]]))
    except ValueError:
        raise PsiError(f"{names[1]}: the public key share is a point of small order") from None
    parts = [part for name in sorted(names) for part in (name.encode(), shares[name])]
    info = labelled_bytes("zero-share", *parts)
    return HKDF(SHA256(), KEY_BYTES, salt=session, info=info).derive(secret)


def zero_shares(keys: Iterable[bytes], hashes: Bytes, size: int) -> Bytes:
    """Return the zero share z_i(x) for each hash h(x) in ``hashes`` [n, 16]: [n, size] uint8.

    ``keys`` are the keys K_ij. F is AES of h(x) under a key K_ij, cut to ``size`` bytes.
    """
    total = np.zeros((len(hashes), size), np.uint8)
    for key in keys:
        total ^= encrypt_blocks(key, hashes)[:, :size]
    return total
