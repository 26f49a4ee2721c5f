"""A server that could not measure or teach says so before it waits for anybody."""

from typing import Any

import pytest

from configs.federated_file import LanguageConfig, read_language
from parties.errors import DataError, PartyError, PolicyError
from parties.horizontal.language.seating import take_language_seat
from parties.horizontal.server import run_server
from parties.memory_port import MemoryPort
from parties.seating import Place
from tests.parties.horizontal.language.ferries import with_keys

MUSE = ("evaluation.benchmark='muse'", "seats.server.benchmark={kind='muse', path='nowhere'}")


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> tuple[LanguageConfig, Place]:
    return with_keys(tmp_path_factory.mktemp("ferries"))


@pytest.mark.parametrize(
    ("changes", "error", "said"),
    [
        ((f"model.digest='{'0' * 64}'",), PolicyError, "the one agreed on 000000000000"),
        (MUSE, DataError, "no file knowmem/forget_qa.json"),
    ],
)
def test_what_is_wrong_at_the_server_keeps_its_door_closed(
    ready: tuple[LanguageConfig, Place],
    changes: tuple[str, ...],
    error: type[PartyError],
    said: str,
) -> None:
    events: list[Any] = []
    config = read_language(ready[0].path, ["limits.join_seconds=0.5", *changes])
    party = take_language_seat(config, "server", ready[1], events.append)
    with pytest.raises(error, match=said):
        run_server(party, MemoryPort(), lambda _: None)
    assert not any("waiting" in each.get("phase", "") for each in events)
