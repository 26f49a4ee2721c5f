"""Data types of ``vfl doctor``: the result of a check, and the party that is checked."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from configs.config_file import AnyConfig
from configs.horizontal import HorizontalConfig
from configs.language import LanguageConfig
from configs.party_settings import PartySettingsBase
from parties.common.errors import PartyError, StorageError, exit_code
from parties.data.party_settings import VerticalConfig, VerticalPartySettings


class CheckState(StrEnum):
    """Whether a check passed, found a problem, failed or was not possible."""

    OK = "ok"
    WARNING = "warning"
    FAIL = "fail"
    UNKNOWN = "unknown"  # the check is not possible on this machine


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of one check."""

    check: str  # name of the check
    state: CheckState  # whether the check passed, found a problem, failed or was not possible
    message: str  # the result in words
    hint: str = ""  # how to fix a problem
    code: int = 0  # exit code with which a run would end; 0 unless the check failed


@dataclass(frozen=True, slots=True, kw_only=True)
class ExaminedParty:
    """The party that ``vfl doctor`` checks; the base class for all modes of a run."""

    config: AnyConfig  # agreement and party settings
    name: str  # name of the party
    settings: PartySettingsBase  # the party's own settings
    folder: Path  # folder in which relative data paths are resolved
    certificates: Path  # folder of the party's key and certificates
    out: Path  # folder in which all runs store their results
    address: str | None  # address to connect to or to listen on; None if not set

    @property
    def active(self) -> bool:
        """Return whether this party is the hub, which listens and controls the run."""
        return self.config.agreement.hub == self.name

    @property
    def state(self) -> Path:
        """Return this party's folder inside the folder of the federation."""
        return self.out / self.config.agreement.federation / self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class ExaminedVerticalParty(ExaminedParty):
    """A party of a vertical run."""

    config: VerticalConfig
    settings: VerticalPartySettings


@dataclass(frozen=True, slots=True, kw_only=True)
class ExaminedHorizontalParty(ExaminedParty):
    """A server or a client of a horizontal run."""

    config: HorizontalConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class ExaminedLanguageParty(ExaminedParty):
    """A server or a client of an LLM run."""

    config: LanguageConfig


def ok(check: str, message: str) -> Finding:
    """Return the result of a check that passed."""
    return Finding(check, CheckState.OK, message)


def warning(check: str, message: str, hint: str) -> Finding:
    """Return the result of a check that found a problem with which a run can still start."""
    return Finding(check, CheckState.WARNING, message, hint)


def unknown(check: str, message: str, hint: str) -> Finding:
    """Return the result of a check that is not possible on this machine."""
    return Finding(check, CheckState.UNKNOWN, message, hint)


def fail(check: str, error: Exception) -> Finding:
    """Return the result of a check that failed with ``error``.

    Raises:
        Exception: ``error`` itself, if ``error`` has no exit code and is therefore a bug in vfl.
    """
    code = exit_code(error)
    if code is None:
        raise error
    return Finding(check, CheckState.FAIL, str(error), str(getattr(error, "hint", "")), code)


def fail_with(
    check: str, message: str, hint: str, kind: type[PartyError] = StorageError
) -> Finding:
    """Return the result of a failed check; ``kind`` is the error class that a run would raise."""
    return fail(check, kind(message, hint))
