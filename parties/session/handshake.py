"""The greeting: each side proves who it is, and that both hold the same agreement."""

import random
from collections.abc import Callable
from importlib.metadata import version
from time import monotonic, sleep
from typing import Protocol

from configs.errors import ConfigError
from configs.schema import differences
from parties.common.errors import ABSENT, ClocksApart, Superseded, at_the_door
from parties.common.printable import printable
from parties.session.checkpoint_offer import NOTHING, Held
from parties.session.party import Seated
from protocol import vfl_pb2
from protocol.channel import Channel
from protocol.credentials import hesitate, verify
from protocol.envelope import VERSION
from protocol.errors import (
    IdentityError,
    LineBroken,
    PeerSilent,
    ProtocolError,
    RemoteProtocolError,
)
from protocol.hub import Hub
from protocol.line import Line
from protocol.message import Message
from protocol.phases import Side

CLOCK_WARNING, CLOCK_LIMIT = 5.0, 300.0  # seconds
FRESH = 150.0  # seconds that a greeting waits for its answer before a new one is sent
NONCE = 32  # bytes


class Port(Protocol):
    """Where spokes arrive."""

    def accept(self, timeout: float) -> Line:
        """The next spoke's line; raises ``PeerSilent`` or ``IdentityError``."""


def software() -> str:
    """Name and version of this program, as peers see it."""
    return f"vfl {version('vfl')}"


def greet(
    party: Seated,
    connect: Callable[[], Line],
    held: Held = NOTHING,
    seconds: float | None = None,
    busy: float = 0.0,
) -> Channel:
    """The spoke's side: dial until the hub is there, and prove each other.

    ``held`` is what we could go on from; ``seconds`` that a hub is given to be there, are
    ``limits.join_seconds`` unless given; for ``busy`` seconds one that is there may be silent.

    Raises:
        RemoteProtocolError: the hub does not come, refuses us, or is not the hub.
    """
    hub = party.agreement.hub
    party.watch.phase(f"waiting for {hub}")
    seconds, began = seconds or party.agreement.limits.join_seconds, monotonic()
    deadline = began + seconds
    while True:
        channel = Channel(connect(), Side.SPOKE, party.terms(hub), party.ledger.record)
        nonce = party.entropy(NONCE)
        try:
            channel.send(_hello(party, nonce, held))
            welcome = channel.receive(max(1.0, min(deadline - monotonic(), FRESH)))
            break
        except PeerSilent:  # a new greeting, since it may not be old when it is read
            channel.cut()
            if monotonic() - began >= max(busy, seconds - 1.0):
                raise
            deadline = monotonic() + seconds if busy else deadline
        except LineBroken as error:
            channel.close()
            error.hint = error.hint or f"is {hub} started, and its address right?"
            if monotonic() > deadline:
                raise
            sleep(random.uniform(0.2, 1.0))  # noqa: S311  jitter, no secret
        except ProtocolError:
            channel.close()
            raise
    try:
        _accept(party, channel, nonce, welcome)
    except Exception as error:
        _refuse(error, channel.abort)
        channel.close()
        raise
    return channel


def _refuse(error: Exception, abort: Callable[[str, str], None]) -> None:
    """Tell the other side that it is over; who is not believed cannot tell why by the time."""
    if isinstance(error, IdentityError):
        hesitate()
    abort(*at_the_door(error))


def _hello(party: Seated, nonce: bytes, held: Held) -> vfl_pb2.Hello:
    return vfl_pb2.Hello(
        oldest_version=VERSION,
        newest_version=VERSION,
        nonce=nonce,
        agreement=party.canonical,
        clock=party.now().timestamp(),
        software=software(),
        run=held.run or None,
        checkpoints=held.numbers,
        prediction=vfl_pb2.Prediction(run=party.predicts) if party.predicts else None,
    )


