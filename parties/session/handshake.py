"""Handshake: hub and spoke prove their identities and compare their agreements.

The spoke sends Hello, the hub sends Welcome, the spoke sends Accept. Welcome and Accept are signed.
"""

import random
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from math import inf
from time import monotonic, sleep
from typing import Protocol, TypeAlias

from cryptography.x509 import load_der_x509_certificate

from configs.config_file import agreement_differences
from configs.errors import ConfigError
from parties import __version__
from parties.common.errors import ABSENT, ClocksApart, Superseded, abort_reason_before_proof
from parties.common.printable import printable
from parties.session.party import PartyContext
from protocol import vfl_pb2
from protocol.channel import Channel
from protocol.credentials import delay_refusal, verify_signature
from protocol.envelope import PROTOCOL_BEFORE, PROTOCOL_VERSION
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
RECHECK_SECONDS = 5.0  # time between two checks of the hub's certificate at a spoke
WELCOME_SECONDS = 150.0  # how long a spoke waits for Welcome before it sends a new Hello
NONCE = 32  # bytes
BRIEFLY = 0.1  # seconds that a hub waits for a spoke before it does something else


@dataclass(frozen=True, slots=True)
class CheckpointOffer:
    """The checkpoints from which a party can resume, as sent in the handshake."""

    # ID of the run that wrote the checkpoints, 16 bytes; empty if there is no checkpoint.
    run: bytes = b""
    numbers: tuple[int, ...] = ()  # numbers of the checkpoints, ascending
    kept: int | None = None  # number of the newest file in the store of models; None: none


NO_CHECKPOINTS = CheckpointOffer()


# What a hub does while it waits for spokes, with the channels of those that have joined. It returns
# the names of spokes that are lost.
Meanwhile: TypeAlias = Callable[[Mapping[str, Channel]], Collection[str]]


class SpokePort(Protocol):
    """The hub's listening port, which accepts the connections of the spokes."""

    def accept(self, timeout: float) -> Line:
        """Wait at most ``timeout`` seconds for the next spoke; return the connection to this spoke.

        Raises:
            PeerSilent: no spoke connected in time.
            IdentityError: the certificate of the spoke is refused.
        """


def software_version() -> str:
    """Return name and version of this program, as sent in Hello and Welcome."""
    return f"vfl {__version__}"


def join_hub(
    party: PartyContext,
    connect: Callable[[], Line],
    offer: CheckpointOffer = NO_CHECKPOINTS,
    seconds: float | None = None,
    busy_seconds: float = 0.0,
) -> Channel:
    """Connect to the hub and carry out the spoke's side of the handshake.

    Args:
        party: this party.
        connect: opens a connection to the hub.
        offer: checkpoints from which this party can resume.
        seconds: how long to try to connect; default ``limits.join_seconds``.
        busy_seconds: how long to wait for a reply if the hub accepted the connection but is busy.

    Raises:
        RemoteProtocolError: the hub is absent, refuses this party, or breaks the protocol.
        IdentityError: the hub does not prove its identity.
    """
    hub = party.agreement.hub
    party.progress.phase(f"waiting for {hub}")
    seconds, began = seconds or party.limits.join_seconds, monotonic()
    deadline = began + seconds
    while True:
        channel = Channel(connect(), Side.SPOKE, party.terms(hub), party.traffic.record)
        nonce = party.entropy(NONCE)
        try:
            sent = monotonic()
            channel.send(_hello(party, nonce, offer))
            welcome = channel.receive(max(1.0, min(deadline - monotonic(), WELCOME_SECONDS)))
            break
        except PeerSilent as error:  # send a new Hello: the hub may read it sooner
            channel.cut()
            error.hint = error.hint or f"{hub} is reached but busy: raise limits.join_seconds"
            if monotonic() - began >= max(busy_seconds, seconds - 1.0):
                raise
            deadline = monotonic() + seconds if busy_seconds else deadline
        except LineBroken as error:
            channel.close()
            error.hint = error.hint or f"check that {hub} is started and its address is right"
            if monotonic() > deadline:
                raise
            sleep(random.uniform(0.2, 1.0))  # noqa: S311  jitter is no secret
        except ProtocolError:
            channel.close()
            raise
    _accept_or_refuse(party, channel, nonce, welcome, monotonic() - sent)
    return channel


