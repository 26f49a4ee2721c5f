"""A hub that accepts connections but is busy and does not answer for a while."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from time import sleep
from typing import Any

import pytest
from handshake_parties import open_hub_port, party

from parties.session import handshake
from parties.session.handshake import NO_CHECKPOINTS, accept_spokes, join_hub
from protocol.errors import PeerSilent
from protocol.phases import Phase
from tests.conftest import HUB, SPOKE


@pytest.mark.parametrize("transport", ["memory", "grpc"])
def test_spoke_repeats_hello_while_the_hub_is_busy(
    keys: Path, tmp_path: Path, transport: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that lost its line sends Hello again until the hub has finished a long round."""
    monkeypatch.setattr(handshake, "WELCOME_SECONDS", 0.1)
    bank, shop = party(keys, HUB, []), party(keys, SPOKE, [])
    with open_hub_port(transport, bank, keys, tmp_path) as at, ThreadPoolExecutor(3) as pool:
        dial = partial(at.connect, SPOKE)
        waiting = pool.submit(join_hub, shop, dial, NO_CHECKPOINTS, 0.5, busy_seconds=60.0)
        sleep(3.5)
        assert not waiting.done(), waiting.exception()
        accepting = pool.submit(accept_spokes, bank, at.port)
        pool.submit(join_hub, party(keys, "hospital", []), lambda: at.connect("hospital"))
        assert waiting.result(30).phase is Phase.JOINED
        assert {*accepting.result(30)[0].channels} == {SPOKE, "hospital"}


def test_delayed_hello_is_not_a_clock_difference(
    keys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The spoke knows how long it waited for Welcome; the hub does not know how old Hello is."""
    monkeypatch.setattr(handshake, "CLOCK_WARNING", 1.0)
    monkeypatch.setattr(handshake, "CLOCK_LIMIT", 1.5)
    events: list[Any] = []
    bank = party(keys, HUB, events)
    with open_hub_port("memory", bank, keys, tmp_path) as at, ThreadPoolExecutor(3) as pool:
        joining = [
            pool.submit(join_hub, party(keys, name, []), partial(at.connect, name))
            for name in (SPOKE, "hospital")
        ]
        sleep(2.5)
        accept_spokes(bank, at.port)
        assert all(each.result(30).phase is Phase.JOINED for each in joining)
    assert not [each for each in events if "clocks" in str(each)]


def test_spoke_waits_at_most_the_agreed_time(keys: Path, tmp_path: Path) -> None:
    bank, shop = party(keys, HUB, []), party(keys, SPOKE, [])
    with open_hub_port("memory", bank, keys, tmp_path) as at, pytest.raises(PeerSilent) as error:
        join_hub(shop, lambda: at.connect(SPOKE), NO_CHECKPOINTS, 0.5)
    assert error.value.hint == "bank is reached but busy: raise limits.join_seconds"