def _accept(party: Seated, channel: Channel, nonce: bytes, message: Message) -> None:
    welcome = message.expect(vfl_pb2.Welcome)
    if channel.session is None or len(channel.session) != 16 or len(welcome.nonce) != NONCE:
        raise RemoteProtocolError("the hub's welcome lacks a session or nonce")
    _compare_clocks(party, channel.terms.peer, welcome.clock)
    _compare_software(party, channel.terms.peer, welcome.software)
    bound = _bound(party.purpose, channel, channel.terms.peer, party.name, nonce, welcome.nonce)
    signer = verify(
        party.trust, welcome.certificate, welcome.signature, party.now(), "welcome", *bound
    )
    if signer != channel.terms.peer:
        raise IdentityError(f"{signer} stands in the place of {channel.terms.peer}")
    signature = party.keyring.identity.sign("accept", *bound)
    channel.send(vfl_pb2.Accept(certificate=party.keyring.identity.der, signature=signature))


def welcome(party: Seated, port: Port, seconds: float | None = None) -> tuple[Hub, dict[str, Held]]:
    """The hub's side: wait for every passive party to take its place at the table.

    ``seconds`` are ``limits.join_seconds`` unless given.

    Returns:
        All of them, and what each could go on from.

    Raises:
        PeerSilent: not all came in time; the error names who is missing.
        RemoteProtocolError: one came with another agreement; the error names the field.
    """
    expected = party.agreement.spokes
    party.watch.phase("waiting for the others", len(expected))
    seconds = seconds or party.agreement.limits.join_seconds
    deadline = monotonic() + seconds
    session = party.entropy(16)
    arrived: dict[str, Channel] = {}
    offers: dict[str, Held] = {}
    newest = ""
    try:
        while len(arrived) < len(expected):
            channel = _next(party, port, arrived, deadline, seconds)
            if channel is not None:
                newest = channel.terms.peer
                seat(party, channel, session, arrived, offers)
                party.watch.step()
    except Exception as error:
        dismiss(Hub(arrived), error, newest)
        raise
    return Hub({name: arrived[name] for name in expected}), offers


def dismiss(hub: Hub, error: Exception, culprit: str) -> None:
    """End every conversation; whom the error is not about hears only that another is missing."""
    if isinstance(error, IdentityError):
        hesitate()
    code, reason = at_the_door(error)
    for name, channel in hub.channels.items():
        channel.abort(code if culprit in ("", name) else ABSENT, reason)


def _next(
    party: Seated, port: Port, seated: dict[str, Channel], deadline: float, seconds: float
) -> Channel | None:
    try:
        line = port.accept(max(0.0, deadline - monotonic()))
    except IdentityError as error:  # somebody else may still come
        party.watch.warn(f"refused a visitor: {error}")
        return None
    except PeerSilent:
        missing = [name for name in party.agreement.spokes if name not in seated]
        raise PeerSilent(
            f"{', '.join(missing)} did not join within {seconds:g} s",
            "are they started, with this hub's address?",
        ) from None
    return Channel(line, Side.HUB, party.terms(str(line.peer)), party.ledger.record)


def seat(
    party: Seated,
    channel: Channel,
    session: bytes,
    arrived: dict[str, Channel],
    offers: dict[str, Held],
) -> None:
    """Seat a spoke; the older of two processes of one party is sent away, and the run goes on."""
    name = channel.terms.peer
    before = arrived.get(name)
    arrived[name] = channel
    try:
        offers[name] = _greeted(party, channel, session, before)
    except (Superseded, LineBroken) as error:  # it may come again
        channel.abort(*at_the_door(error))
        channel.close()
        party.watch.warn(str(error))
        del arrived[name]
        if before is not None:
            arrived[name] = before