def _accept_or_refuse(
    party: PartyContext, channel: Channel, nonce: bytes, welcome: Message, round_trip: float
) -> None:
    try:
        _accept(party, channel, nonce, welcome, round_trip)
    except Exception as error:
        _refuse(error, channel.abort)
        channel.close()
        raise


def _refuse(error: Exception, abort: Callable[[str, str], None]) -> None:
    """Abort; after an identity error with a delay, so that its duration does not show the cause."""
    if isinstance(error, IdentityError):
        delay_refusal()
    abort(*abort_reason_before_proof(error))


def _hello(party: PartyContext, nonce: bytes, offer: CheckpointOffer) -> vfl_pb2.Hello:
    return vfl_pb2.Hello(
        oldest_version=PROTOCOL_BEFORE,
        newest_version=PROTOCOL_VERSION,
        nonce=nonce,
        agreement=party.canonical_agreement,
        clock=party.now().timestamp(),
        software=software_version(),
        run=offer.run or None,
        checkpoints=offer.numbers,
        prediction=vfl_pb2.Prediction(run=party.model_run) if party.model_run else None,
        serves=True if party.serves else None,
        replays=party.replays or None,
        kept=offer.kept,
        base=_base(party) if party.continues else None,
    )


def _base(party: PartyContext) -> vfl_pb2.BaseVersion:
    """The version from which the party goes on; without fields if the party is new."""
    if party.base is None:
        return vfl_pb2.BaseVersion()
    return vfl_pb2.BaseVersion(run=party.base.run, number=party.base.number)


def _accept(
    party: PartyContext, channel: Channel, nonce: bytes, message: Message, round_trip: float
) -> None:
    welcome = message.expect(vfl_pb2.Welcome)
    if channel.session is None or len(channel.session) != 16 or len(welcome.nonce) != NONCE:
        raise RemoteProtocolError(
            "the session ID or the nonce in the hub's Welcome is missing or has a wrong length"
        )
    if not PROTOCOL_BEFORE <= channel.version <= PROTOCOL_VERSION:
        raise RemoteProtocolError(
            f"{channel.terms.peer} chose protocol version {channel.version}; {party.name} supports "
            f"versions {PROTOCOL_BEFORE} to {PROTOCOL_VERSION}"
        )
    _compare_clocks(party, channel.terms.peer, welcome.clock, round_trip)
    _compare_software(party, channel.terms.peer, welcome.software)
    signed = _signed_fields(
        party.purpose, channel, channel.terms.peer, party.name, nonce, welcome.nonce
    )
    signer = verify_signature(
        party.trust, welcome.certificate, welcome.signature, party.now(), "welcome", *signed
    )
    if signer != channel.terms.peer:
        raise IdentityError(
            f"the Welcome was signed by {signer}; expected the signature of {channel.terms.peer}"
        )
    hub = load_der_x509_certificate(welcome.certificate)
    joined = party.now()  # whatever the clock says later: the list of denied keys may change
    channel.keep_checking(lambda: party.trust.check(hub, joined), RECHECK_SECONDS)
    signature = party.keyring.identity.sign("accept", *signed)
    channel.send(vfl_pb2.Accept(certificate=party.keyring.identity.der, signature=signature))


