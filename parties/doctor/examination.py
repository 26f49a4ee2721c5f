"""The examination: every check in the order of the exit codes, each finding as it is made."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from traceback import extract_tb
from typing import Any

from parties.cli.console import UNEXPECTED
from parties.doctor.check import Examined, Finding, State, ok
from parties.doctor.folders import check_places, check_temporary
from parties.doctor.identity import check_clock, check_identity
from parties.doctor.machine import (
    check_memory,
    check_module,
    check_numbers,
    check_open_files,
    check_versions,
)
from parties.doctor.network import check_address, check_port, check_way
from parties.doctor.source import check_data


def examine(examined: Examined, *, whole_data: bool) -> Iterator[Finding]:
    """Everything that can be found out before a run."""
    agreement = examined.config.agreement
    others = ", ".join(name for name in agreement.parties if name != examined.name)
    role = agreement.parties[examined.name].role
    yield ok("config", f"{agreement.federation}: {examined.name} is {role}, beside {others}")
    for check in (check_address, check_versions, check_numbers, check_module):
        yield from guarded(check, examined)
    yield from guarded(partial(check_data, whole=whole_data), examined)
    yield from guarded(check_identity, examined)
    yield from guarded(check_clock)
    for check in (check_way, check_port, check_places):
        yield from guarded(check, examined)
    yield from guarded(check_temporary)
    yield from guarded(check_open_files)
    yield from guarded(check_memory, examined)


def guarded(check: Callable[..., Iterator[Finding]], *examined: Any) -> Iterator[Finding]:
    """A check that breaks is a finding too, and does not hide what the others find."""
    try:
        yield from check(*examined)
    except Exception as error:  # noqa: BLE001  whatever it is, the next check is made
        place = extract_tb(error.__traceback__)[-1]
        where = f"{Path(place.filename).name}:{place.lineno}"
        said = f"unexpected {type(error).__name__} at {where}"
        yield Finding("doctor", State.FAIL, said, "this is a fault of vfl", UNEXPECTED)


def first_code(findings: Iterable[Finding]) -> int:
    """The exit code of the first finding that fails, 0 when none does."""
    return next((each.code for each in findings if each.state is State.FAIL), 0)
