"""A server that could not measure or teach says so before it listens to anybody."""

import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from configs.federated_file import LanguageConfig, read_language
from parties.common.errors import DataError, PartyError, PolicyError, StorageError
from parties.horizontal.record import checkpoints
from parties.horizontal.run_party import play
from parties.language.setup import take_language_seat
from parties.session.checkpoint import Content
from parties.session.setup import Place
from tests.parties.horizontal.language.ferries import with_keys

MUSE = ("evaluation.benchmark='muse'", "seats.server.benchmark={kind='muse', path='nowhere'}")
WRONG = (f"model.digest='{'0' * 64}'",)


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> tuple[LanguageConfig, Place]:
    return with_keys(tmp_path_factory.mktemp("ferries"))


@pytest.fixture
def taken() -> Iterator[str]:
    """An address at which nobody can listen: who tries says so."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        yield f"127.0.0.1:{holder.getsockname()[1]}"


@pytest.mark.parametrize(
    ("changes", "error", "said"),
    [
        (WRONG, PolicyError, "the one agreed on 000000000000"),
        (MUSE, DataError, "no file knowmem/forget_qa.json"),
        ((), StorageError, "cannot listen"),
    ],
)
def test_what_is_wrong_at_the_server_keeps_its_door_closed(
    ready: tuple[LanguageConfig, Place],
    taken: str,
    changes: tuple[str, ...],
    error: type[PartyError],
    said: str,
) -> None:
    config = read_language(ready[0].path, changes)
    with pytest.raises(error, match=said):
        play(config, "server", ready[1], taken, lambda _: None)


def test_after_a_crash_the_door_opens_first(
    ready: tuple[LanguageConfig, Place], taken: str, tmp_path: Path
) -> None:
    """Clients wait a minute to come back, and a large base takes longer to be laid out."""
    place, config = replace(ready[1], out=tmp_path), read_language(ready[0].path, WRONG)
    party = take_language_seat(config, "server", place, lambda _: None)
    checkpoints(party).write(3, bytes(16), Content())
    with pytest.raises(StorageError, match="cannot listen"):
        play(config, "server", place, taken, lambda _: None)
