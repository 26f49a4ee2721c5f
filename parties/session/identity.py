"""Who we are and whom we believe: certificates, pins and denied keys, before any row is read."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol

from cryptography import x509

from configs.seat import Chair
from configs.shared import Shared
from protocol.credentials import Trust
from protocol.errors import IdentityError
from protocol.keyring import Keyring, days_left, read_keyring, trust

ENDS_SOON = (1, 7, 14, 30)  # days before a certificate's end at which a start warns


class Named(Protocol):
    """A config of any mode."""

    @property
    def path(self) -> Path:
        """Its file."""

    @property
    def agreement(self) -> Shared:
        """What all share."""

    def seat(self, name: str) -> Chair:
        """What one party keeps to itself."""


@dataclass(frozen=True, slots=True)
class Identified:
    """A party's identity, and what is legal about it but deserves a word."""

    keyring: Keyring
    trust: Trust
    warnings: tuple[str, ...]


def identify(config: Named, name: str, certificates: Path | None, now: datetime) -> Identified:
    """Read and check what proves us; ``certificates`` wins over the seat's folder.

    Our own certificate must pass the rules that our peers will hold it to.

    Raises:
        IdentityError: the first rule that is broken; in a strict seat also the first warning.
    """
    agreement, seat, beside = config.agreement, config.seat(name), config.path.parent
    keyring = read_keyring(certificates or beside / seat.certificates, name)
    pins: dict[str, Sequence[str]] = {
        peer: plan.pins for peer, plan in agreement.parties.items() if plan.pins
    }
    denied_file = beside / seat.denied_file if seat.denied_file else None
    trusted = trust(keyring, agreement.federation, pins, seat.denied, denied_file)
    certificate = keyring.identity.certificate
    named = trusted.check(certificate, now)
    if named != name:
        raise IdentityError(
            f"the certificate of {name} names {named}", "every party has a certificate of its own"
        )
    misgivings = list(_misgivings(certificate, now, pinned=bool(pins)))
    if seat.strict and misgivings:
        warning, cure = misgivings[0]
        raise IdentityError(f"{warning}, and this seat is strict", cure)
    return Identified(keyring, trusted, tuple(f"{warning}: {cure}" for warning, cure in misgivings))


def _misgivings(
    certificate: x509.Certificate, now: datetime, *, pinned: bool
) -> Iterator[tuple[str, str]]:
    """What is legal about identities and deserves a word all the same, and the cure for it."""
    left = days_left(certificate, now)
    within = next((days for days in ENDS_SOON if left <= days), None)
    if within is not None:
        end = certificate.not_valid_after_utc
        yield (
            f"our certificate ends within {within} day{'s' * (within > 1)}, "
            f"on {end:%Y-%m-%d %H:%M} UTC",
            "renew it before a run lasts longer",
        )
    if not pinned:
        yield (
            "the agreement pins no keys, so whoever the authority certified is believed",
            "add the pins that vfl certs prints to [parties.NAME]",
        )
