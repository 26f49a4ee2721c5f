"""A finding: what was looked at, how it is, and what to do about it."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from configs.federated_file import HorizontalConfig, LanguageConfig
from configs.schema import Config
from configs.seat import Chair, Seat
from parties.common.errors import PartyError, StorageError, exit_code
from parties.session.identity import Named


class State(StrEnum):
    """How something is."""

    OK = "ok"
    WARNING = "warning"
    FAIL = "fail"
    UNKNOWN = "unknown"  # this machine cannot tell


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the examination; ``code`` is what a run would end with, 0 unless it fails."""

    subject: str
    state: State
    said: str
    hint: str = ""
    code: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """The party on this machine, in any mode: its agreement and seat, and where its files lie."""

    config: Named
    name: str
    seat: Chair
    folder: Path  # where relative data paths begin
    certificates: Path
    out: Path
    address: str | None

    @property
    def active(self) -> bool:
        """Whether this party listens and leads."""
        return self.config.agreement.hub == self.name

    @property
    def state(self) -> Path:
        """The party's own folder."""
        return self.out / self.config.agreement.federation / self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined(Looked):
    """A party of a vertical run."""

    config: Config
    seat: Seat


@dataclass(frozen=True, slots=True, kw_only=True)
class HorizontalExamined(Looked):
    """A server or a client."""

    config: HorizontalConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageExamined(Looked):
    """A server or a client of a language model."""

    config: LanguageConfig


def ok(subject: str, said: str) -> Finding:
    """It is as it should be."""
    return Finding(subject, State.OK, said)


def warning(subject: str, said: str, hint: str) -> Finding:
    """A run would begin, but a person should look at it."""
    return Finding(subject, State.WARNING, said, hint)


def unknown(subject: str, said: str, hint: str) -> Finding:
    """It cannot be told here."""
    return Finding(subject, State.UNKNOWN, said, hint)


def fail(subject: str, error: Exception) -> Finding:
    """A run would end with this error.

    Raises:
        Exception: ``error`` itself, where no party expects it.
    """
    code = exit_code(error)
    if code is None:
        raise error
    return Finding(subject, State.FAIL, str(error), str(getattr(error, "hint", "")), code)


def trouble(subject: str, said: str, hint: str, kind: type[PartyError] = StorageError) -> Finding:
    """A run would end with an error of this kind."""
    return fail(subject, kind(said, hint))
