"""Ed25519 keys of parties: their names in a receipt, and the file of keys that a reader trusts."""

import hashlib
from dataclasses import dataclass
from typing import ClassVar, Literal

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from pydantic import Field

from unlearning.receipts.table import Count, Hash, JsonTable, PartyName, read_table

_ED25519 = b"\x01"  # the type of an Ed25519 key in C2SP signed-note
_SPKI = bytes.fromhex("302a300506032b6570032100")  # SubjectPublicKeyInfo up to the key (RFC 8410)


@dataclass(frozen=True, slots=True)
class PartyKey:
    """The public key of a party.

    Attributes:
        party: name of the party.
        public: the raw Ed25519 public key, 32 bytes.
    """

    party: str
    public: bytes

    @property
    def key_id(self) -> str:
        """Short name of the key, by the hash of C2SP signed-note: 16 hexadecimal digits."""
        named = self.party.encode() + b"\n" + _ED25519 + self.public
        return hashlib.sha256(named).hexdigest()[:16]

    @property
    def spki_sha256(self) -> str:
        """SHA-256 of the key as SubjectPublicKeyInfo in DER: 64 hexadecimal digits."""
        return hashlib.sha256(_SPKI + self.public).hexdigest()

    def verifies(self, signature: bytes, message: bytes) -> bool:
        """Whether ``signature`` is this key's signature of ``message``."""
        try:
            Ed25519PublicKey.from_public_bytes(self.public).verify(signature, message)
        except InvalidSignature:
            return False
        return True


class TrustedKey(JsonTable):
    """A public key in the file of trusted keys.

    Attributes:
        party: name of the party.
        public_key: the raw Ed25519 key, as 64 hexadecimal digits.
        until: number of the first version of the model without the party, which has left; None if
            it has not. The party signs the receipts of earlier versions only.
        since: number of the first version of the model whose receipt the party signs, because it
            joined later than others; None if it signs all up to ``until``.
    """

    absent_if_none: ClassVar[frozenset[str]] = frozenset({"until", "since"})

    party: PartyName
    public_key: Hash
    until: Count | None = None
    since: Count | None = None

    def signs(self, version: int) -> bool:
        """Whether the party must sign the receipt that made version ``version``."""
        after_joining = self.since is None or version >= self.since
        return after_joining and (self.until is None or version < self.until)


class TrustFile(JsonTable):
    """The keys that a reader of receipts trusts. Every party that it names must have signed.

    A party may have several keys, an old one and its successors. A party that has left signs no
    receipt of a version that was trained without it, and a party that joined later signs no receipt
    from before.
    """

    type: Literal["vfl-trust"] = "vfl-trust"
    version: Literal[1] = 1
    federation: PartyName
    keys: tuple[TrustedKey, ...] = Field(min_length=1, max_length=4096)

    def signers(self, version: int) -> frozenset[str]:
        """Return the parties that must sign the receipt that made version ``version``."""
        return frozenset(each.party for each in self.keys if each.signs(version))

    def keys_of(self, party: str) -> list[PartyKey]:
        """Return the known keys of a party; none if the party is unknown."""
        return [
            PartyKey(party, bytes.fromhex(each.public_key))
            for each in self.keys
            if each.party == party
        ]

    def key(self, party: str, key_id: str) -> PartyKey | None:
        """Return the known key of a party with this short name; None if there is none."""
        return next((each for each in self.keys_of(party) if each.key_id == key_id), None)


def read_trust(data: bytes) -> TrustFile:
    """Read a file of trusted keys.

    Raises:
        ReceiptError: the file is malformed.
    """
    return read_table(TrustFile, data, "the file of trusted keys")
