"""Taking a seat in a run that teaches a language model: identity, base model, texts, folder."""

import os
from datetime import UTC, datetime
from pathlib import Path

import torch

from configs.errors import ConfigError
from configs.federated_file import SIMULATED, FederatedConfig, LanguageConfig
from configs.language_seat import LanguageServerSeat, TextSeat
from parties.horizontal.language.cuts import say_unlearned
from parties.horizontal.language.learner import empty_flags
from parties.horizontal.language.needs import roles, say_needs
from parties.horizontal.language.party import LanguageParty
from parties.horizontal.language.room import furnish, reading
from parties.horizontal.language.seat_taking import (
    dealt,
    encoded,
    public_rows,
    read_corpus,
    shelf_of,
)
from parties.horizontal.language.shelf import TextShelf
from parties.identity import identify
from parties.ledger import Ledger
from parties.save import next_incarnation
from parties.seating import Place
from parties.watch import Listener, Watch


def take_language_seat(
    config: FederatedConfig, name: str, place: Place, listener: Listener
) -> LanguageParty:
    """Read the seat, its model, its texts and its certificates.

    Raises:
        ConfigError, DataError, IdentityError, StorageError: what cannot be used, and why.
        LanguageModelError: the base model cannot be used.
    """
    if not isinstance(config, LanguageConfig):
        raise ConfigError(f"{config.path} teaches no language model")
    agreement, seat = config.agreement, config.seat(name)
    if not isinstance(seat, LanguageServerSeat | TextSeat):
        raise ConfigError(f"{config.path}: the seat of {name} names no base model", "base = DIR")
    watch = Watch(name, listener)
    identity = identify(config, name, place.certificates, datetime.now(UTC))
    for warning in identity.warnings:
        watch.warn(warning)
    torch.set_num_threads(seat.threads)
    state = place.out / agreement.federation / name
    folder = place.data or config.path.parent / (seat.folder or Path())
    here = roles(agreement, server=name == agreement.hub)
    say_needs(agreement, folder / seat.base, seat.device, watch, *here)
    if agreement.clients and not isinstance(seat, TextSeat):
        _say_simulated(config, place, watch)
    shelf = TextShelf([], empty_flags(0))
    if isinstance(seat, TextSeat):
        watch.phase("reading texts")
        shelf = _shelf(config, name, seat, folder)
        held = [*shelf.held, *shelf.validation]
        say_unlearned(watch, [*shelf.rows, *held, *shelf.public], agreement)
    return LanguageParty(
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
        folder=folder,
        shelf=shelf,
    )


def _say_simulated(config: LanguageConfig, place: Place, watch: Watch) -> None:
    """What all simulated clients' texts lose, once: the processes that hold them say nothing."""
    seat = config.seat(f"{SIMULATED}-0")
    if not isinstance(seat, TextSeat):
        return  # told by whoever lays the clients out
    folder = place.data or config.path.parent / (seat.folder or Path())
    watch.phase("reading texts")
    encoder = reading(config.agreement, folder / seat.base)
    rows = encoded(read_corpus(seat, folder).records, encoder)
    say_unlearned(watch, rows + public_rows(seat, folder, encoder), config.agreement)


def _shelf(config: LanguageConfig, name: str, seat: TextSeat, folder: Path) -> TextShelf:
    agreement = config.agreement
    encoder = furnish(agreement, folder / seat.base, seat.device).encoder
    corpus = read_corpus(seat, folder)
    public = public_rows(seat, folder, encoder)
    return shelf_of(agreement, name, corpus, dealt(agreement, corpus)[name], encoder, public)
