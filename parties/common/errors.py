"""What a party refuses to go on with, the exit code for it, and what a peer may learn of it."""

from configs.errors import ConfigError
from protocol.errors import (
    Aborted,
    IdentityError,
    LineBroken,
    PeerSilent,
    ProtocolError,
    RemoteProtocolError,
)

ABSENT = "absent"  # the word for a party that left or did not come: no fault of who hears it


class PartyError(Exception):
    """Something at this party is wrong; ``hint`` says what to do about it."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class UsageProblem(PartyError):
    """The command line asks for what cannot be meant."""


class DataError(PartyError):
    """This party's data cannot be used."""


class PolicyError(PartyError):
    """A rule of the agreement forbids to go on."""


class StorageError(PartyError):
    """A file or port of this machine cannot be had."""


class ResourceError(PartyError):
    """More than this party is willing to read; ``hint`` names the limit."""


class IntegrityError(PartyError):
    """A file is not what was written, or not of this run."""


class Stopped(PartyError):
    """Somebody told this process to stop; what it did until the last checkpoint is kept."""


class Diverged(PartyError):
    """Training left the finite numbers."""


class ClocksApart(IdentityError):
    """The clocks of two parties disagree: each knows by itself how far."""


class Superseded(RemoteProtocolError):
    """An older process of a party came after a newer one."""


class NoCopy(ProtocolError):
    """The active party names a copy of the model that this party does not keep."""

    def __init__(self, slot: str) -> None:
        super().__init__(
            f"there is no copy {slot!r} of the model here to go back to; a checkpoint of an older "
            "version has none: start again with --begin fresh at every party"
        )


class Failed(PartyError):
    """A party of a simulation failed.

    Attributes:
        code: its exit code.
        echo: it only heard of another party's failure.
    """

    def __init__(self, message: str, hint: str, code: int, *, echo: bool = False) -> None:
        super().__init__(message, hint)
        self.code, self.echo = code, echo


EXIT_CODES: dict[type[Exception], int] = {
    UsageProblem: 2,
    ConfigError: 3,
    Diverged: 3,
    DataError: 4,
    IdentityError: 5,
    ProtocolError: 6,
    StorageError: 7,
    ResourceError: 7,
    PolicyError: 8,
    IntegrityError: 9,
}

_TOLD: dict[str, type[Exception]] = {"policy": PolicyError, "identity": IdentityError}


def exit_code(error: Exception) -> int | None:
    """The number for a kind of failure; None for what nobody expected."""
    if isinstance(error, Failed):
        return error.code
    if isinstance(error, Aborted) and error.code in _TOLD:
        return EXIT_CODES[_TOLD[error.code]]
    return next((code for kind, code in EXIT_CODES.items() if isinstance(error, kind)), None)


def at_the_door(error: Exception) -> tuple[str, str]:
    """What one learns who has not proved yet who it is: of a refused identity only a ticket.

    The ticket stands from now on in our own message too, so that both find each other.
    """
    if isinstance(error, IdentityError) and not isinstance(error, ClocksApart):
        return "identity", f"the proof of identity was refused; ask there for ticket {error.ticket}"
    return public(error)


def public(error: Exception) -> tuple[str, str]:
    """What a peer may learn of an error: a word, and a sentence without our data or paths."""
    if isinstance(error, LineBroken | PeerSilent | Stopped):
        return ABSENT, str(error)
    if isinstance(error, Aborted) and error.code == ABSENT:
        return ABSENT, str(error)
    for word, kind in {**_TOLD, "protocol": ProtocolError}.items():
        if isinstance(error, kind):
            return word, str(error)
    return "local", "something is wrong at this party; its own log says what"
