"""The keys that sign events and receipts: one Ed25519 key per party, confirmed by its certificate.

A party's certificate has a P-256 key, which TLS needs. The party signs its Ed25519 key with it, and
the event ``introduced`` makes the key known to all parties. A later ``introduced`` of the same
party replaces its key.
"""

import json
from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from parties.requests.events import Event, EventKind, IntroducedBody, parse_time
from parties.session.party import PartyContext
from protocol.credentials import verify_signature
from protocol.errors import IdentityError
from unlearning.receipts.commitment import model_commitment

_SALTS: Final = "commitments"  # name of the key for salts in the key file
_KEY: Final = "signatures"  # name of the key in the party's key file
_PURPOSE: Final = "event-key"


class EventKeys:
    """The signing key of one party, and the public keys that the other parties introduced."""

    def __init__(self, party: PartyContext) -> None:
        self._party, self._own = party, party.keys.create(_KEY)
        self._known: dict[str, str] = {}

    @property
    def private(self) -> Ed25519PrivateKey:
        """The party's own key."""
        return Ed25519PrivateKey.from_private_bytes(self._own)

    @property
    def public(self) -> str:
        """The party's own public key, 64 hexadecimal digits."""
        return self.private.public_key().public_bytes_raw().hex()

    @property
    def known(self) -> dict[str, str]:
        """The public key of each party that has introduced one."""
        return dict(self._known)

    def load(self, events: Iterable[Event]) -> None:
        """Learn the keys in stored events, whose signatures were verified when they were stored."""
        for event in events:
            if isinstance(event.body, IntroducedBody):
                self._known[event.origin] = event.body.key

    def introduction(self) -> IntroducedBody | None:
        """Return the event's body that introduces the own key; None if the key is known."""
        if self._known.get(self._party.name) == self.public:
            return None
        identity = self._party.keyring.identity
        proof = identity.sign(_PURPOSE, bytes.fromhex(self.public))
        return IntroducedBody(key=self.public, certificate=identity.der.hex(), proof=proof.hex())

    def sign(self, message: bytes) -> bytes:
        """Return the signature of ``message`` by the own key."""
        return self.private.sign(message)

    def verify(self, origin: str, message: bytes, signature: bytes) -> None:
        """Verify the signature of an event's signing bytes.

        Raises:
            IdentityError: the signature is wrong, or ``origin`` has introduced no key.
        """
        content: dict[str, Any] = json.loads(message.split(b"\n", 1)[1])
        introduced = content["kind"] == EventKind.INTRODUCED
        if introduced:
            time = parse_time(content["time"])
            key = self._confirmed(origin, IntroducedBody.model_validate(content["body"]), time)
        else:
            key = self._known.get(origin, "")
        if not key:
            raise IdentityError(
                f"{origin} has introduced no key for its events",
                f"let {origin} join once, so that its first event arrives",
            )
        try:
            Ed25519PublicKey.from_public_bytes(bytes.fromhex(key)).verify(signature, message)
        except InvalidSignature as error:
            raise IdentityError(f"the signature of an event of {origin} is wrong") from error
        if introduced:
            self._known[origin] = key

    def _confirmed(self, origin: str, body: IntroducedBody, time: datetime) -> str:
        """The introduced key, which the certificate of ``origin`` confirmed at ``time``."""
        key = bytes.fromhex(body.key)
        der, proof = bytes.fromhex(body.certificate), bytes.fromhex(body.proof)
        try:
            signer = verify_signature(self._party.trust, der, proof, time, _PURPOSE, key, past=True)
        except IdentityError as error:
            raise IdentityError(
                f"the key of {origin} of {time:%Y-%m-%d} is not trusted: {error}",
                f"if {origin} had another key or certificate then, add the pin of that key to "
                f"former.{origin} in the settings of this party; vfl certs fingerprint prints it",
            ) from error
        if signer != origin:
            raise IdentityError(f"{signer} signed the key of {origin}; expected {origin}")
        return body.key


def commitment(party: PartyContext, request: str, digest: str) -> str:
    """Return a salted commitment to a digest; the salt stays in the party's key file.

    Both are 64 hexadecimal digits.
    """
    salt = party.keys.mac(_SALTS, request.encode())
    return model_commitment(salt, bytes.fromhex(digest)).hex()
