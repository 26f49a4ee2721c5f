"""The examination of a server or a client: what all runs of one server share."""

from collections.abc import Callable, Iterator, Sequence

from configs.federated import Federated
from parties.doctor.check import Finding, Looked, ok
from parties.doctor.examination import guarded
from parties.doctor.folders import check_places
from parties.doctor.identity import check_clock, check_identity
from parties.doctor.machine import check_numbers, check_open_files, check_versions
from parties.doctor.network import check_address, check_port, check_way

Check = Callable[[], Iterator[Finding]]


def examine_federated(
    examined: Looked, agreement: Federated, own: Sequence[Check], memory: Check
) -> Iterator[Finding]:
    """Everything that can be found out before a run; ``own`` looks at the model and the data."""
    role, clients = "server" if examined.active else "client", len(agreement.spokes)
    yield ok("config", f"{agreement.federation}: {examined.name} is {role}, of {clients} clients")
    for check in (check_address, check_versions, check_numbers):
        yield from guarded(check, examined)
    for look in own:
        yield from guarded(look)
    yield from guarded(check_identity, examined)
    yield from guarded(check_clock)
    for check in (check_way, check_port, check_places):
        yield from guarded(check, examined)
    yield from guarded(check_open_files)
    yield from guarded(memory)
