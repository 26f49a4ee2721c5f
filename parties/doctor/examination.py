"""All checks of a party of a vertical run, in the order of the exit codes."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from traceback import extract_tb
from typing import Any

from parties.common.errors import UNEXPECTED
from parties.doctor.check import CheckState, ExaminedParty, ExaminedVerticalParty, Finding, ok
from parties.doctor.folders import check_folders, check_temporary_folder
from parties.doctor.identity import check_clock, check_identity
from parties.doctor.machine import (
    check_memory,
    check_module,
    check_numbers,
    check_open_files,
    check_versions,
)
from parties.doctor.network import check_address, check_connection, check_port
from parties.doctor.privacy import check_privacy_ledger
from parties.doctor.source import check_data


def examine_vertical(party: ExaminedVerticalParty, *, whole_data: bool) -> Iterator[Finding]:
    """Yield the results of all checks; if ``whole_data``, all rows are read, as in a run."""
    agreement = party.config.agreement
    others = ", ".join(name for name in agreement.parties if name != party.name)
    role = agreement.parties[party.name].role
    yield ok("config", f"{agreement.federation}: {party.name} is {role}, beside {others}")
    for check in (check_address, check_versions, check_numbers, check_module):
        yield from run_check(check, party)
    yield from run_check(partial(check_data, whole=whole_data), party)
    yield from examine_surroundings(party)
    yield from run_check(check_temporary_folder)
    yield from run_check(check_open_files)
    yield from run_check(check_memory, party)
    yield from run_check(check_privacy_ledger, party)


def examine_surroundings(party: ExaminedParty) -> Iterator[Finding]:
    """Yield the results of the checks of keys, clock, network and folders, as in every mode."""
    yield from run_check(check_identity, party)
    yield from run_check(check_clock)
    for check in (check_connection, check_port, check_folders):
        yield from run_check(check, party)


def run_check(check: Callable[..., Iterator[Finding]], *party: Any) -> Iterator[Finding]:
    """Yield the results of a check; after an unexpected error, yield a failed result."""
    try:
        yield from check(*party)
    except Exception as error:  # noqa: BLE001  the other checks must run all the same
        place = extract_tb(error.__traceback__)[-1]
        where = f"{Path(place.filename).name}:{place.lineno}"
        message = f"unexpected {type(error).__name__} at {where}"
        yield Finding("doctor", CheckState.FAIL, message, "this is a bug in vfl", UNEXPECTED)


def first_exit_code(findings: Iterable[Finding]) -> int:
    """Return the exit code of the first failed check; 0 if none failed."""
    return next((each.code for each in findings if each.state is CheckState.FAIL), 0)
