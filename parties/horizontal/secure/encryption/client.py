"""A member's side of one sum: make or load the key, encrypt, approve and decrypt the sum."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from parties.horizontal.secure.encryption.ckks import (
    SLOTS,
    CkksError,
    Numbers,
    decrypt,
    encrypt,
    load_public_context,
    load_secret_context,
    make_keys,
)
from parties.horizontal.secure.encryption.tags import SumTags
from parties.horizontal.secure.masking.client import NONCE
from parties.horizontal.secure.masking.pair_keys import (
    KEY_BYTES,
    SECRET_BYTES,
    Entropy,
    pair_key,
    public_key_of,
)

WIDTH = SLOTS - 1  # numbers of a ciphertext besides its tag


@dataclass(frozen=True, slots=True)
class SumTerms:
    """Settings of one encrypted sum; all members of the sum have the same settings."""

    members: tuple[str, ...]  # names of the members, in the order that all parties use
    key_holders: tuple[str, ...]  # members that hold the secret key; the first one makes the key
    # Number of members that must stay connected until the end of the sum; more than half of the
    # members.
    threshold: int
    context: bytes  # random identifier of this sum, 32 bytes

    def __post_init__(self) -> None:
        if len(self.key_holders) < 2 or not {*self.key_holders} <= {*self.members}:
            raise CkksError(
                f"got {len(self.key_holders)} key holders, expected at least two; every key holder "
                "must be a member of the sum"
            )
        if not len(self.members) // 2 < self.threshold <= len(self.members):
            raise CkksError(
                f"the threshold is {self.threshold} of {len(self.members)} members; expected more "
                "than half of the members, and no more than all"
            )


@dataclass(frozen=True, slots=True)
class SumKey:
    """The key of a sum, as sent to the members."""

    public: bytes  # the serialised TenSEAL context with which members encrypt updates
    # The TenSEAL context with which a key holder decrypts the sum, as encrypted bytes.
    secret: bytes = field(repr=False)
    # Encrypted keys by member: for each member the key of the tags, and for key holders also the
    # key that decrypts ``secret``.
    sealed: Mapping[str, bytes]
    sealing: bytes  # X25519 public key of the member that made the key


def ciphertext_count(count: int) -> int:
    """Return the number of ciphertexts for ``count`` numbers."""
    return -(-count // WIDTH)


class CkksClient:
    """One member in one sum; the member encrypts, approves and decrypts at most once."""

    def __init__(self, name: str, terms: SumTerms, entropy: Entropy) -> None:
        self._name, self._terms, self._entropy = name, terms, entropy
        self._sealing = entropy(SECRET_BYTES)
        self._public: Any = None
        self._secret: Any = None
        self._tags: SumTags | None = None
        self._size, self._present = 0, tuple[str, ...]()
        self._digest = b""

    @property
    def sealing(self) -> bytes:
        """The member's X25519 public key, with which the sum's key is encrypted for this member."""
        return public_key_of(self._sealing)

    @property
    def can_encrypt(self) -> bool:
        """Whether the key of the sum is known, and no update was encrypted yet."""
        return self._tags is not None and not self._size

    def make_key(self, others: Mapping[str, bytes]) -> SumKey:
        """Make the key of this sum and encrypt the key for all members.

        The caller must have verified the signatures of ``others``, the members' public keys.

        Raises:
            CkksError: this member must not make the key, or the public key of a member is missing
                or wrong.
        """
        terms = self._terms
        if self._name != terms.key_holders[0] or self._tags is not None:
            raise CkksError(
                f"{self._name} cannot make the key of this sum: another member makes the key, or "
                f"{self._name} has already made it"
            )
        if set(others) != set(terms.members) or others[self._name] != self.sealing:
            raise CkksError(
                "the public keys do not belong to exactly the members of this sum, or the "
                f"public key of {self._name} was changed"
            )
        keys, tag_key, wrapping_key = (
            make_keys(),
            self._entropy(KEY_BYTES),
            self._entropy(KEY_BYTES),
        )
        secret = AESGCM(wrapping_key).encrypt(NONCE, keys.secret, terms.context)
        sealed = {}
        for other in terms.members:
            if other != self._name:
                plain = tag_key + (wrapping_key if other in terms.key_holders else b"")
                key = self._seal_key(others[other], self._name, other)
                sealed[other] = AESGCM(key).encrypt(NONCE, plain, terms.context)
        self._public, self._tags = load_public_context(keys.public), SumTags(tag_key)
        self._secret = load_secret_context(keys.secret)
        return SumKey(keys.public, secret, sealed, self.sealing)

    def load_key(self, key: SumKey) -> None:
        """Load the encrypted key of the sum; the caller must have verified its maker's signature.

        Raises:
            CkksError: a key was already loaded, or the key was changed after its encryption.
        """
        terms, holds_key = self._terms, self._name in self._terms.key_holders
        if self._tags is not None:
            raise CkksError("the server sent a second key for a sum that already has a key")
        plain = self._unsealed(
            self._seal_key(key.sealing, terms.key_holders[0], self._name),
            key.sealed.get(self._name, b""),
        )
        if len(plain) != (2 * KEY_BYTES if holds_key else KEY_BYTES):
            raise CkksError(f"the keys that were encrypted for {self._name} have the wrong length")
        self._public = load_public_context(key.public)
        if holds_key:
            self._secret = load_secret_context(self._unsealed(plain[KEY_BYTES:], key.secret))
        self._tags = SumTags(plain[:KEY_BYTES])

    def encrypt(self, numbers: Numbers) -> bytes:
        """Return the ciphertexts of this member's numbers, ``[d]``, with their tags.

        Raises:
            CkksError: no key was loaded, or the numbers were already encrypted.
        """
        if self._tags is None or self._size:
            raise CkksError(
                f"{self._name} cannot encrypt its update: no key was loaded for this sum, or the "
                "update was already encrypted"
            )
        self._size, count = len(numbers), ciphertext_count(len(numbers))
        rows = np.zeros((count, SLOTS), np.int64)
        padded = np.zeros(count * WIDTH, np.int64)
        padded[: len(numbers)] = numbers
        rows[:, 1:] = padded.reshape(count, WIDTH)
        rows[:, 0] = self._tags.tags_of(self._name, rows[:, 1:])
        return encrypt(self._public, rows)

    def approve(self, present: Sequence[str], digest: bytes) -> None:
        """Approve the decryption of only one sum: the sum of the members in ``present``.

        Raises:
            CkksError: a sum was already approved, or too few members are present.
        """
        names = set(present)
        if self._present or not self._size:
            raise CkksError(
                f"{self._name} cannot approve the sum: it has already approved a sum, or has not "
                "encrypted its update; a second approval could reveal the update of one member"
            )
        if self._name not in names or not names <= set(self._terms.members):
            raise CkksError(
                "the list of clients in the sum lacks this member, or names a client that is not a "
                "member"
            )
        if len(names) < self._terms.threshold or len(names) != len(present):
            raise CkksError(
                f"the sum names {len(names)} different members, expected at least "
                f"{self._terms.threshold} and each member only once"
            )
        self._present, self._digest = tuple(present), digest

    def decrypt_sum(self, data: bytes, approved: Collection[str]) -> Numbers:
        """Return the approved sum, ``[d]``; the caller must have verified the members' signatures.

        Raises:
            CkksError: the ciphertexts are not the approved ciphertexts, or this member has no
                secret key.
        """
        secret, tags, present = self._secret, self._tags, self._present
        if secret is None or tags is None or not present:
            raise CkksError(
                f"{self._name} cannot decrypt the sum: it has no secret key, or has not approved "
                "this sum"
            )
        if not set(approved) <= set(present) or len(set(approved)) < self._terms.threshold:
            raise CkksError(
                f"{len(set(approved))} members approved the sum, expected at least "
                f"{self._terms.threshold}"
            )
        if sha256(data).digest() != self._digest:
            raise CkksError("the ciphertexts differ from the ciphertexts that the members approved")
        self._secret = None
        rows = decrypt(secret, data, ciphertext_count(self._size))
        if not tags.verify(present, rows[:, 1:], rows[:, 0]):
            raise CkksError(
                "the authentication tags do not match the sum: it is not the sum of the updates of "
                "exactly the members that the server named"
            )
        return rows[:, 1:].reshape(-1)[: self._size]

    def _seal_key(self, theirs: bytes, writer: str, reader: str) -> bytes:
        purpose = b"sum key" + self._terms.context + f"\n{writer}\n{reader}".encode()
        try:
            return pair_key(self._sealing, theirs, purpose)
        except ValueError as error:
            raise CkksError("a public key of this sum is not a valid X25519 key") from error

    def _unsealed(self, key: bytes, text: bytes) -> bytes:
        try:
            return AESGCM(key).decrypt(NONCE, text, self._terms.context)
        except (InvalidTag, ValueError):
            raise CkksError(
                "an encrypted key of this sum was changed after its encryption"
            ) from None
