"""The server's side of one masked sum: add masked vectors, and unmask the sum."""

from collections.abc import Mapping, Sequence

from Crypto.Protocol.SecretSharing import Shamir

from parties.horizontal.secure.masking.client import SHARED_BYTES, MaskingError, RevealedShares
from parties.horizontal.secure.masking.fixed_point import Words, mask_keystream
from parties.horizontal.secure.masking.pair_keys import MaskPublicKeys, pair_key, public_key_of


class MaskingServer:
    """One masked sum at the server.

    Args:
        members: names of all members, in the order that all parties use.
        public_keys: public keys of the members, by name.
        threshold: number of members that must reveal their shares.
        context: bytes that are unique to this sum.
    """

    def __init__(
        self,
        members: Sequence[str],
        public_keys: Mapping[str, MaskPublicKeys],
        threshold: int,
        context: bytes,
    ) -> None:
        self._members, self._public_keys = tuple(members), public_keys
        self._threshold, self._context = threshold, context
        self._total: Words | None = None
        self._present: list[str] = []

    @property
    def present(self) -> Sequence[str]:
        """Names of the members whose masked vectors arrived."""
        return self._present

    def add(self, name: str, masked: Words) -> None:
        """Add one client's masked vector, ``[n]``."""
        self._total = masked.copy() if self._total is None else self._total + masked
        self._present.append(name)

    def total(self, revealed: Mapping[str, RevealedShares]) -> Words:
        """Return the sum of the vectors of the members that are present, ``[n]``.

        Raises:
            MaskingError: too few members revealed their shares, or the shares are inconsistent.
        """
        if self._total is None or len(revealed) < self._threshold:
            raise MaskingError(
                f"{len(revealed)} members revealed shares, expected at least {self._threshold}"
            )
        total, size = self._total, len(self._total)
        for name in self._present:
            total = total - mask_keystream(self._combine(revealed, name, "seeds", 0), size)
        for lost in (name for name in self._members if name not in self._present):
            secret = b"".join(self._combine(revealed, lost, "keys", half) for half in (0, 1))
            if public_key_of(secret) != self._public_keys[lost].masking:
                raise MaskingError(
                    f"the private key that was computed from the revealed shares of {lost} does "
                    f"not match the public key of {lost}"
                )
            total = self._without(total, lost, secret)
        return total

    def _without(self, total: Words, lost: str, secret: bytes) -> Words:
        """Remove the masks that the present members share with a lost member."""
        place = self._members.index(lost)
        for name in self._present:
            key = pair_key(secret, self._public_keys[name].masking, b"mask" + self._context)
            mask = mask_keystream(key, len(total))
            total = total - mask if self._members.index(name) < place else total + mask
        return total

    def _combine(
        self, revealed: Mapping[str, RevealedShares], of: str, kind: str, half: int
    ) -> bytes:
        """A secret, combined from the revealed shares."""
        shares = [
            (
                self._members.index(name) + 1,
                getattr(each, kind)[of][half * SHARED_BYTES : (half + 1) * SHARED_BYTES],
            )
            for name, each in revealed.items()
            if of in getattr(each, kind)
        ]
        if len(shares) < self._threshold:
            raise MaskingError(
                f"the members revealed {len(shares)} shares of a secret of {of}, expected at least "
                f"{self._threshold}"
            )
        return bytes(Shamir.combine(shares[: self._threshold], ssss=False))
