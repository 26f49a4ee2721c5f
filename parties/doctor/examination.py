"""The examination: every check in the order of the exit codes, each finding as it is made."""

from collections.abc import Iterable, Iterator

from parties.doctor.finding import Examined, Finding, State, ok
from parties.doctor.identity import check_clock, check_identity
from parties.doctor.machine import (
    check_memory,
    check_module,
    check_numbers,
    check_open_files,
    check_versions,
)
from parties.doctor.places import check_places, check_temporary
from parties.doctor.source import check_data
from parties.doctor.way import check_address, check_port, check_way


def examine(examined: Examined, *, whole_data: bool) -> Iterator[Finding]:
    """Everything that can be found out before a run."""
    agreement = examined.config.agreement
    others = ", ".join(name for name in agreement.parties if name != examined.name)
    role = agreement.parties[examined.name].role
    yield ok("config", f"{agreement.federation}: {examined.name} is {role}, beside {others}")
    yield from check_address(examined)
    yield from check_versions(examined)
    yield from check_numbers(examined)
    yield from check_module(examined)
    yield from check_data(examined, whole=whole_data)
    yield from check_identity(examined)
    yield from check_clock()
    yield from check_way(examined)
    yield from check_port(examined)
    yield from check_places(examined)
    yield from check_temporary()
    yield from check_open_files()
    yield from check_memory(examined)


def first_code(findings: Iterable[Finding]) -> int:
    """The exit code of the first finding that fails, 0 when none does."""
    return next((each.code for each in findings if each.state is State.FAIL), 0)
