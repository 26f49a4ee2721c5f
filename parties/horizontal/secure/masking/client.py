"""A client's side of one masked sum: keys, sealed shares, masked vector, and revealed shares."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from Crypto.Protocol.SecretSharing import Shamir
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from parties.horizontal.secure.masking.fixed_point import Words, mask_keystream
from parties.horizontal.secure.masking.pair_keys import (
    KEY_BYTES,
    SECRET_BYTES,
    Entropy,
    MaskPublicKeys,
    pair_key,
    public_key_of,
)

NONCE = bytes(12)  # constant, because each key seals one text: of one pair, sum and direction
SHARED_BYTES = 16  # bytes that one call of Shamir's secret sharing shares


class MaskingError(ValueError):
    """A message would reveal the vector of a single client, or contains invalid keys or shares."""


@dataclass(frozen=True, slots=True)
class RevealedShares:
    """Shares that unmask a sum."""

    # Shares of the seeds from which the present members derived their own masks.
    seeds: Mapping[str, bytes]
    keys: Mapping[str, bytes]  # shares of the masking keys of members that are lost


class MaskingClient:
    """One client in one masked sum.

    Args:
        name: name of the client.
        members: names of all members, in the order that all parties use.
        threshold: number of members that must stay connected until the end of the sum.
        context: bytes that are unique to this sum; all keys of the sum depend on these bytes.
        entropy: source of random bytes.

    Raises:
        MaskingError: the threshold is at most half of the members, or exceeds their number.
    """

    def __init__(
        self, name: str, members: Sequence[str], threshold: int, context: bytes, entropy: Entropy
    ) -> None:
        if not len(members) // 2 < threshold <= len(members):
            raise MaskingError(
                f"the threshold is {threshold} of {len(members)} members, expected more than "
                "half and at most all members"
            )
        self._name, self._members, self._threshold = name, tuple(members), threshold
        self._context = context
        self._seed = entropy(KEY_BYTES)
        self._masking, self._sealing = entropy(SECRET_BYTES), entropy(SECRET_BYTES)
        self._public_keys: Mapping[str, MaskPublicKeys] = {}
        self._masked = self._revealed = False

    @property
    def public_keys(self) -> MaskPublicKeys:
        """The client's public keys for this sum."""
        return MaskPublicKeys(public_key_of(self._masking), public_key_of(self._sealing))

    @property
    def can_mask(self) -> bool:
        """Whether the keys of all members are known, and no vector was masked yet."""
        return bool(self._public_keys) and not self._masked

    def seal_shares(self, public_keys: Mapping[str, MaskPublicKeys]) -> dict[str, bytes]:
        """Return one sealed share of this client's secrets for each other member.

        The caller must have verified the signatures of ``public_keys``.

        Raises:
            MaskingError: this client's keys were changed, a member's keys are missing or invalid,
                or the shares were already sealed. Sealing is possible only once, because every
                call uses the same keys and nonce, and AES-GCM needs another key or nonce for each
                text.
        """
        if self._public_keys:
            raise MaskingError(f"{self._name} has already encrypted its key shares for this sum")
        if set(public_keys) != set(self._members) or public_keys[self._name] != self.public_keys:
            raise MaskingError(
                "the public keys belong to other clients than the members of this sum, or the "
                f"public keys of {self._name} were changed"
            )
        self._public_keys = dict(public_keys)
        count = len(self._members)
        parts = [
            dict(Shamir.split(self._threshold, count, part, ssss=False))
            for part in (self._seed, self._masking[:SHARED_BYTES], self._masking[SHARED_BYTES:])
        ]
        sealed = {}
        for place, other in enumerate(self._members, start=1):
            plain = b"".join(part[place] for part in parts)
            if other == self._name:
                self._own = plain
            else:
                sealed[other] = AESGCM(self._sealing_key(other, self._name)).encrypt(
                    NONCE, plain, self._context
                )
        return sealed

    def mask(self, vector: Words) -> Words:
        """Return the vector, ``[n]``, plus this client's mask and one mask per other member.

        The two members of a pair use the same mask with opposite signs, so that these masks cancel
        in the sum.

        Raises:
            MaskingError: a vector was already masked, or a member's key is invalid.
        """
        if self._masked:
            raise MaskingError(
                f"{self._name} has already masked a vector for this sum; a second vector under the "
                "same mask would reveal the difference of the two vectors"
            )
        self._masked = True
        total = vector + mask_keystream(self._seed, len(vector))
        ours = self._members.index(self._name)
        for place, other in enumerate(self._members):
            if place != ours:
                mask = mask_keystream(self._pair(other), len(vector))
                total = total + mask if ours < place else total - mask
        return total

    def reveal_shares(
        self, sealed: Mapping[str, bytes], present: Collection[str]
    ) -> RevealedShares:
        """Return the shares that unmask the sum of the members that are present.

        Raises:
            MaskingError: shares were already revealed, too few members are present, or a share was
                changed.
        """
        if not self._public_keys:
            raise MaskingError(f"{self._name} has not received the public keys of this sum yet")
        if self._revealed:
            raise MaskingError(
                f"{self._name} has already revealed shares for this sum; a second set of shares "
                "could reveal the vector of one client"
            )
        strangers = set(present) - set(self._members)
        if strangers or self._name not in present or len(set(present)) < self._threshold:
            raise MaskingError(
                f"the server's list of present clients has {len(set(present))} names; expected at "
                f"least {self._threshold} members of this sum, no other clients, and {self._name} "
                "among them"
            )
        if not set(sealed) <= set(self._members) - {self._name}:
            raise MaskingError("the server sent a share of a client that is not another member")
        self._revealed = True
        plain = {self._name: self._own}
        for other, text in sealed.items():
            try:
                plain[other] = AESGCM(self._sealing_key(self._name, other)).decrypt(
                    NONCE, text, self._context
                )
            except (InvalidTag, ValueError):
                raise MaskingError(
                    f"the share of {other} was changed after {other} encrypted it"
                ) from None
        seeds = {name: each[:SHARED_BYTES] for name, each in plain.items() if name in present}
        keys = {name: each[SHARED_BYTES:] for name, each in plain.items() if name not in present}
        return RevealedShares(seeds, keys)

    def _pair(self, other: str) -> bytes:
        return _pair_key(self._masking, self._public_keys[other].masking, b"mask" + self._context)

    def _sealing_key(self, reader: str, writer: str) -> bytes:
        other = reader if writer == self._name else writer
        purpose = b"seal" + self._context + f"\n{writer}\n{reader}".encode()
        return _pair_key(self._sealing, self._public_keys[other].sealing, purpose)


def _pair_key(secret: bytes, public: bytes, purpose: bytes) -> bytes:
    try:
        return pair_key(secret, public, purpose)
    except ValueError as error:
        raise MaskingError("a public key of this sum is not a valid X25519 key") from error
