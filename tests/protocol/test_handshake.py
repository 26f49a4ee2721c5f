"""Handshake: both sides prove their identity and compare agreements before any row is read."""

import re
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest
from handshake_parties import (
    AGREED,
    FIELDS,
    PLAN,
    OpenPort,
    PartyVariant,
    changed,
    open_hub_port,
    party,
    run_scripted_hub,
    sign_correctly,
)

from parties.common.errors import ClocksApart
from parties.session import handshake
from parties.session.handshake import accept_spokes, join_hub
from parties.session.memory_port import MemoryPort
from parties.vertical.engine.party import VerticalParty
from protocol import vfl_pb2 as pb
from protocol.channel import Channel
from protocol.errors import (
    Aborted,
    IdentityError,
    LineBroken,
    PeerSilent,
    RemoteProtocolError,
)
from protocol.hub import Hub
from protocol.line import Line, memory_lines
from protocol.phases import Phase, Side
from tests.conftest import HUB, SPOKE


@pytest.fixture(params=["memory", "grpc"])
def transport(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshake, "sleep", lambda seconds: None)


class JoinAttempt:
    """One attempt to join, with the hub and the spokes in threads."""

    def __init__(self, transport: str, keys: Path, folder: Path) -> None:
        self._transport, self._keys, self._folder = transport, keys, folder
        self.events: dict[str, list[Any]] = {}

    def party(self, name: str, variant: PartyVariant | None = None) -> VerticalParty:
        self.events[name] = []
        return party(self._keys, name, self.events[name], variant)

    def join_all(
        self, hub: VerticalParty, *spokes: VerticalParty
    ) -> tuple[Future[Hub], list[Future[Channel]]]:
        """Return the outcome of the hub and of each spoke."""
        with (
            open_hub_port(self._transport, hub, self._keys, self._folder) as at,
            ThreadPoolExecutor(4) as pool,
        ):
            hub_future = pool.submit(lambda: accept_spokes(hub, at.port)[0])
            spoke_future = [pool.submit(self._greet, spoke, at) for spoke in spokes]
            for each in [hub_future, *spoke_future]:
                each.exception(20)
        return hub_future, spoke_future

    def _greet(self, spoke: VerticalParty, at: OpenPort) -> Channel:
        return join_hub(spoke, lambda: at.connect(spoke.name))

    def warnings(self, name: str) -> list[str]:
        return [event["text"] for event in self.events[name] if event["event"] == "warning"]


@pytest.fixture
def attempt(transport: str, keys: Path, tmp_path: Path) -> JoinAttempt:
    return JoinAttempt(transport, keys, tmp_path)


def refused(outcome: Future[Any], kind: type[Exception]) -> str:
    error = outcome.exception()
    assert type(error) is kind, error
    return str(error)


def test_all_join_in_any_order(attempt: JoinAttempt) -> None:
    parties = [attempt.party(name) for name in ("bank", "shop", "hospital")]
    hub_future, spoke_future = attempt.join_all(*parties)
    hub, (shop, hospital) = hub_future.result(), [each.result() for each in spoke_future]
    assert list(hub) == ["hospital", "shop"]  # in the order of the agreement
    assert all(hub.channels[name].phase is Phase.JOINED for name in hub)
    assert shop.phase is hospital.phase is Phase.JOINED
    sessions = {shop.session, hospital.session, *(c.session for c in hub.channels.values())}
    assert len(sessions) == 1
    assert len(sessions.pop() or b"") == 16
    assert attempt.warnings("bank") == attempt.warnings("shop") == []


def test_sessions_and_nonces_are_new_each_time(keys: Path, tmp_path: Path) -> None:
    attempt = JoinAttempt("memory", keys, tmp_path)
    sessions = set()
    for _ in range(3):
        hub_future, _ = attempt.join_all(
            *(attempt.party(name) for name in ("bank", "shop", "hospital"))
        )
        sessions |= {channel.session for channel in hub_future.result().channels.values()}
    assert len(sessions) == 3


# --- the agreement ------------------------------------------------------------------------------


def test_the_agreement_has_at_least_thirty_fields() -> None:
    assert len(FIELDS) >= 30


