"""A server reports a wrong base model or benchmark before it listens for clients."""

import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from configs.config_file import read_config
from configs.language import LanguageConfig
from parties.common.errors import DataError, PartyError, PolicyError, StorageError
from parties.horizontal.engine.run_journal import federated_checkpoints
from parties.horizontal.run_party import run_federated_party
from parties.language.registry import SCHEMA as LANGUAGE
from parties.language.setup import LANGUAGE_MODE, set_up_language_party
from parties.session.checkpoint import CheckpointContent
from parties.session.setup import StartOptions
from tests.parties.language.ferries import prepare_federation

MUSE = ("evaluation.benchmark='muse'", "settings.server.benchmark={kind='muse', path='nowhere'}")
WRONG = (f"model.digest='{'0' * 64}'",)


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> tuple[LanguageConfig, StartOptions]:
    return prepare_federation(tmp_path_factory.mktemp("ferries"))


@pytest.fixture
def taken() -> Iterator[str]:
    """An address in use: an attempt to listen there fails."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        yield f"127.0.0.1:{holder.getsockname()[1]}"


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        (WRONG, PolicyError, "the agreed digest is 000000000000"),
        (MUSE, DataError, "no file knowmem/forget_qa.json"),
        ((), StorageError, "cannot listen"),
    ],
)
def test_errors_at_the_server_come_before_it_listens(
    ready: tuple[LanguageConfig, StartOptions],
    taken: str,
    changes: tuple[str, ...],
    error: type[PartyError],
    message: str,
) -> None:
    config = read_config(ready[0].path, LANGUAGE, changes)
    with pytest.raises(error, match=message):
        run_federated_party(LANGUAGE_MODE, config, "server", ready[1], taken, lambda _: None)


def test_after_a_crash_the_server_listens_before_it_loads_the_model(
    ready: tuple[LanguageConfig, StartOptions], taken: str, tmp_path: Path
) -> None:
    """Clients reconnect for a minute only, and loading a large base model takes longer."""
    place, config = replace(ready[1], out=tmp_path), read_config(ready[0].path, LANGUAGE, WRONG)
    party = set_up_language_party(config, "server", place, lambda _: None)
    federated_checkpoints(party).write(3, bytes(16), CheckpointContent())
    with pytest.raises(StorageError, match="cannot listen"):
        run_federated_party(LANGUAGE_MODE, config, "server", place, taken, lambda _: None)
