"""Taking a seat in a horizontal run: identity, data, folder."""

import os
from datetime import UTC, datetime
from pathlib import Path

import torch

from configs.federated_file import FederatedConfig, HorizontalConfig
from configs.seat import RowSeat
from parties.common.json_files import next_incarnation
from parties.common.progress import Listener, Watch
from parties.common.traffic import Ledger
from parties.horizontal.local.backdoor import plant
from parties.horizontal.local.client_data import read_shelf
from parties.horizontal.local.learner import Shelf
from parties.horizontal.party import FederatedParty, HorizontalParty, empty
from parties.session.identity import identify
from parties.session.setup import Place


def take_federated_seat(
    config: FederatedConfig, name: str, place: Place, listener: Listener
) -> FederatedParty:
    """Read the seat, its data and its certificates.

    Raises:
        ConfigError, DataError, IdentityError, StorageError: what cannot be used, and why.
    """
    if isinstance(config, HorizontalConfig):
        return take_horizontal_seat(config, name, place, listener)
    from parties.language.setup import take_language_seat

    return take_language_seat(config, name, place, listener)


def take_horizontal_seat(
    config: HorizontalConfig, name: str, place: Place, listener: Listener
) -> HorizontalParty:
    """Read the seat, its data and its certificates.

    Raises:
        ConfigError, DataError, IdentityError, StorageError: what cannot be used, and why.
    """
    agreement, seat = config.agreement, config.seat(name)
    watch = Watch(name, listener)
    identity = identify(config, name, place.certificates, datetime.now(UTC))
    for warning in identity.warnings:
        watch.warn(warning)
    torch.set_num_threads(seat.threads)
    state = place.out / agreement.federation / name
    return HorizontalParty(
        name=name,
        agreement=agreement,
        seat=seat,
        keyring=identity.keyring,
        trust=identity.trust,
        state=state,
        incarnation=next_incarnation(state),
        now=lambda: datetime.now(UTC),
        entropy=os.urandom,
        watch=watch,
        ledger=Ledger(watch.crossed),
        shelf=_shelf(config, name, seat, place, watch) if isinstance(seat, RowSeat) else empty(),
    )


def _shelf(config: HorizontalConfig, name: str, seat: RowSeat, place: Place, watch: Watch) -> Shelf:
    watch.phase("reading data")
    folder = place.data or config.path.parent / (seat.folder or Path())
    shelf = read_shelf(config.agreement, name, seat.data, folder, watch.step)
    plant(config.agreement, name, shelf)
    return shelf
