"""Taking a seat in a run that teaches a language model: identity, base model, texts, folder."""

import os
from datetime import UTC, datetime
from pathlib import Path

import torch

from configs.errors import ConfigError
from configs.federated_file import SIMULATED, FederatedConfig, LanguageConfig
from configs.language_seat import LanguageServerSeat, TextSeat
from parties.common.json_files import next_incarnation
from parties.common.progress import Listener, Watch
from parties.common.traffic import Ledger
from parties.language.client_data import (
    dealt,
    encoded,
    public_rows,
    read_corpus,
    shelf_of,
)
from parties.language.engine.base_model import furnish, reading
from parties.language.engine.learner import empty_flags
from parties.language.engine.memory_check import roles, say_needs
from parties.language.engine.text_dataset import TextShelf
from parties.language.engine.truncation import say_unlearned
from parties.language.party import LanguageParty
from parties.session.identity import identify
from parties.session.setup import Place


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
