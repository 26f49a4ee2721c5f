"""Persons with Ed25519 keys and roles, who make and decide requests, and the policy of a party.

The persons of a party are listed in a TOML file of the party. A decision contains the person's
public key and signature, so that every party can check who decided.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final, Self

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from pydantic import Field, model_validator

from configs.config_file import validate_table
from configs.errors import ConfigError
from configs.requests import PartyRequestSettings
from configs.table import ConfigTable, Name
from configs.toml_file import read_toml
from parties.common.atomic_file import write_atomically
from parties.common.errors import PolicyError, StorageError
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


class PersonEntry(ConfigTable):
    """A person in the file of persons."""

    roles: Annotated[tuple[PersonRole, ...], Field(min_length=1)]
    key: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]  # Ed25519 public key


class PersonsFile(ConfigTable):
    """The file of persons of a party: one table [persons.NAME] for each person."""

    persons: dict[Name, PersonEntry] = Field(default={})

    @model_validator(mode="after")
    def _keys_differ(self) -> Self:
        keys = [each.key for each in self.persons.values()]
        if len(set(keys)) < len(keys):
            raise ValueError("two persons have the same key: make a key for each person")
        return self


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


@dataclass(frozen=True, slots=True)
class RequestPolicy:
    """Who may act on requests for one party.

    Attributes:
        automatic: whether the party approves valid requests by itself, and persons need no key.
        persons: the persons of the party.
    """

    automatic: bool
    persons: tuple[Person, ...] = ()

    def acting(self, key: PersonKey | None, role: PersonRole) -> PersonKey | None:
        """Return the key of the person who acts, with the person's name in the file of persons.

        Args:
            key: key of the person; None if no key was given.
            role: role that the action needs.

        Raises:
            PolicyError: the policy needs a key, the key is unknown, or its person lacks the role.
        """
        if key is None:
            if self.automatic:
                return None
            raise PolicyError(
                f"this party has policy = 'roles', so a person with the role {role.value} must act",
                "give --key FILE with the private key of this person",
            )
        person = next((each for each in self.persons if each.key == key.public), None)
        if person is None:
            raise PolicyError(
                "the key belongs to no person in the party's file of persons",
                "add the person with vfl keys add, and name the file in requests.persons of the "
                "party settings",
            )
        if role not in person.roles:
            raise PolicyError(
                f"{person.name} does not have the role {role.value}; the roles are "
                f"{', '.join(sorted(person.roles))}",
                f"another person with the role {role.value} must act",
            )
        return PersonKey(person.name, key.private)


def read_policy(settings: PartyRequestSettings, folder: Path) -> RequestPolicy:
    """Return the policy in a party's settings; paths are relative to ``folder``.

    Raises:
        ConfigError: the file of persons cannot be read, or is not valid.
    """
    persons = read_persons(folder / settings.persons) if settings.persons else ()
    return RequestPolicy(settings.policy == "automatic", persons)


def read_persons(path: Path) -> tuple[Person, ...]:
    """Return the persons in a file.

    Raises:
        ConfigError: the file cannot be read, or is not valid.
    """
    found = validate_table(PersonsFile, read_toml(path, []), path, "")
    return tuple(
        Person(name, frozenset(each.roles), each.key) for name, each in found.persons.items()
    )


def write_persons(path: Path, persons: Iterable[Person]) -> None:
    """Write a file of persons.

    Raises:
        ConfigError: two persons have the same name or key, or a name is not valid.
        StorageError: the file cannot be written.
    """
    listed = sorted(persons, key=lambda each: each.name)
    names = [each.name for each in listed]
    if len(set(names)) < len(names):
        raise ConfigError(f"{path} already has a person of this name", "choose another name")
    tables = {each.name: {"roles": sorted(each.roles), "key": each.key} for each in listed}
    validate_table(PersonsFile, {"persons": tables}, path, "")
    texts = [
        f'[persons.{each.name}]\nroles = {json.dumps(sorted(each.roles))}\nkey = "{each.key}"\n'
        for each in listed
    ]
    write_atomically(path, "\n".join(texts).encode())


def read_public_key(text: str) -> str:
    """Return an Ed25519 public key, given as 64 hexadecimal digits.

    Raises:
        IdentityError: ``text`` is no such key.
    """
    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(text))
    except ValueError:
        raise IdentityError(
            "the public key is not 64 hexadecimal digits of an Ed25519 key",
            "vfl keys new prints the public key",
        ) from None
    return text.lower()


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
    approves = event.kind is EventKind.APPROVED
    if approves and not requester_is_valid(content):
        return False
    if separate and approves:
        if event.origin == asked.origin and (person is None or requester is None):
            return False
        if person is not None and requester is not None and person.key == requester.key:
            return False
    return person is None or signature_is_valid(
        person, decision_message(event.kind, asked, body.reason)
    )


def requester_is_valid(content: RequestedBody) -> bool:
    """Return whether the requester's signature is valid, or the request has none."""
    return content.requester is None or signature_is_valid(
        content.requester, request_message(content)
    )


def read_person_key(path: Path) -> PersonKey:
    """Read the private key of a person; only this account may be able to read the file.

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
    return PersonKey(path.stem, key)


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
