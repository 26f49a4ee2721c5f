"""Errors of the protocol: which side is at fault, the peer, and the position in the run."""

import secrets


class ProtocolError(Exception):
    """A message, a connection or a certificate breaks a rule of the protocol.

    Attributes:
        hint: what to do about it.
        peer: name of the other party; empty until the name is known.
        where: position in the run; empty until the position is known.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint, self.peer, self.where = hint, "", ""

    def __str__(self) -> str:
        peer = f"{self.peer}: " if self.peer else ""
        where = f" ({self.where})" if self.where else ""
        return f"{peer}{self.args[0]}{where}"


class LocalProtocolError(ProtocolError):
    """This side is at fault: it was about to send an illegal message."""


class RemoteProtocolError(ProtocolError):
    """The peer is at fault: it sent an illegal message."""


class Equivocation(RemoteProtocolError):
    """The peer sent two different messages with one sequence number."""


class PeerSilent(RemoteProtocolError):
    """The peer did not send or accept a message in time."""


class LineBroken(RemoteProtocolError):
    """The connection to the peer is closed or cannot be opened."""


class Aborted(RemoteProtocolError):
    """The peer sent the message Abort; ``code`` is one of a fixed list of words for the reason."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


class IdentityError(ProtocolError):
    """A certificate, key or signature breaks a rule.

    The refused peer receives only a ticket number. This party's log has the reason and the ticket.
    """

    _ticket = ""

    @property
    def ticket(self) -> str:
        """Ticket: eight random hexadecimal digits, which the first call adds to the message."""
        self._ticket = self._ticket or secrets.token_hex(4)
        return self._ticket

    def __str__(self) -> str:
        return super().__str__() + (f" (ticket {self._ticket})" if self._ticket else "")