def _greeted(party: Seated, channel: Channel, session: bytes, before: Channel | None) -> Held:
    patience = party.agreement.limits.step_seconds
    hello = channel.receive(patience).expect(vfl_pb2.Hello)
    if before is not None and (channel.incarnation or 0) < (before.incarnation or 0):
        raise Superseded(
            f"start {channel.incarnation} of {channel.terms.peer} came after its start "
            f"{before.incarnation}",
            "one process a seat: end the older one",
        )
    _check_hello(party, channel, hello)
    channel.session, nonce = session, party.entropy(NONCE)
    bound = _bound(party.purpose, channel, party.name, channel.terms.peer, hello.nonce, nonce)
    channel.send(
        vfl_pb2.Welcome(
            nonce=nonce,
            clock=party.now().timestamp(),
            software=software(),
            certificate=party.keyring.identity.der,
            signature=party.keyring.identity.sign("welcome", *bound),
        )
    )
    accept = channel.receive(patience).expect(vfl_pb2.Accept)
    signer = verify(
        party.trust, accept.certificate, accept.signature, party.now(), "accept", *bound
    )
    if signer != channel.terms.peer:
        raise IdentityError(f"{signer} signed in the place of {channel.terms.peer}")
    return Held(hello.run, tuple(hello.checkpoints))


def _check_hello(party: Seated, channel: Channel, hello: vfl_pb2.Hello) -> None:
    peer = channel.terms.peer
    if len(hello.nonce) != NONCE:
        raise RemoteProtocolError(f"{peer} sent a nonce of {len(hello.nonce)} bytes, not {NONCE}")
    if not hello.oldest_version <= VERSION <= hello.newest_version:
        raise RemoteProtocolError(
            f"{peer} speaks versions {hello.oldest_version} to {hello.newest_version}, "
            f"{party.name} version {VERSION}",
            "install the same version of vfl at both",
        )
    _same_purpose(party, peer, hello.prediction.run)
    try:
        found = differences(party.canonical, hello.agreement)
    except ConfigError as error:
        raise RemoteProtocolError(f"{peer}: {error}") from error
    if found:
        listed = "; ".join(
            f"{printable(field, 120)} is {_short(ours)} at {party.name} "
            f"and {_short(theirs)} at {peer}"
            for field, ours, theirs in found[:10]
        )
        raise RemoteProtocolError(f"the agreements differ: {listed}", "start from the same file")
    _compare_clocks(party, peer, hello.clock, monotonic() - channel.line.since)
    _compare_software(party, peer, hello.software)


def _same_purpose(party: Seated, peer: str, theirs: bytes) -> None:
    """Both train, or both predict with halves of one model."""
    if bool(theirs) is not bool(party.predicts):
        ours, other = ("predicts", "trains") if party.predicts else ("trains", "predicts")
        raise RemoteProtocolError(
            f"{party.name} {ours}, {peer} {other}", "start both with the same command"
        )
    if theirs != party.predicts:
        raise RemoteProtocolError(
            f"the halves are of different models: {party.name} has that of run "
            f"{party.predicts.hex()}, {peer} that of run {theirs[:16].hex()}",
            "each needs what it kept of the same training run",
        )


def _compare_software(party: Seated, peer: str, theirs: str) -> None:
    if theirs != software():
        party.watch.warn(f"{peer} runs {theirs[:40]!r}, {party.name} {software()!r}")


def _compare_clocks(party: Seated, peer: str, theirs: float, waited: float = 0.0) -> None:
    """``theirs`` was said up to ``waited`` seconds ago."""
    ahead = theirs - party.now().timestamp()
    apart = max(ahead, -ahead - waited, 0.0)  # what is no number stays so, as it is the first
    if not apart <= CLOCK_LIMIT:
        raise ClocksApart(
            f"the clocks of {party.name} and {peer} are {apart:.0f} s apart, "
            f"more than {CLOCK_LIMIT:.0f} s",
            "set both by a time server",
        )
    if apart > CLOCK_WARNING:
        party.watch.warn(f"the clocks of {party.name} and {peer} are {apart:.0f} s apart")


def _bound(
    purpose: bytes, channel: Channel, hub: str, spoke: str, nonce: bytes, answer: bytes
) -> tuple[bytes, ...]:
    """What both signatures of a greeting cover."""
    return channel.session or b"", purpose, hub.encode(), spoke.encode(), nonce, answer


def _short(value: object) -> str:
    return f"{value!r:.60}"