@pytest.mark.parametrize("path", FIELDS, ids=".".join)
def test_difference_in_one_field_is_named_at_both_sides(
    keys: Path, tmp_path: Path, path: tuple[str, ...]
) -> None:
    differ(JoinAttempt("memory", keys, tmp_path), path)


@pytest.mark.parametrize("name", ["training.epochs", "parties.shop.width", "unlearn"])
def test_difference_is_named_over_every_transport(attempt: JoinAttempt, name: str) -> None:
    differ(attempt, tuple(name.split(".")))


def differ(attempt: JoinAttempt, path: tuple[str, ...]) -> None:
    variant = PartyVariant(agreement_text=changed(AGREED, path))
    hub_future, (spoke_future,) = attempt.join_all(
        attempt.party("bank"), attempt.party("shop", variant)
    )
    ours = refused(hub_future, RemoteProtocolError)
    theirs = refused(spoke_future, Aborted)
    for message in (ours, theirs):
        assert f"the agreements differ: {'.'.join(path)} is " in message
        assert " at bank and " in message
        assert " at shop" in message
        assert ";" not in message.partition("differ")[2].partition(" at shop")[2]  # nothing else
    error = spoke_future.exception()
    assert isinstance(error, Aborted)
    assert error.code == "protocol"


def test_missing_and_additional_fields_are_named(attempt: JoinAttempt) -> None:
    more = changed({**AGREED, "more": 0}, ("more",))
    hub_future, _ = attempt.join_all(
        attempt.party("bank"), attempt.party("shop", PartyVariant(agreement_text=more))
    )
    assert "more is None at bank and 1 at shop" in refused(hub_future, RemoteProtocolError)


@pytest.mark.parametrize("text", ["", "{", "[]", "5", "null", "[" * 5000, '"' + "x" * 40_000])
def test_text_that_is_no_agreement_is_refused(attempt: JoinAttempt, text: str) -> None:
    hub_future, (spoke_future,) = attempt.join_all(
        attempt.party("bank"), attempt.party("shop", PartyVariant(agreement_text=text))
    )
    assert "shop" in refused(hub_future, RemoteProtocolError)
    refused(spoke_future, Aborted)


# --- clocks, versions ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shift", "warned"), [(10.0, ["bank", "shop"]), (-10.0, ["shop"])], ids=["ahead", "behind"]
)
def test_clocks_ten_seconds_apart_are_warned_of(
    attempt: JoinAttempt, shift: float, warned: list[str]
) -> None:
    """The hub cannot tell a clock that is behind from a delayed Hello; the spoke can."""
    variant = PartyVariant(shift=shift)
    attempt.join_all(
        attempt.party("bank"), attempt.party("shop", variant), attempt.party("hospital")
    )[0].result()
    for name in warned:
        (warning,) = attempt.warnings(name)
        assert warning.startswith("the clocks of ")
        assert warning.endswith((" are 10 s apart", " are 9 s apart"))


@pytest.mark.parametrize("shift", [400.0, -400.0], ids=["ahead", "behind"])
def test_clocks_far_apart_are_refused(attempt: JoinAttempt, shift: float) -> None:
    """The hub refuses a spoke that is ahead; a spoke that is behind refuses the hub."""
    hub_future, (spoke_future,) = attempt.join_all(
        attempt.party("bank"), attempt.party("shop", PartyVariant(shift=shift))
    )
    refusing, told = (hub_future, spoke_future) if shift > 0 else (spoke_future, hub_future)
    names = "bank and shop" if shift > 0 else "shop and bank"
    apart = rf"the clocks of {names} are (400|399) s apart"
    assert re.search(apart, refused(refusing, ClocksApart))
    assert re.search(apart, refused(told, Aborted))


def join_delayed_hub(keys: Path, ahead: float, delay: float) -> list[Any]:
    """Join a hub whose Welcome takes ``delay`` seconds; return the spoke's events."""
    ends, events = memory_lines(SPOKE), list[Any]()
    hub = party(keys, HUB, [])

    def answer() -> None:
        sleep(delay)
        run_scripted_hub(hub, ends[0], sign_correctly, ahead=ahead)

    with ThreadPoolExecutor(1) as pool:
        answering = pool.submit(answer)
        try:
            join_hub(party(keys, SPOKE, events), lambda: ends[1])
        finally:
            answering.result(10)
    return events


