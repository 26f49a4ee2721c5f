"""Purpose of joining: all parties train, or all predict with the parts of one model."""

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from handshake_parties import open_hub_port, party

from parties.session import handshake
from parties.session.handshake import accept_spokes, join_hub
from protocol.channel import Channel
from protocol.errors import Aborted, IdentityError, ProtocolError, RemoteProtocolError
from protocol.hub import Hub
from tests.conftest import HUB, SPOKE

RUN, OTHER = b"r" * 16, b"o" * 16
THIRD = "hospital"


@pytest.fixture(params=["memory", "grpc"])
def transport(request: pytest.FixtureRequest) -> str:
    return request.param


def join_both(
    transport: str, keys: Path, folder: Path, **comes_for: bytes
) -> tuple[Future[Hub], Future[Channel]]:
    """Return the outcome of the hub and the shop; an empty run means training."""
    people = {
        name: replace(party(keys, name, []), model_run=comes_for.get(name, comes_for[HUB]))
        for name in (HUB, SPOKE, THIRD)
    }
    with (
        open_hub_port(transport, people[HUB], keys, folder) as at,
        ThreadPoolExecutor(3) as pool,
    ):
        hub_future = pool.submit(lambda: accept_spokes(people[HUB], at.port)[0])
        spoke_future = pool.submit(join_hub, people[SPOKE], lambda: at.connect(SPOKE))
        spoke_future.exception(20)
        if not spoke_future.exception():
            pool.submit(join_hub, people[THIRD], lambda: at.connect(THIRD)).result(20)
        hub_future.exception(20)
    return hub_future, spoke_future


def refused(outcome: Future[Any], kind: type[Exception]) -> str:
    error = outcome.exception()
    assert type(error) is kind, error
    return str(error)


def test_models_of_one_run_join(transport: str, keys: Path, tmp_path: Path) -> None:
    hub_future, spoke_future = join_both(transport, keys, tmp_path, bank=RUN)
    assert list(hub_future.result().channels) == [THIRD, SPOKE]
    assert spoke_future.result().session == hub_future.result().channels[SPOKE].session


@pytest.mark.parametrize(
    ("comes_for", "message"),
    [
        ({HUB: RUN, SPOKE: b""}, "bank was started to predict, but shop was started to train"),
        ({HUB: b"", SPOKE: RUN}, "bank was started to train, but shop was started to predict"),
    ],
)
def test_training_peer_against_predicting_peer_is_refused_at_both_sides(
    transport: str, keys: Path, tmp_path: Path, comes_for: dict[str, bytes], message: str
) -> None:
    hub_future, spoke_future = join_both(transport, keys, tmp_path, **comes_for)
    assert message in refused(hub_future, RemoteProtocolError)
    assert message in refused(spoke_future, Aborted)
    error = hub_future.exception()
    assert isinstance(error, ProtocolError)
    assert error.hint == "start both parties with the same command"


def test_models_of_different_runs_are_refused_and_both_are_named(
    transport: str, keys: Path, tmp_path: Path
) -> None:
    hub_future, spoke_future = join_both(transport, keys, tmp_path, bank=RUN, shop=OTHER)
    for message in (refused(hub_future, RemoteProtocolError), refused(spoke_future, Aborted)):
        assert (
            f"bank uses the model of run {RUN.hex()}, shop uses the model of run {OTHER.hex()}"
            in message
        )


@pytest.mark.parametrize(("hub", "spoke"), [(RUN, b""), (b"", RUN), (RUN, OTHER)])
def test_hub_that_accepts_every_purpose_is_refused_by_its_signature(
    transport: str,
    keys: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    hub: bytes,
    spoke: bytes,
) -> None:
    monkeypatch.setattr(handshake, "_check_purpose", lambda *_, **__: None)
    _, spoke_future = join_both(transport, keys, tmp_path, bank=hub, shop=spoke)
    assert "the signature of bank for 'welcome' is invalid" in refused(spoke_future, IdentityError)