def accept_spokes(
    party: PartyContext,
    port: SpokePort,
    seconds: float | None = None,
    meanwhile: Meanwhile | None = None,
) -> tuple[Hub, dict[str, CheckpointOffer]]:
    """Wait until all spokes are connected and have carried out the handshake.

    Args:
        party: this party, the hub.
        port: accepts the connections of the spokes.
        seconds: how long to wait; default ``limits.join_seconds``.
        meanwhile: called again and again while spokes are absent.

    Returns:
        The hub with all channels, and the checkpoints that each spoke can resume from.

    Raises:
        PeerSilent: a spoke did not join in time; the error names the spoke.
        RemoteProtocolError: a spoke has another agreement; the error names the keys that differ.
        IdentityError: a spoke does not prove its identity.
    """
    expected = party.agreement.spokes
    party.progress.phase("waiting for the others", len(expected))
    seconds = seconds or party.limits.join_seconds
    deadline = monotonic() + seconds
    session = party.entropy(16)
    arrived: dict[str, Channel] = {}
    offers: dict[str, CheckpointOffer] = {}
    newest = ""
    try:
        while len(arrived) < len(expected):
            if meanwhile is not None:
                for lost in meanwhile(arrived):
                    arrived.pop(lost).cut()
                    offers.pop(lost, None)
            channel = _next(party, port, arrived, deadline, seconds, briefly=meanwhile is not None)
            if channel is not None:
                newest = channel.terms.peer
                admit_spoke(party, channel, session, arrived, offers)
                party.progress.step()
    except Exception as error:
        abort_channels(Hub(arrived), error, getattr(error, "peer", "") or newest)
        raise
    return Hub({name: arrived[name] for name in expected}), offers


def abort_channels(hub: Hub, error: Exception, culprit: str) -> None:
    """Abort all channels because of ``error``.

    The code of ``error`` is sent to the party ``culprit``, or to all parties if ``culprit`` is
    empty. All other parties receive the code ``ABSENT`` and may then reconnect.
    """
    if isinstance(error, IdentityError):
        delay_refusal()
    code, reason = abort_reason_before_proof(error)
    for name, channel in hub.channels.items():
        channel.abort(code if culprit in ("", name) else ABSENT, reason)


def _next(
    party: PartyContext,
    port: SpokePort,
    admitted: dict[str, Channel],
    deadline: float,
    seconds: float,
    *,
    briefly: bool,
) -> Channel | None:
    """The channel of the next spoke; None if no spoke connected, and the hub waits on."""
    left = max(0.0, deadline - monotonic())
    try:
        line = port.accept(min(left, BRIEFLY) if briefly else left)
    except IdentityError as error:  # the expected spokes may still connect
        party.progress.warn(f"refused a connection: {error}")
        return None
    except PeerSilent:
        if monotonic() < deadline:
            return None
        missing = [name for name in party.agreement.spokes if name not in admitted]
        raise PeerSilent(
            f"{', '.join(missing)} did not join within {seconds:g} s",
            "check that these parties are started and have this hub's address",
        ) from None
    return Channel(line, Side.HUB, party.terms(str(line.peer)), party.traffic.record)


def admit_spoke(
    party: PartyContext,
    channel: Channel,
    session: bytes,
    arrived: dict[str, Channel],
    offers: dict[str, CheckpointOffer],
) -> None:
    """Carry out the hub's side of the handshake and add the spoke to ``arrived`` and ``offers``.

    The hub refuses the spoke with a warning and continues in two cases: the connection breaks, or a
    newer process of the same party is already connected.

    Args:
        party: this party, the hub.
        channel: the new spoke's channel.
        session: 16 bytes that identify the session.
        arrived: channels of admitted spokes, by name.
        offers: checkpoints that admitted spokes can resume from, by name.
    """
    name = channel.terms.peer
    before = arrived.get(name)
    arrived[name] = channel
    try:
        offers[name] = _exchange_proofs(party, channel, session, before)
    except (Superseded, LineBroken) as error:  # the party may connect again
        channel.abort(*abort_reason_before_proof(error))
        channel.close()
        party.progress.warn(str(error))
        del arrived[name]
        if before is not None:
            arrived[name] = before


