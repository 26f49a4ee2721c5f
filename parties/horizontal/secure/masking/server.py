"""The server's side of one sum: add up what is masked, and take off what the clients open."""

from collections.abc import Mapping, Sequence

from Crypto.Protocol.SecretSharing import Shamir

from parties.horizontal.secure.masking.client import HALF, MaskingError, Opened
from parties.horizontal.secure.masking.fixed_point import Words, keystream
from parties.horizontal.secure.masking.pair_keys import Publics, pair_key, public


class MaskingServer:
    """One sum.

    Args:
        members: all who take part, in the same order everywhere.
        publics: their keys.
    """

    def __init__(
        self, members: Sequence[str], publics: Mapping[str, Publics], threshold: int, context: bytes
    ) -> None:
        self._members, self._publics = tuple(members), publics
        self._threshold, self._context = threshold, context
        self._total: Words | None = None
        self._there: list[str] = []

    @property
    def there(self) -> Sequence[str]:
        """Whose masked vectors have come."""
        return self._there

    def add(self, name: str, masked: Words) -> None:
        """Take one client's masked vector."""
        self._total = masked.copy() if self._total is None else self._total + masked
        self._there.append(name)

    def total(self, opened: Mapping[str, Opened]) -> Words:
        """The sum of the vectors of those who were there.

        Raises:
            MaskingError: too few opened their shares, or they do not belong together.
        """
        if self._total is None or len(opened) < self._threshold:
            raise MaskingError(f"{len(opened)} opened their shares, {self._threshold} are needed")
        found, size = self._total, len(self._total)
        for name in self._there:
            found = found - keystream(self._joined(opened, name, "seeds", 0), size)
        for gone in (name for name in self._members if name not in self._there):
            secret = b"".join(self._joined(opened, gone, "keys", half) for half in (0, 1))
            if public(secret) != self._publics[gone].masking:
                raise MaskingError(f"the shares of {gone} do not give its key")
            found = self._without(found, gone, secret)
        return found

    def _without(self, total: Words, gone: str, secret: bytes) -> Words:
        """Take off the masks that those who are there share with who is gone."""
        place = self._members.index(gone)
        for name in self._there:
            key = pair_key(secret, self._publics[name].masking, b"mask" + self._context)
            mask = keystream(key, len(total))
            total = total - mask if self._members.index(name) < place else total + mask
        return total

    def _joined(self, opened: Mapping[str, Opened], of: str, kind: str, half: int) -> bytes:
        """A secret from the shares of those who opened them."""
        shares = [
            (
                self._members.index(name) + 1,
                getattr(each, kind)[of][half * HALF : (half + 1) * HALF],
            )
            for name, each in opened.items()
            if of in getattr(each, kind)
        ]
        if len(shares) < self._threshold:
            raise MaskingError(f"{len(shares)} shares of {of}, {self._threshold} are needed")
        return bytes(Shamir.combine(shares[: self._threshold], ssss=False))
