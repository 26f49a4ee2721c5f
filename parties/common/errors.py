"""Errors of a party, their exit codes, and the texts that a peer receives about an error."""

from configs.errors import ConfigError
from protocol.errors import (
    Aborted,
    IdentityError,
    LineBroken,
    PeerSilent,
    ProtocolError,
    RemoteProtocolError,
)

ABSENT = "absent"  # code of an abort because a party left or did not come; the receiver may retry


class PartyError(Exception):
    """A failure at this party.

    Attributes:
        hint: how to fix the failure; may be empty.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class UsageProblem(PartyError):
    """The command line is wrong."""


class DataError(PartyError):
    """This party's data cannot be used."""


class PolicyError(PartyError):
    """A rule of the agreement forbids the next step."""


class StorageError(PartyError):
    """A file, folder or port of this machine cannot be used."""


class ResourceError(PartyError):
    """Data exceeds a limit of this party; ``hint`` names the limit."""


class IntegrityError(PartyError):
    """A file is damaged or belongs to another run."""


class Stopped(PartyError):
    """The process received SIGTERM; its last checkpoint stays valid."""


class SessionEnded(PartyError):
    """This party ends the session and waits for a new one; the peers may connect again."""


class Diverged(PartyError):
    """Training produced a number that is not finite."""


class ClocksApart(IdentityError):
    """The clocks of two parties differ too much; the peer may receive this error's text."""


class Superseded(RemoteProtocolError):
    """An older process of a party connected after a newer process of the same party."""


class NoCopy(ProtocolError):
    """The active party asks for a saved copy of the model, but this party has no such copy."""

    def __init__(self, slot: str) -> None:
        super().__init__(
            f"this party stores no copy {slot!r} of the model, because an older version of vfl "
            "wrote the checkpoints: start again with --begin fresh at every party"
        )


class Failed(PartyError):
    """A party of a run on one machine (vfl-sim) failed.

    Attributes:
        code: exit code of the party.
        echo: whether the party ended only because another party failed.
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

# Codes of an abort that give the receiver the exit code of the sender's error.
_ABORT_CODES: dict[str, type[Exception]] = {"policy": PolicyError, "identity": IdentityError}


def exit_code(error: Exception) -> int | None:
    """Return the exit code for ``error``; None if ``error`` is unexpected."""
    if isinstance(error, Failed):
        return error.code
    if isinstance(error, Aborted) and error.code in _ABORT_CODES:
        return EXIT_CODES[_ABORT_CODES[error.code]]
    return next((code for kind, code in EXIT_CODES.items() if isinstance(error, kind)), None)


def abort_reason_before_proof(error: Exception) -> tuple[str, str]:
    """Return the code and the text of an abort for a peer whose identity is not proved yet.

    If this party refused the peer's identity, the text contains an identifier (the ticket) instead
    of the reason. This party's own error message contains the same ticket, so that the two
    operators can match the messages.
    """
    if isinstance(error, IdentityError) and not isinstance(error, ClocksApart):
        return "identity", (
            "the proof of identity was refused; the log of the party that refused has ticket "
            f"{error.ticket}"
        )
    return abort_reason(error)


def abort_reason(error: Exception) -> tuple[str, str]:
    """Return code and text of an abort for an identified peer; the text has no data or paths."""
    if isinstance(error, LineBroken | PeerSilent | Stopped | SessionEnded):
        return ABSENT, str(error)
    if isinstance(error, Aborted) and error.code == ABSENT:
        return ABSENT, str(error)
    for code, kind in {**_ABORT_CODES, "protocol": ProtocolError}.items():
        if isinstance(error, kind):
            return code, str(error)
    return "local", "an error occurred at this party; the log of this party has the details"


UNEXPECTED = 1  # exit code of an error that is a fault of vfl
