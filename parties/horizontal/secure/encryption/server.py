"""The server's side of one sum: it adds what it cannot read."""

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from parties.horizontal.secure.encryption.ckks import joined, read_ciphers, read_public


class CkksServer:
    """One sum, under a public key that a keeper made; ``count`` is of each member's ciphertexts.

    Raises:
        CkksError: the key is none, or has a secret one beside it.
    """

    def __init__(self, public: bytes, count: int) -> None:
        self._context, self._count = read_public(public), count
        self._total: list[Any] = []
        self._there: list[str] = []

    @property
    def there(self) -> Sequence[str]:
        """Whose ciphertexts have come."""
        return self._there

    def add(self, name: str, data: bytes) -> None:
        """Take one member's ciphertexts.

        Raises:
            CkksError: they are none of this sum's; the sum stays as it was.
        """
        found = read_ciphers(self._context, data, self._count)
        if self._total:
            for total, each in zip(self._total, found, strict=True):
                total.add_(each)
        else:
            self._total = found
        self._there.append(name)

    def total(self) -> tuple[bytes, bytes]:
        """The ciphertexts of the sum, and their digest."""
        data = joined([each.serialize() for each in self._total])
        return data, sha256(data).digest()
