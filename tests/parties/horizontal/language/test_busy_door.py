"""Who dialled again and again while the server taught is greeted once, on its last line."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import sleep
from typing import Any

import pytest

from parties.horizontal.admission import Door
from parties.language.setup import take_language_seat
from parties.session import handshake as join
from parties.session.checkpoint_offer import NOTHING
from parties.session.handshake import greet
from parties.session.memory_port import MemoryPort
from protocol.phases import Phase
from tests.parties.horizontal.language.ferries import with_keys


def test_lines_that_nobody_waits_at_any_more_are_dropped_without_a_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(join, "FRESH", 0.1)
    events: list[Any] = []
    config, place = with_keys(tmp_path)
    hub = config.agreement.hub
    door = Door(take_language_seat(config, hub, place, events.append), port := MemoryPort())
    client = take_language_seat(config, "client-0", place, lambda _: None)
    dialled = []

    def dial() -> Any:
        dialled.append(1)
        return port.connect("client-0")

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(greet, client, dial, NOTHING, 0.5, busy=60.0)
        sleep(3.5)
        events.clear()
        found = door.arrivals()
        assert len(dialled) > 2
        assert {*found} == {"client-0"}
        assert waiting.result(30).phase is Phase.JOINED
    assert not [each for each in events if each["event"] == "warning"]