@pytest.mark.parametrize(
    ("ahead", "apart"), [(-1.0, None), (-3.5, "2 s"), (2.0, "2 s")], ids=["less", "behind", "ahead"]
)
def test_delay_of_welcome_is_subtracted_from_the_clock_difference(
    keys: Path, monkeypatch: pytest.MonkeyPatch, ahead: float, apart: str | None
) -> None:
    """A clock that is behind by less than the round trip of 1.5 s may as well be right."""
    monkeypatch.setattr(handshake, "CLOCK_WARNING", 0.4)
    events = join_delayed_hub(keys, ahead, 1.5)
    warnings = [each["text"] for each in events if "clocks" in str(each)]
    assert bool(warnings) is (apart is not None), warnings
    assert not warnings or warnings[0].endswith(f"are {apart} apart")


def test_difference_beyond_limit_and_delay_is_refused(
    keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handshake, "CLOCK_LIMIT", 1.0)
    join_delayed_hub(keys, -1.9, 1.0)  # at least 0.9 s of the difference may be the delay
    with pytest.raises(ClocksApart, match="the clocks of shop and bank are"):
        join_delayed_hub(keys, -3.0, 1.0)


def test_old_hello_is_no_clock_difference(keys: Path) -> None:
    """Hello is read long after it was written: on a busy machine TLS takes seconds."""
    port, events = MemoryPort(), list[Any]()
    shop = with_short_timeouts(keys, SPOKE, [])
    channel = Channel(port.connect(SPOKE), Side.SPOKE, shop.terms(HUB), lambda record: None)
    clock = shop.now().timestamp() - 400.0
    channel.send(
        pb.Hello(
            oldest_version=3,
            newest_version=3,
            nonce=b"n" * 32,
            agreement=shop.canonical_agreement,
            clock=clock,
            software="vfl 9.9.9",
        )
    )
    channel.line.close()
    bank = with_short_timeouts(keys, HUB, events)
    with pytest.raises(PeerSilent, match="hospital, shop did not join"):
        accept_spokes(bank, port)
    warnings = [event["text"] for event in events if event["event"] == "warning"]
    assert not [each for each in warnings if "clocks" in each]
    # Another version of the package is warned of; only the version of the protocol must be equal.
    assert f"shop runs 'vfl 9.9.9', bank '{handshake.software_version()}'" in warnings


# --- absent and refused parties -----------------------------------------------------------------


def with_short_timeouts(
    keys: Path, name: str, events: list[Any], seconds: float = 0.2
) -> VerticalParty:
    limits = {"join_seconds": seconds, "step_seconds": seconds}
    return party(keys, name, events, PartyVariant(plan={**PLAN, "limits": limits}))


def test_missing_parties_are_named_after_the_deadline(keys: Path) -> None:
    started = monotonic()
    with pytest.raises(PeerSilent, match=r"hospital, shop did not join within 0\.2 s"):
        accept_spokes(with_short_timeouts(keys, HUB, []), MemoryPort())
    assert monotonic() - started < 1.2


def test_spokes_that_joined_learn_who_did_not(keys: Path) -> None:
    port = MemoryPort()
    with ThreadPoolExecutor(1) as pool:
        shop = with_short_timeouts(keys, SPOKE, [])
        spoke_future = pool.submit(join_hub, shop, lambda: port.connect(SPOKE))
        with pytest.raises(PeerSilent, match=r"^hospital did not join within 0\.2 s"):
            accept_spokes(with_short_timeouts(keys, HUB, []), port)
        with pytest.raises(Aborted, match="hospital did not join"):
            spoke_future.result(5).receive(5)


