"""Admission: the server accepts clients at the start, and accepts lost clients again later."""

from collections.abc import Mapping, Sequence
from time import monotonic

from parties.common.errors import abort_reason, abort_reason_before_proof
from parties.horizontal.engine.cohort import quorum_count
from parties.horizontal.party import FederatedParty
from parties.session import handshake
from protocol.channel import Channel
from protocol.errors import IdentityError, PeerSilent, ProtocolError
from protocol.line import Line
from protocol.phases import Side

POLL_SECONDS = 0.001  # long enough for connections that wait already


class Admission:
    """Accepts the connections of clients, in one session for the whole run."""

    def __init__(self, party: FederatedParty, port: handshake.SpokePort) -> None:
        self._party, self._port = party, port
        self._session = party.entropy(16)
        self._admitted: dict[str, Channel] = {}

    @property
    def session(self) -> bytes:
        """The session's ID, 16 bytes."""
        return self._session

    def open(self) -> Mapping[str, Channel]:
        """Wait for all clients; after the time limit, continue if at least the quorum has joined.

        If admission fails, the server sends the reason to the clients that have joined.

        Raises:
            PeerSilent: fewer clients joined than the quorum requires.
        """
        party, names = self._party, self._party.agreement.spokes
        party.progress.phase("waiting for the clients", len(names))
        try:
            missing = self._wait(names)
        except Exception as error:
            for channel in self._admitted.values():
                channel.abort(*abort_reason(error))
                channel.close()
            raise
        if missing:
            party.progress.warn(f"starting without {', '.join(missing[:10])}")
        return dict(self._admitted)

    def _wait(self, names: Sequence[str]) -> list[str]:
        """Accept clients until the time limit; return the names of missing clients."""
        party = self._party
        deadline = monotonic() + party.limits.join_seconds
        while len(self._admitted) < len(names) and monotonic() < deadline:
            self._greet(deadline - monotonic())
        missing = [name for name in names if name not in self._admitted]
        if len(names) - len(missing) < quorum_count(party.agreement.training.quorum, len(names)):
            raise PeerSilent(
                f"{', '.join(missing[:10])} did not join within {party.limits.join_seconds:g} s",
                "start these clients, with the address of this server as --hub",
            )
        return missing

    def arrivals(self) -> Mapping[str, Channel]:
        """Return the channels of clients that connected since the last call of this method."""
        before = dict(self._admitted)
        while waiting := self._waiting():
            for line in waiting:
                self._admit(line)
        return {n: each for n, each in self._admitted.items() if before.get(n) is not each}

    def _greet(self, seconds: float) -> bool:
        """Accept the next connection; return whether there was one."""
        party = self._party
        try:
            line = self._port.accept(seconds)
        except PeerSilent:
            return False
        except IdentityError as error:  # other clients may still connect
            party.progress.warn(f"refused a connection: {error}")
            return True
        self._admit(line)
        return True

    def _waiting(self) -> list[Line]:
        """Waiting connections; if a client connected several times, only its last connection."""
        found: dict[str, Line] = {}
        while True:
            try:
                line = self._port.accept(POLL_SECONDS)
            except PeerSilent:
                return list(found.values())
            except IdentityError as error:
                self._party.progress.warn(f"refused a connection: {error}")
                continue
            earlier = found.pop(str(line.peer), None)
            if earlier is not None:
                earlier.cut()
            found[str(line.peer)] = line

    def _admit(self, line: Line) -> None:
        party = self._party
        channel = Channel(line, Side.HUB, party.terms(str(line.peer)), party.traffic.record)
        try:
            handshake.admit_spoke(party, channel, self._session, self._admitted, {})
        except ProtocolError as error:  # the other clients are not affected
            party.progress.warn(f"refused {channel.terms.peer}: {error}")
            channel.abort(*abort_reason_before_proof(error))
            channel.close()
            self._admitted.pop(channel.terms.peer, None)
        party.progress.step()