def _exchange_proofs(
    party: PartyContext, channel: Channel, session: bytes, before: Channel | None
) -> CheckpointOffer:
    patience = party.limits.step_seconds
    hello = channel.receive(patience).expect(vfl_pb2.Hello)
    if before is not None and (channel.incarnation or 0) < (before.incarnation or 0):
        raise Superseded(
            f"an older process of {channel.terms.peer} (start {channel.incarnation}) connected "
            f"after the newer process (start {before.incarnation})",
            "run one process per party: end the older process",
        )
    _check_hello(party, channel, hello)
    channel.session, nonce = session, party.entropy(NONCE)
    signed = _signed_fields(
        party.purpose, channel, party.name, channel.terms.peer, hello.nonce, nonce
    )
    channel.send(
        vfl_pb2.Welcome(
            nonce=nonce,
            clock=party.now().timestamp(),
            software=software_version(),
            certificate=party.keyring.identity.der,
            signature=party.keyring.identity.sign("welcome", *signed),
        )
    )
    accept = channel.receive(patience).expect(vfl_pb2.Accept)
    signer = verify_signature(
        party.trust, accept.certificate, accept.signature, party.now(), "accept", *signed
    )
    if signer != channel.terms.peer:
        raise IdentityError(
            f"the Accept was signed by {signer}; expected the signature of {channel.terms.peer}"
        )
    kept = hello.kept if hello.HasField("kept") else None
    return CheckpointOffer(hello.run, tuple(hello.checkpoints), kept)


def _check_hello(party: PartyContext, channel: Channel, hello: vfl_pb2.Hello) -> None:
    peer = channel.terms.peer
    if len(hello.nonce) != NONCE:
        raise RemoteProtocolError(
            f"{peer} sent a nonce of {len(hello.nonce)} bytes; expected {NONCE} bytes"
        )
    _choose_version(party, channel, hello)
    _check_purpose(party, peer, hello)
    try:
        found = agreement_differences(party.canonical_agreement, hello.agreement)
    except ConfigError as error:
        raise RemoteProtocolError(
            f"{peer} sent an agreement that cannot be compared: {error}"
        ) from error
    if found:
        listed = "; ".join(
            f"{printable(field, 120)} is {_shortened(ours)} at {party.name} "
            f"and {_shortened(theirs)} at {peer}"
            for field, ours, theirs in found[:10]
        )
        raise RemoteProtocolError(
            f"the agreements differ: {listed}", "use the same agreement file at both parties"
        )
    # Nothing bounds the age of Hello: the spoke may have waited for the network or for this hub.
    # The spoke knows the time from Hello to Welcome, and also refuses a clock that is behind.
    _compare_clocks(party, peer, hello.clock, inf)
    _compare_software(party, peer, hello.software)


def _choose_version(party: PartyContext, channel: Channel, hello: vfl_pb2.Hello) -> None:
    """Set the channel's protocol version: the newest that both parties support."""
    version = min(PROTOCOL_VERSION, hello.newest_version)
    if version < max(PROTOCOL_BEFORE, hello.oldest_version):
        peer, behind = channel.terms.peer, hello.newest_version < PROTOCOL_BEFORE
        theirs = _running(peer, hello.software, hello.oldest_version, hello.newest_version)
        ours = _running(party.name, software_version(), PROTOCOL_BEFORE, PROTOCOL_VERSION)
        raise RemoteProtocolError(
            f"{theirs}, but {ours}: only versions one apart work together",
            f"upgrade {peer if behind else party.name}",
        )
    channel.version = version


def _running(name: str, software: str, oldest: int, newest: int) -> str:
    """Say which program a party runs, and which versions of the protocol it supports."""
    versions = f"version {newest}" if oldest == newest else f"versions {oldest} to {newest}"
    return f"{name} runs {printable(software, 40)} with protocol {versions}"


