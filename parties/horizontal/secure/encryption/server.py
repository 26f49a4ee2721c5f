"""The server's side of one encrypted sum: the server adds ciphertexts but cannot decrypt."""

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from parties.horizontal.secure.encryption.ckks import (
    join_ciphertexts,
    load_ciphertexts,
    load_public_context,
)


class CkksServer:
    """One encrypted sum at the server; the members encrypt with the public key of this sum.

    Args:
        public: the serialised TenSEAL context for encryption.
        count: number of ciphertexts of each member.

    Raises:
        CkksError: ``public`` is not a context, or has a secret key.
    """

    def __init__(self, public: bytes, count: int) -> None:
        self._context, self._count = load_public_context(public), count
        self._total: list[Any] = []
        self._there: list[str] = []

    @property
    def present(self) -> Sequence[str]:
        """Names of the members whose ciphertexts are in the sum."""
        return self._there

    def add(self, name: str, data: bytes) -> None:
        """Add one member's ciphertexts.

        Raises:
            CkksError: the ciphertexts do not belong to this sum; the sum stays unchanged.
        """
        found = load_ciphertexts(self._context, data, self._count)
        if self._total:
            for total, each in zip(self._total, found, strict=True):
                total.add_(each)
        else:
            self._total = found
        self._there.append(name)

    def total(self) -> tuple[bytes, bytes]:
        """Return the ciphertexts of the sum, and their SHA-256 digest."""
        data = join_ciphertexts([each.serialize() for each in self._total])
        return data, sha256(data).digest()
