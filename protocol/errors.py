"""What can go wrong between parties, and who is at fault."""

import secrets


class ProtocolError(Exception):
    """Something between two parties is wrong.

    Attributes:
        hint: what to do about it.
        peer: the other party, once known.
        where: the place in the run, once known.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint, self.peer, self.where = hint, "", ""

    def __str__(self) -> str:
        peer = f"{self.peer}: " if self.peer else ""
        where = f" ({self.where})" if self.where else ""
        return f"{peer}{self.args[0]}{where}"


class LocalProtocolError(ProtocolError):
    """We are wrong: this side was about to say what it must not."""


class RemoteProtocolError(ProtocolError):
    """They are wrong: the peer said what it must not, or said it badly."""


class Equivocation(RemoteProtocolError):
    """The peer said two different things under one sequence number."""


class PeerSilent(RemoteProtocolError):
    """The peer did not answer in time."""


class LineBroken(RemoteProtocolError):
    """The connection to the peer is gone."""


class Aborted(RemoteProtocolError):
    """The peer ended the conversation and said why; ``code`` is a word of a closed list."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


class IdentityError(ProtocolError):
    """A certificate, key or signature is not what it must be.

    Whoever is refused learns a ticket and no more; the reason stands beside it in our own log.
    """

    _ticket = ""

    @property
    def ticket(self) -> str:
        """A random word, the same at every look; once looked at, it stands in the message."""
        self._ticket = self._ticket or secrets.token_hex(4)
        return self._ticket

    def __str__(self) -> str:
        return super().__str__() + (f" (ticket {self._ticket})" if self._ticket else "")
