"""A client that dials repeatedly while the server is busy is admitted once, on its last line."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import sleep
from typing import Any

import pytest

from parties.horizontal.admission import Admission
from parties.language.setup import set_up_language_party
from parties.session import handshake
from parties.session.handshake import NO_CHECKPOINTS, join_hub
from parties.session.memory_port import MemoryPort
from protocol.phases import Phase
from tests.parties.language.ferries import prepare_federation


def test_abandoned_lines_of_a_client_are_dropped_without_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handshake, "WELCOME_SECONDS", 0.1)
    events: list[Any] = []
    config, place = prepare_federation(tmp_path)
    hub = config.agreement.hub
    admission = Admission(
        set_up_language_party(config, hub, place, events.append), port := MemoryPort()
    )
    client = set_up_language_party(config, "client-0", place, lambda _: None)
    dialled = []

    def dial() -> Any:
        dialled.append(1)
        return port.connect("client-0")

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(join_hub, client, dial, NO_CHECKPOINTS, 0.5, busy_seconds=60.0)
        sleep(3.5)
        events.clear()
        result = admission.arrivals()
        assert len(dialled) > 2
        assert {*result} == {"client-0"}
        assert waiting.result(30).phase is Phase.JOINED
    assert not [each for each in events if each["event"] == "warning"]
