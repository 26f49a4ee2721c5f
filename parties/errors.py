"""What a party refuses to go on with, the exit code for it, and what a peer may learn of it."""

from configs.errors import ConfigError
from protocol.errors import Aborted, IdentityError, ProtocolError


class PartyError(Exception):
    """Something at this party is wrong; ``hint`` says what to do about it."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class DataError(PartyError):
    """This party's data cannot be used."""


class PolicyError(PartyError):
    """A rule of the agreement forbids to go on."""


class StorageError(PartyError):
    """A file or port of this machine cannot be had."""


class ResourceError(PartyError):
    """More than this party is willing to read; ``hint`` names the limit."""


class IntegrityError(PartyError):
    """What was read is not what it was before."""


class Diverged(PartyError):
    """Training left the finite numbers."""


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


def exit_code(error: Exception) -> int | None:
    """The number for a kind of failure; None for what nobody expected."""
    if isinstance(error, Failed):
        return error.code
    if isinstance(error, Aborted) and error.code == "policy":
        return EXIT_CODES[PolicyError]
    return next((code for kind, code in EXIT_CODES.items() if isinstance(error, kind)), None)


def public(error: Exception) -> tuple[str, str]:
    """What a peer may learn of an error: a word, and a sentence without our data or paths."""
    if isinstance(error, PolicyError):
        return "policy", str(error)
    if isinstance(error, ProtocolError):
        return "protocol", str(error)
    return "local", "something is wrong at this party; its own log says what"
