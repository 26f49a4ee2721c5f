"""Persons with Ed25519 keys and roles, who make and decide requests; their signatures.

The persons of a party are listed in a TOML file of the party. A decision contains the person's
public key and signature, so that every party can check who decided.
"""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from parties.common.errors import StorageError
from parties.requests.events import (
    DecisionBody,
    Event,
    EventKind,
    PersonSignature,
    RequestedBody,
    body_json,
)
from protocol.errors import IdentityError
from protocol.keyring import private_key_pem, read_certificate_file, write_new_file
from unlearning.receipts.canonical import canonical_bytes

_REQUEST: Final = b"vfl/request/v1\n"
_DECISION: Final = b"vfl/decision/v1\n"
_FILE_HINT: Final = "vfl keys add writes this file"
LARGEST_FILE: Final = 1 << 20  # bytes of a file of persons


class PersonRole(StrEnum):
    """What a person may do."""

    REQUESTER = "requester"  # make, withdraw and extend requests
    APPROVER = "approver"  # approve and reject requests
    OPERATOR = "operator"  # carry out requests
    AUDITOR = "auditor"  # read requests and receipts


@dataclass(frozen=True, slots=True)
class Person:
    """A person of a party, with the person's roles and Ed25519 public key."""

    name: str
    roles: frozenset[PersonRole]
    key: str  # 64 hexadecimal digits


@dataclass(frozen=True, slots=True)
class PersonKey:
    """A person's name and private key."""

    name: str
    private: Ed25519PrivateKey

    @property
    def public(self) -> str:
        """The public key, 64 hexadecimal digits."""
        return self.private.public_key().public_bytes_raw().hex()

    def sign(self, message: bytes) -> PersonSignature:
        """Return the person's signature of ``message``."""
        signature = self.private.sign(message).hex()
        return PersonSignature(name=self.name, key=self.public, signature=signature)


def request_message(content: RequestedBody) -> bytes:
    """Return the bytes that a requester signs: the request without the signature."""
    unsigned = content.model_copy(update={"requester": None})
    return _REQUEST + canonical_bytes(body_json(unsigned))


def decision_message(kind: EventKind, asked: Event, reason: str) -> bytes:
    """Return the bytes that a person signs to decide about the request in the event ``asked``."""
    content = {"decision": kind.value, "requested": asked.digest, "reason": reason}
    return _DECISION + canonical_bytes(content)


def signature_is_valid(person: PersonSignature, message: bytes) -> bool:
    """Return whether ``person`` contains a valid signature of ``message``."""
    try:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(person.key))
        key.verify(bytes.fromhex(person.signature), message)
    except (InvalidSignature, ValueError):
        return False
    return True


def decision_holds(event: Event, asked: Event, *, separate: bool) -> bool:
    """Return whether a decision counts: persons' signatures, and the separation of persons.

    A decision without a person was made by the party's automatic policy.

    Args:
        event: an event ``approved``, ``rejected`` or ``withdrawn``.
        asked: the event ``requested`` of the same request.
        separate: whether another person than the requester must approve the request at the party
            of the requester.
    """
    body, content = event.body, asked.body
    if not isinstance(body, DecisionBody) or not isinstance(content, RequestedBody):
        return False
    person, requester = body.person, content.requester
    if requester is not None and not signature_is_valid(requester, request_message(content)):
        return False
    if separate and event.kind is EventKind.APPROVED:
        if event.origin == asked.origin and (person is None or requester is None):
            return False
        if person is not None and requester is not None and person.key == requester.key:
            return False
    return person is None or signature_is_valid(
        person, decision_message(event.kind, asked, body.reason)
    )


def read_person_key(path: Path, name: str) -> PersonKey:
    """Read the private key of the person ``name``; only this account may be able to read the file.

    Raises:
        IdentityError: the file cannot be used, or contains no Ed25519 key.
    """
    content = read_certificate_file(path, private=True)
    try:
        key = load_pem_private_key(content, password=None)
    except (TypeError, ValueError, UnsupportedAlgorithm) as error:
        raise IdentityError(
            f"{path} is not a PEM file with a private key, or it has a password",
            "vfl keys new writes a new key",
        ) from error
    if not isinstance(key, Ed25519PrivateKey):
        raise IdentityError(
            f"{path} contains no Ed25519 key; the keys of persons are Ed25519 keys",
            "vfl keys new writes a new key",
        )
    return PersonKey(name, key)


def make_person_key(path: Path) -> str:
    """Write a new private key to ``path``, and return its public key.

    Raises:
        IdentityError: the file exists already.
        StorageError: the file cannot be written.
    """
    key = Ed25519PrivateKey.generate()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_new_file(path, private_key_pem(key), 0o600)
    except OSError as error:
        raise StorageError(
            f"cannot write {path}: {error.strerror}", "choose another folder"
        ) from error
    return key.public_key().public_bytes_raw().hex()