def test_supervised_parties_wait_beyond_the_limits(keys: Path) -> None:
    """In a simulation the hub waits for a spoke as long as its process lives."""
    port = MemoryPort()
    hub, *spokes = (
        replace(with_short_timeouts(keys, name, []), supervised=True)
        for name in (HUB, SPOKE, "hospital")
    )
    with ThreadPoolExecutor(3) as pool:
        hub_future = pool.submit(lambda: accept_spokes(hub, port)[0])
        sleep(1)
        assert not hub_future.done()
        spoke_future = [
            pool.submit(join_hub, each, partial(port.connect, each.name)) for each in spokes
        ]
        assert {each.result(20).phase for each in spoke_future} == {Phase.JOINED}
        assert list(hub_future.result(20)) == ["hospital", "shop"]


def test_supervision_changes_only_the_waiting(keys: Path) -> None:
    usual = party(keys, HUB, [])
    watched = replace(usual, supervised=True)
    limits, agreed = watched.limits.model_dump(), usual.limits.model_dump()
    waits = {"join_seconds", "step_seconds", "idle_seconds", "rejoin_seconds"}
    assert {name for name in limits if limits[name] != agreed[name]} == waits
    assert min(limits[name] for name in waits) > 1e5
    assert watched.digest == usual.digest
    timeouts = watched.line_timeouts
    assert min(timeouts.silence, timeouts.handshake, timeouts.keepalive_timeout) > 1e5
    assert timeouts.heartbeat == usual.line_timeouts.heartbeat
    assert watched.terms(SPOKE).send_seconds > 1e5


def test_supervised_party_that_must_not_reconnect_does_not(keys: Path) -> None:
    plan = {**PLAN, "limits": {"rejoin_seconds": 0}}
    watched = replace(party(keys, HUB, [], PartyVariant(plan=plan)), supervised=True)
    assert watched.limits.rejoin_seconds == 0


def test_refused_party_is_reported_and_the_others_join(keys: Path, tmp_path: Path) -> None:
    events: list[Any] = []
    hub = party(keys, HUB, events)
    with open_hub_port("grpc", hub, keys, tmp_path) as at, ThreadPoolExecutor(3) as pool:
        hub_future = pool.submit(lambda: accept_spokes(hub, at.port)[0])
        with pytest.raises(
            IdentityError, match="the hub refused this party's certificate"
        ) as theirs:
            join_hub(party(keys, "stranger", []), lambda: at.connect("stranger"))
        spoke_future = [
            pool.submit(join_hub, party(keys, name, []), partial(at.connect, name))
            for name in (SPOKE, "hospital")
        ]
        assert {each.result(5).phase for each in spoke_future} == {Phase.JOINED}
        assert list(hub_future.result(5)) == ["hospital", "shop"]
    (warning,) = [event["text"] for event in events if event["event"] == "warning"]
    assert (
        "refused a connection: stranger is not a passive party of this agreement (ticket "
        in warning
    )
    assert warning.rpartition("(")[2] in str(theirs.value)  # the ticket


def test_spoke_that_sends_nothing_is_named(keys: Path) -> None:
    port = MemoryPort()
    port.connect(SPOKE)
    with pytest.raises(PeerSilent, match=r"shop: the peer sent no message for 0\.2 s \(join\)"):
        accept_spokes(with_short_timeouts(keys, HUB, []), port)


def test_spoke_connects_again_until_the_hub_accepts(keys: Path) -> None:
    ends, dead = memory_lines(SPOKE), memory_lines(SPOKE)
    dead[0].close()
    waiting = iter([dead[1], dead[1], ends[1]])
    with ThreadPoolExecutor(1) as pool:
        hub_future = pool.submit(run_scripted_hub, party(keys, HUB, []), ends[0], sign_correctly)
        assert join_hub(party(keys, SPOKE, []), lambda: next(waiting)).phase is Phase.JOINED
        hub_future.result(5)


def test_spoke_gives_up_after_the_deadline_with_a_hint(keys: Path) -> None:
    def closed_line() -> Line:
        ends = memory_lines(SPOKE)
        ends[0].close()
        return ends[1]

    with pytest.raises(LineBroken, match="bank: closed the connection") as error:
        join_hub(with_short_timeouts(keys, SPOKE, [], 0.05), closed_line)
    assert "check that bank is started" in error.value.hint
