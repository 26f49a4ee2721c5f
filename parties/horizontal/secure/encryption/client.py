"""A member's side of one sum: get or make its key, encrypt, and, as a keeper, open it."""

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
    make_keys,
    read_public,
    read_secret,
)
from parties.horizontal.secure.encryption.tags import Tags
from parties.horizontal.secure.masking.client import NONCE
from parties.horizontal.secure.masking.pair_keys import KEY, SECRET, Entropy, pair_key, public

WIDTH = SLOTS - 1  # numbers of a ciphertext beside its tag


@dataclass(frozen=True, slots=True)
class Terms:
    """What all members of a sum know of it.

    Attributes:
        members: in the same order everywhere.
        keepers: those of them who may hold the secret key; the first makes it.
        threshold: how many must be there at the end, more than half.
        context: 32 bytes of this sum alone.
    """

    members: tuple[str, ...]
    keepers: tuple[str, ...]
    threshold: int
    context: bytes

    def __post_init__(self) -> None:
        if len(self.keepers) < 2 or not {*self.keepers} <= {*self.members}:
            raise CkksError(f"{len(self.keepers)} keepers of the key are there; two must be")
        if not len(self.members) // 2 < self.threshold <= len(self.members):
            raise CkksError(f"{self.threshold} of {len(self.members)} is no majority")


@dataclass(frozen=True, slots=True)
class SumKey:
    """The key of a sum, on its way.

    Attributes:
        public: the context to encrypt in.
        secret: the context to open in, encrypted.
        sealed: for each member the key of the tags, and for keepers that of ``secret``.
        sealing: the maker's X25519 key.
    """

    public: bytes
    secret: bytes = field(repr=False)
    sealed: Mapping[str, bytes]
    sealing: bytes


def blocks(count: int) -> int:
    """Ciphertexts of so many numbers."""
    return -(-count // WIDTH)


class CkksClient:
    """One member of one sum; it encrypts once, assents once and opens once."""

    def __init__(self, name: str, terms: Terms, entropy: Entropy) -> None:
        self._name, self._terms, self._entropy = name, terms, entropy
        self._sealing = entropy(SECRET)
        self._public: Any = None
        self._secret: Any = None
        self._tags: Tags | None = None
        self._size, self._there = 0, tuple[str, ...]()
        self._digest = b""

    @property
    def sealing(self) -> bytes:
        """What to say first: others seal under keys that follow from it."""
        return public(self._sealing)

    def make(self, others: Mapping[str, bytes]) -> SumKey:
        """The key of this sum, sealed for all members, whose sealing keys are verified.

        Raises:
            CkksError: making it is not up to us, or a member is missing.
        """
        terms = self._terms
        if self._name != terms.keepers[0] or self._tags is not None:
            raise CkksError(f"{self._name} is asked for a key that is not its to make")
        if set(others) != set(terms.members) or others[self._name] != self.sealing:
            raise CkksError("the members' keys are not complete, or ours came back changed")
        keys, tagging, opening = make_keys(), self._entropy(KEY), self._entropy(KEY)
        secret = AESGCM(opening).encrypt(NONCE, keys.secret, terms.context)
        sealed = {}
        for other in terms.members:
            if other != self._name:
                told = tagging + (opening if other in terms.keepers else b"")
                key = self._seal_key(others[other], self._name, other)
                sealed[other] = AESGCM(key).encrypt(NONCE, told, terms.context)
        self._public, self._tags = read_public(keys.public), Tags(tagging)
        self._secret = read_secret(keys.secret)
        return SumKey(keys.public, secret, sealed, self.sealing)

    def take(self, key: SumKey) -> None:
        """The key that the maker sealed for us; that the maker signed it is verified.

        Raises:
            CkksError: we have one, or it is not what was sealed, or it is no key.
        """
        terms, keeper = self._terms, self._name in self._terms.keepers
        if self._tags is not None:
            raise CkksError("a second key for one sum")
        told = self._unsealed(
            self._seal_key(key.sealing, terms.keepers[0], self._name),
            key.sealed.get(self._name, b""),
        )
        if len(told) != (2 * KEY if keeper else KEY):
            raise CkksError("what was sealed is not the keys that this member has to have")
        self._public = read_public(key.public)
        if keeper:
            self._secret = read_secret(self._unsealed(told[KEY:], key.secret))
        self._tags = Tags(told[:KEY])

    def encrypted(self, numbers: Numbers) -> bytes:
        """Ciphertexts of our numbers with their tags.

        Raises:
            CkksError: there is no key, or the sum has our numbers already.
        """
        if self._tags is None or self._size:
            raise CkksError("a sum without a key, or one that has our numbers already")
        self._size, count = len(numbers), blocks(len(numbers))
        rows = np.zeros((count, SLOTS), np.int64)
        padded = np.zeros(count * WIDTH, np.int64)
        padded[: len(numbers)] = numbers
        rows[:, 1:] = padded.reshape(count, WIDTH)
        rows[:, 0] = self._tags.of(self._name, rows[:, 1:])
        return encrypt(self._public, rows)

    def assent(self, there: Sequence[str], digest: bytes) -> None:
        """Agree that the sum of those who are ``there`` is opened, and no other.

        Raises:
            CkksError: it is asked for twice, or too few are there.
        """
        present = set(there)
        if self._there or not self._size:
            raise CkksError("a second opening of one sum would show a single vector")
        if self._name not in present or not present <= set(self._terms.members):
            raise CkksError("the sum is of others, or without us")
        if len(present) < self._terms.threshold or len(present) != len(there):
            raise CkksError(f"{len(present)} are there, and {self._terms.threshold} are needed")
        self._there, self._digest = tuple(there), digest

    def opened(self, data: bytes, assented: Collection[str]) -> Numbers:
        """The sum that we and the others assented to, whose signatures are verified; said once.

        Raises:
            CkksError: it is another one, or not of those who are there, or opening is not up to us.
        """
        secret, tags, there = self._secret, self._tags, self._there
        if secret is None or tags is None or not there:
            raise CkksError(f"{self._name} holds no key of a sum that may be opened")
        if not set(assented) <= set(there) or len(set(assented)) < self._terms.threshold:
            raise CkksError(f"{len(set(assented))} assent; {self._terms.threshold} are needed")
        if sha256(data).digest() != self._digest:
            raise CkksError("these are not the ciphertexts that the members assented to")
        self._secret = None
        rows = decrypt(secret, data, blocks(self._size))
        if not tags.hold(there, rows[:, 1:], rows[:, 0]):
            raise CkksError("the tags are not those of a sum of the members who are there")
        return rows[:, 1:].reshape(-1)[: self._size]

    def _seal_key(self, theirs: bytes, writer: str, reader: str) -> bytes:
        purpose = b"sum key" + self._terms.context + f"\n{writer}\n{reader}".encode()
        try:
            return pair_key(self._sealing, theirs, purpose)
        except ValueError as error:
            raise CkksError("a sealing key that is no point of the curve") from error

    def _unsealed(self, key: bytes, text: bytes) -> bytes:
        try:
            return AESGCM(key).decrypt(NONCE, text, self._terms.context)
        except (InvalidTag, ValueError):
            raise CkksError("the key is not what its maker sealed") from None
