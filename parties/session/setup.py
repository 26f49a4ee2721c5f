"""Taking a seat: from a config and a name to a party with data, identity and a folder."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import torch

from configs.errors import ConfigError
from configs.schema import Config
from configs.seat import Chair
from parties.cli.options import Begin
from parties.common.device import ready
from parties.common.errors import DataError
from parties.common.json_files import next_incarnation
from parties.common.progress import Listener, Watch
from parties.common.traffic import Ledger
from parties.data.holding import Holding, read_holding
from parties.data.preprocess import declared
from parties.session.identity import identify
from parties.session.party import Party
from protocol.errors import IdentityError


@dataclass(frozen=True, slots=True)
class Place:
    """Where a party works on this machine; what is given here wins over the seat."""

    out: Path
    data: Path | None = None
    certificates: Path | None = None
    begin: Begin = Begin.AUTO


def take_seat(
    config: Config,
    name: str,
    place: Place,
    listener: Listener,
    read: Callable[..., Holding] | None = None,
) -> Party:
    """Read the seat, its data and its certificates.

    Who comes for something else than training says with ``read`` how its data is read.

    Raises:
        ConfigError, DataError, IdentityError, StorageError: what cannot be used, and why.
    """
    agreement, seat = config.agreement, config.seat(name)
    watch = Watch(name, listener)
    identity = identify(config, name, place.certificates, datetime.now(UTC))
    for warning in identity.warnings:
        watch.warn(warning)
    watch.phase("reading data")
    torch.set_num_threads(seat.threads)
    ready(seat.device)
    folder = place.data or config.path.parent / (seat.folder or Path())
    holding = (read or read_holding)(
        seat.data,
        folder=folder,
        classes=agreement.labels.classes,
        active=agreement.parties[name].role == "active",
        progress=watch.step,
    )
    if read is None:
        _enough(holding, agreement.training.batch)
        _refuse_other_columns(holding, agreement.parties[name].columns)
        if agreement.preprocessing == "declared":
            declared(holding, seat.data)  # what it lacks is told before anybody is dialled
    state = place.out / agreement.federation / name
    return Party(
        name=name,
        agreement=agreement,
        seat=seat,
        holding=holding,
        keyring=identity.keyring,
        trust=identity.trust,
        state=state,
        incarnation=next_incarnation(state),
        now=lambda: datetime.now(UTC),
        entropy=os.urandom,
        watch=watch,
        ledger=Ledger(watch.crossed),
    )


def _enough(holding: Holding, batch: int) -> None:
    """Common rows are fewer than ours: a batch that we cannot fill alone is a mistake."""
    if batch > len(holding):
        raise DataError(
            f"training.batch = {batch} is more than the {len(holding)} rows of this party",
            f"choose a batch from 1 to {len(holding)}, the same at every party",
        )


def _refuse_other_columns(holding: Holding, agreed: int | None) -> None:
    held = len(holding.numeric) + len(holding.categorical)
    if agreed is not None and held != agreed:
        raise DataError(
            f"the data has {held} feature columns, and the agreement says columns = {agreed}",
            "choose them with numeric and categorical in the seat, or agree anew",
        )


def hub_address(seat: Chair, name: str, given: str | None) -> str:
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
