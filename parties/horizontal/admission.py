"""The server's door: clients come when they will, and come back when they were lost."""

from collections.abc import Mapping, Sequence
from time import monotonic

from parties.common.errors import at_the_door, public
from parties.horizontal.engine.cohort import needed
from parties.horizontal.party import FederatedParty
from parties.session import handshake as join
from protocol.channel import Channel
from protocol.errors import IdentityError, PeerSilent, ProtocolError
from protocol.line import Line
from protocol.phases import Side

BRIEF = 0.001  # seconds: whoever dialled already


class Door:
    """Greets whoever dials, in one session for the whole run."""

    def __init__(self, party: FederatedParty, port: join.Port) -> None:
        self._party, self._port = party, port
        self._session = party.entropy(16)
        self._seated: dict[str, Channel] = {}

    @property
    def session(self) -> bytes:
        """16 bytes that name the run's conversations."""
        return self._session

    def open(self) -> Mapping[str, Channel]:
        """Wait for all clients; once time is up, for no more than the quorum.

        Where it ends here, whoever is seated is told so.

        Raises:
            PeerSilent: fewer came than the agreed quorum.
        """
        party, names = self._party, self._party.agreement.spokes
        party.watch.phase("waiting for the clients", len(names))
        try:
            missing = self._wait(names)
        except Exception as error:
            for channel in self._seated.values():
                channel.abort(*public(error))
                channel.close()
            raise
        if missing:
            party.watch.warn(f"beginning without {', '.join(missing[:10])}")
        return dict(self._seated)

    def _wait(self, names: Sequence[str]) -> list[str]:
        """Greet whoever comes in time; who is missing."""
        party = self._party
        deadline = monotonic() + party.agreement.limits.join_seconds
        while len(self._seated) < len(names) and monotonic() < deadline:
            self._greet(deadline - monotonic())
        missing = [name for name in names if name not in self._seated]
        if len(names) - len(missing) < needed(party.agreement.training.quorum, len(names)):
            raise PeerSilent(
                f"{', '.join(missing[:10])} did not join within "
                f"{party.agreement.limits.join_seconds:g} s",
                "are they started, with this server's address?",
            )
        return missing

    def arrivals(self) -> Mapping[str, Channel]:
        """Whoever came since anybody looked."""
        before = dict(self._seated)
        while waiting := self._waiting():
            for line in waiting:
                self._seat(line)
        return {n: each for n, each in self._seated.items() if before.get(n) is not each}

    def _greet(self, seconds: float) -> bool:
        """Greet the next; whether somebody came."""
        party = self._party
        try:
            line = self._port.accept(seconds)
        except PeerSilent:
            return False
        except IdentityError as error:  # somebody else may still come
            party.watch.warn(f"refused a visitor: {error}")
            return True
        self._seat(line)
        return True

    def _waiting(self) -> list[Line]:
        """Who dialled already; of one that dialled again, since nobody heard it, the last line."""
        found: dict[str, Line] = {}
        while True:
            try:
                line = self._port.accept(BRIEF)
            except PeerSilent:
                return list(found.values())
            except IdentityError as error:
                self._party.watch.warn(f"refused a visitor: {error}")
                continue
            earlier = found.pop(str(line.peer), None)
            if earlier is not None:
                earlier.cut()
            found[str(line.peer)] = line

    def _seat(self, line: Line) -> None:
        party = self._party
        channel = Channel(line, Side.HUB, party.terms(str(line.peer)), party.ledger.record)
        try:
            join.seat(party, channel, self._session, self._seated, {})
        except ProtocolError as error:  # one client's mistake is not the others'
            party.watch.warn(f"sent {channel.terms.peer} away: {error}")
            channel.abort(*at_the_door(error))
            channel.close()
            self._seated.pop(channel.terms.peer, None)
        party.watch.step()
