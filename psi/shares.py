"""The shares of the members: one X25519 key each for a run, and the pair keys that follow."""

from collections.abc import Mapping, Sequence

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from psi.errors import PsiError
from psi.shared_types import Entropy
from psi.zero_share import SHARE_BYTES, pair_key


class Shares:
    """One member's private share, and what it makes of all public ones.

    ``members`` are the names of all, ``name`` included, from the agreement.

    Raises:
        PsiError: the names are bad.
    """

    def __init__(self, name: str, members: Sequence[str], entropy: Entropy) -> None:
        if name not in members or len(set(members)) != len(members):
            raise PsiError(f"{name}: the members must be different names, {name} among them")
        self._name, self._members = name, tuple(members)
        self._private = X25519PrivateKey.from_private_bytes(entropy(SHARE_BYTES))
        self.public = self._private.public_key().public_bytes_raw()

    def pair_keys(self, shares: Mapping[str, bytes], session: bytes) -> list[bytes]:
        """One key with every other member, from the verified public ``shares`` of all.

        Raises:
            PsiError: a share is missing, unknown, changed, repeated, too long or of small order.
        """
        self._refuse_bad(shares)
        return [
            pair_key(self._private, shares, session, (self._name, other))
            for other in self._members
            if other != self._name
        ]

    def _refuse_bad(self, shares: Mapping[str, bytes]) -> None:
        if set(shares) != set(self._members):
            raise PsiError(
                f"{self._name}: got {len(shares)} public shares, not one of each member",
                hint=f"the members are {', '.join(self._members)}",
            )
        for member, share in shares.items():
            if len(share) != SHARE_BYTES:
                raise PsiError(f"{member}: public share has {len(share)} bytes, legal are 32")
        if shares[self._name] != self.public:
            raise PsiError(f"{self._name}: its own public share came back changed")
        if len(set(shares.values())) != len(shares):
            raise PsiError(f"{self._name}: two members sent the same public share")