def _check_purpose(party: PartyContext, peer: str, hello: vfl_pb2.Hello) -> None:
    """Check that both parties were started for the same purpose, with the model of one run."""
    theirs, replays = hello.prediction.run, printable(hello.replays, 40)
    continues = hello.HasField("base")
    ours = _purpose(
        party.model_run, party.replays, serves=party.serves, continues=bool(party.continues)
    )
    found = _purpose(theirs, replays, serves=hello.serves, continues=continues)
    if found != ours:
        raise RemoteProtocolError(
            f"{party.name} was started to {ours}, but {peer} was started to {found}",
            "start both parties with the same command",
        )
    if theirs != party.model_run:
        raise RemoteProtocolError(
            f"the local models belong to different runs: {party.name} uses the model of run "
            f"{party.model_run.hex()}, {peer} uses the model of run {theirs[:16].hex()}",
            "give both parties the files of the same training run",
        )
    if continues:
        _check_base(party, peer, hello.base)


def _check_base(party: PartyContext, peer: str, theirs: vfl_pb2.BaseVersion) -> None:
    """Check that a spoke goes on from the version of this hub, or is new in the federation."""
    ours = party.base
    if ours is None:
        raise RemoteProtocolError(f"{party.name} has no version of the model to go on from")
    if not theirs.HasField("run"):
        if peer in ours.parties:
            raise RemoteProtocolError(
                f"{peer} keeps no model, but {ours} was trained with {peer}",
                f"start {peer} with the folder that has its kept model, or move that model with "
                "vfl models export and import",
            )
        party.progress.note(f"{peer} is new: its part of the model starts from random weights")
        return
    if (theirs.run, theirs.number) != (ours.run, ours.number):
        raise RemoteProtocolError(
            f"{party.name} was started to go on from {ours}, but {peer} from version "
            f"{theirs.number} of run {theirs.run[:4].hex()}",
            "give --from the same number at every party; vfl models list shows the versions",
        )


def _purpose(model_run: bytes, replays: str, *, serves: bool, continues: bool) -> str:
    if replays:
        return f"replay the request {replays}"
    if serves:
        return "serve a kept model"
    if continues:
        return "go on from a kept version (--from)"
    return "predict" if model_run else "train"


def _compare_software(party: PartyContext, peer: str, theirs: str) -> None:
    if theirs != software_version():
        party.progress.warn(f"{peer} runs {theirs[:40]!r}, {party.name} {software_version()!r}")


def _compare_clocks(party: PartyContext, peer: str, theirs: float, age: float) -> None:
    """Compare our clock with ``theirs``, which was read at most ``age`` seconds ago.

    The peer's clock now shows between ``theirs`` and ``theirs + age``. The clocks are at least as
    far apart as our clock is from this interval; only this distance is compared with the limit.
    """
    ahead = theirs - party.now().timestamp()
    apart = max(ahead, -ahead - age, 0.0)  # NaN as first argument stays NaN, and is refused
    if not apart <= CLOCK_LIMIT:
        raise ClocksApart(
            f"the clocks of {party.name} and {peer} are {apart:.0f} s apart; "
            f"expected at most {CLOCK_LIMIT:.0f} s",
            "synchronise both clocks with a time server",
        )
    if apart > CLOCK_WARNING:
        party.progress.warn(f"the clocks of {party.name} and {peer} are {apart:.0f} s apart")


def _signed_fields(
    purpose: bytes, channel: Channel, hub: str, spoke: str, spoke_nonce: bytes, hub_nonce: bytes
) -> tuple[bytes, ...]:
    """Return the fields that the signatures of Welcome and Accept cover."""
    return channel.session or b"", purpose, hub.encode(), spoke.encode(), spoke_nonce, hub_nonce


def _shortened(value: object) -> str:
    return f"{value!r:.60}"
