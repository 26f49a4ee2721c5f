"""Taking a seat: from a config and a name to a party with data, identity and a folder."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import torch
from cryptography import x509

from configs.errors import ConfigError
from configs.schema import Config
from configs.seat import Seat
from parties.data import Holding, read_holding
from parties.errors import DataError
from parties.ledger import Ledger
from parties.party import Party
from parties.save import next_incarnation
from parties.watch import Listener, Watch
from protocol.credentials import Trust
from protocol.errors import IdentityError
from protocol.keyring import Keyring, days_left, read_keyring, trust

ENDS_SOON = (1, 7, 14, 30)  # days before a certificate's end at which a start warns


@dataclass(frozen=True, slots=True)
class Place:
    """Where a party works on this machine; what is given here wins over the seat."""

    out: Path
    data: Path | None = None
    certificates: Path | None = None


def take_seat(config: Config, name: str, place: Place, listener: Listener) -> Party:
    """Read the seat, its data and its certificates.

    Raises:
        ConfigError, DataError, IdentityError, StorageError: what cannot be used, and why.
    """
    agreement, seat = config.agreement, config.seat(name)
    watch = Watch(name, listener)
    keyring, trusted = _identify(config, name, place, watch)
    watch.phase("reading data")
    torch.set_num_threads(seat.threads)
    torch.use_deterministic_algorithms(True)
    folder = place.data or config.path.parent / (seat.folder or Path())
    holding = read_holding(
        seat.data,
        folder=folder,
        classes=agreement.labels.classes,
        active=agreement.parties[name].role == "active",
    )
    _enough(holding, agreement.training.batch)
    state = place.out / agreement.federation / name
    return Party(
        name=name,
        agreement=agreement,
        seat=seat,
        holding=holding,
        keyring=keyring,
        trust=trusted,
        state=state,
        incarnation=next_incarnation(state),
        now=lambda: datetime.now(UTC),
        entropy=os.urandom,
        watch=watch,
        ledger=Ledger(watch.crossed),
    )


def _identify(config: Config, name: str, place: Place, watch: Watch) -> tuple[Keyring, Trust]:
    """Who we are and whom we believe, before any row is read.

    Our own certificate must pass the rules that our peers will hold it to.
    """
    agreement, seat, beside = config.agreement, config.seat(name), config.path.parent
    keyring = read_keyring(place.certificates or beside / seat.certificates, name)
    pins: dict[str, Sequence[str]] = {
        peer: plan.pins for peer, plan in agreement.parties.items() if plan.pins
    }
    denied_file = beside / seat.denied_file if seat.denied_file else None
    trusted = trust(keyring, agreement.federation, pins, seat.denied, denied_file)
    now, certificate = datetime.now(UTC), keyring.identity.certificate
    named = trusted.check(certificate, now)
    if named != name:
        raise IdentityError(
            f"the certificate of {name} names {named}", "every party has a certificate of its own"
        )
    for warning, cure in _misgivings(certificate, now, pinned=bool(pins)):
        if seat.strict:
            raise IdentityError(f"{warning}, and this seat is strict", cure)
        watch.warn(f"{warning}: {cure}")
    return keyring, trusted


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


def _enough(holding: Holding, batch: int) -> None:
    """Common rows are fewer than ours: a batch that we cannot fill alone is a mistake."""
    if batch > len(holding):
        raise DataError(
            f"training.batch = {batch} is more than the {len(holding)} rows of this party",
            f"choose a batch from 1 to {len(holding)}, the same at every party",
        )


def hub_address(seat: Seat, name: str, given: str | None) -> str:
    """Where to dial or listen; raises ``ConfigError`` without one."""
    address = given or seat.hub or seat.listen
    if address is None:
        raise ConfigError(f"the seat of {name} has no address", 'hub = "host:7700", or --hub')
    return address


def admit(party: Party, certificate: object) -> str:
    """The passive party that a visitor's certificate names; raises ``IdentityError``."""
    name = party.trust.check(certificate, party.now())  # type: ignore[arg-type]
    if name not in party.agreement.passive:
        raise IdentityError(f"{name} is no passive party of this agreement")
    return name
