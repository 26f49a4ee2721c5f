"""All checks of a server or a client, for the horizontal and the LLM mode."""

from collections.abc import Callable, Iterator, Sequence

from configs.federated import FederatedAgreement
from parties.doctor.check import ExaminedParty, Finding, ok
from parties.doctor.examination import examine_surroundings, run_check
from parties.doctor.machine import check_numbers, check_open_files, check_versions
from parties.doctor.network import check_address

FederatedCheck = Callable[[], Iterator[Finding]]


def examine_federated(
    party: ExaminedParty,
    agreement: FederatedAgreement,
    own: Sequence[FederatedCheck],
    memory: FederatedCheck,
) -> Iterator[Finding]:
    """Yield the results of all checks.

    Args:
        party: the server or client that is checked.
        agreement: the party's agreement.
        own: the checks of model and data for the mode of the run.
        memory: check of the memory that a run in this mode needs.
    """
    role, clients = "server" if party.active else "client", len(agreement.spokes)
    yield ok("config", f"{agreement.federation}: {party.name} is {role}, of {clients} clients")
    for check in (check_address, check_versions, check_numbers):
        yield from run_check(check, party)
    for own_check in own:
        yield from run_check(own_check)
    yield from examine_surroundings(party)
    yield from run_check(check_open_files)
    yield from run_check(memory)
