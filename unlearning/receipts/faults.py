"""Faults that a check of a receipt can find, and the exit codes of ``vfl-verify``."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum, StrEnum


class ExitCode(IntEnum):
    """The result of a check, and the exit code of ``vfl-verify``."""

    VALID = 0
    INVALID = 1
    MALFORMED = 2
    INCOMPLETE = 3  # every signature present is right, but not every party's is present
    CHAIN_GAP = 4  # right and complete, but superseded, or the chain around it has a gap


class Fault(StrEnum):
    """The kind of a fault."""

    BAD_CANONICAL = "bad-canonical"
    BAD_SCHEMA = "bad-schema"
    UNKNOWN_VERSION = "unknown-version"
    BAD_EVIDENCE = "bad-evidence"  # another file than the receipt cannot be read
    BAD_SIGNATURE = "bad-signature"
    UNSIGNED = "unsigned"  # no known key signed
    WRONG_KEY = "wrong-key"
    WRONG_FEDERATION = "wrong-federation"
    CONTRADICTION = "contradiction"
    NOT_INCLUDED = "not-included"  # the subject is not under the root
    FORK = "fork"  # a party signed two different events with one number
    BAD_EVENT = "bad-event"  # the signature of an event is wrong
    BAD_STATEMENT = "bad-statement"  # the statement of a party that left has a wrong signature
    NOT_JOURNALED = "not-journaled"  # a party had not journaled a request
    MISSING_SIGNATURE = "missing-signature"
    UNKNOWN_KEY = "unknown-key"
    MISSING_PARTY = "missing-party"  # a trusted party is not named in the receipt
    UNKNOWN_ORIGIN = "unknown-origin"  # no key is known for the origin of an event
    CHAIN_GAP = "chain-gap"
    SUPERSEDED = "superseded"

    @property
    def exit_code(self) -> ExitCode:
        """The exit code of a check that finds this fault alone."""
        return _CODES.get(self, ExitCode.INVALID)


_CODES = {
    Fault.BAD_CANONICAL: ExitCode.MALFORMED,
    Fault.BAD_SCHEMA: ExitCode.MALFORMED,
    Fault.UNKNOWN_VERSION: ExitCode.MALFORMED,
    Fault.BAD_EVIDENCE: ExitCode.MALFORMED,
    Fault.MISSING_SIGNATURE: ExitCode.INCOMPLETE,
    Fault.UNKNOWN_KEY: ExitCode.INCOMPLETE,
    Fault.MISSING_PARTY: ExitCode.INCOMPLETE,
    Fault.UNKNOWN_ORIGIN: ExitCode.INCOMPLETE,
    Fault.CHAIN_GAP: ExitCode.CHAIN_GAP,
    Fault.SUPERSEDED: ExitCode.CHAIN_GAP,
}
# Where there are several faults, the first of these codes is the result.
_WORST_FIRST = (
    ExitCode.MALFORMED,
    ExitCode.INVALID,
    ExitCode.INCOMPLETE,
    ExitCode.CHAIN_GAP,
)


@dataclass(frozen=True, slots=True)
class FoundFault:
    """A fault, and a sentence that says where it is."""

    fault: Fault
    message: str


def worst_code(findings: Iterable[FoundFault]) -> ExitCode:
    """Return the exit code for all findings together; VALID if there is none."""
    codes = {each.fault.exit_code for each in findings}
    return next((code for code in _WORST_FIRST if code in codes), ExitCode.VALID)
