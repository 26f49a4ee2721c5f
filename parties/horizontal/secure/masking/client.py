"""A client's side of one sum: say keys, share secrets, mask a vector, open what the sum needs."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from Crypto.Protocol.SecretSharing import Shamir
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from parties.horizontal.secure.masking.fixed_point import Words, keystream
from parties.horizontal.secure.masking.pair_keys import (
    KEY,
    SECRET,
    Entropy,
    Publics,
    pair_key,
    public,
)

NONCE = bytes(12)  # each sealing key is of one pair, one sum and one direction
HALF = 16  # bytes of what Shamir's library shares


class MaskingError(ValueError):
    """Somebody asks for what would open a single vector, or a share is not what was sealed."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A client's shares of what the sum needs: of seeds of who is there, of keys of who is gone."""

    seeds: Mapping[str, bytes]
    keys: Mapping[str, bytes]


class MaskingClient:
    """One client in one sum.

    Args:
        members: all who take part, ``name`` among them, in the same order everywhere.
        threshold: how many must be there at the end.
        context: session and round, which every key is bound to.
    """

    def __init__(
        self, name: str, members: Sequence[str], threshold: int, context: bytes, entropy: Entropy
    ) -> None:
        if not len(members) // 2 < threshold <= len(members):
            raise MaskingError(f"{threshold} of {len(members)} is no majority")
        self._name, self._members, self._threshold = name, tuple(members), threshold
        self._context = context
        self._seed = entropy(KEY)
        self._masking, self._sealing = entropy(SECRET), entropy(SECRET)
        self._publics: Mapping[str, Publics] = {}
        self._masked = self._opened = False

    @property
    def publics(self) -> Publics:
        """What to say first."""
        return Publics(public(self._masking), public(self._sealing))

    def shares(self, publics: Mapping[str, Publics]) -> dict[str, bytes]:
        """Sealed shares of our secrets for every other member, once all publics are verified.

        Raises:
            MaskingError: ours came back changed, or some are missing, or it is asked for twice:
                another text under the key of a pair would give that key's tags away.
        """
        if self._publics:
            raise MaskingError("a second dealing of shares in one sum")
        if set(publics) != set(self._members) or publics[self._name] != self.publics:
            raise MaskingError("the members' keys are not complete, or ours came back changed")
        self._publics = dict(publics)
        count = len(self._members)
        parts = [
            dict(Shamir.split(self._threshold, count, half, ssss=False))
            for half in (self._seed, self._masking[:HALF], self._masking[HALF:])
        ]
        sealed = {}
        for place, other in enumerate(self._members, start=1):
            told = b"".join(part[place] for part in parts)
            if other == self._name:
                self._own = told
            else:
                sealed[other] = AESGCM(self._sealing_key(other, self._name)).encrypt(
                    NONCE, told, self._context
                )
        return sealed

    def masked(self, vector: Words) -> Words:
        """The vector with a mask of our own, and one for each pair that the sum cancels; said once.

        Raises:
            MaskingError: it is asked for twice.
        """
        if self._masked:
            raise MaskingError("two vectors under one mask: their difference would be bare")
        self._masked = True
        total = vector + keystream(self._seed, len(vector))
        ours = self._members.index(self._name)
        for place, other in enumerate(self._members):
            if place != ours:
                mask = keystream(self._pair(other), len(vector))
                total = total + mask if ours < place else total - mask
        return total

    def opened(self, sealed: Mapping[str, bytes], there: Collection[str]) -> Opened:
        """Our shares of what the sum of those who are ``there`` needs; said once.

        Raises:
            MaskingError: it is asked for twice, too few are there, or a share was changed.
        """
        if self._opened:
            raise MaskingError("a second opening of one sum would show a single vector")
        strangers = set(there) - set(self._members)
        if strangers or self._name not in there or len(set(there)) < self._threshold:
            raise MaskingError(f"{len(set(there))} are there, and {self._threshold} are needed")
        self._opened = True
        told = {self._name: self._own}
        for other, text in sealed.items():
            try:
                told[other] = AESGCM(self._sealing_key(self._name, other)).decrypt(
                    NONCE, text, self._context
                )
            except InvalidTag:
                raise MaskingError(f"the share of {other} is not what it sealed") from None
        seeds = {name: each[:HALF] for name, each in told.items() if name in there}
        keys = {name: each[HALF:] for name, each in told.items() if name not in there}
        return Opened(seeds, keys)

    def _pair(self, other: str) -> bytes:
        return pair_key(self._masking, self._publics[other].masking, b"mask" + self._context)

    def _sealing_key(self, reader: str, writer: str) -> bytes:
        other = reader if writer == self._name else writer
        purpose = b"seal" + self._context + f"\n{writer}\n{reader}".encode()
        return pair_key(self._sealing, self._publics[other].sealing, purpose)
