"""Checks of a horizontal run: the network, and a client's rows."""

from collections.abc import Iterator
from functools import partial

from configs.errors import ConfigError
from configs.horizontal import HorizontalAgreement
from parties.common.errors import DataError, PartyError
from parties.data.agreed_columns import agreed_data
from parties.data.party_settings import RowPartySettings
from parties.data.sources.collect import TableSettings
from parties.doctor.check import ExaminedHorizontalParty, Finding, fail, fail_with, ok
from parties.doctor.federated import examine_federated
from parties.doctor.machine import MODEL_COPIES, PROCESS_MEMORY, memory_finding
from parties.doctor.source import check_file_heads
from parties.horizontal.local.client_data import read_client_data, requested_rows
from parties.horizontal.local.networks import build_whole_network

_FLOAT = 4  # bytes


def examine_horizontal(party: ExaminedHorizontalParty, *, whole_data: bool) -> Iterator[Finding]:
    """Yield the results of all checks; if ``whole_data``, all rows are read, as in a run."""
    own = (
        partial(_check_network, party),
        partial(_check_data, party, whole=whole_data),
    )
    yield from examine_federated(party, party.config.agreement, own, partial(_check_memory, party))


def _check_network(party: ExaminedHorizontalParty) -> Iterator[Finding]:
    """Check that rows of the agreed shape fit into the agreed network."""
    try:
        count = _parameters(party)
    except ConfigError as error:
        yield fail("network", error)
    else:
        kind = party.config.agreement.model.kind
        yield ok("network", f"{kind}, {count:,} parameters, rows of {_shape(party)}")


def _check_data(party: ExaminedHorizontalParty, *, whole: bool) -> Iterator[Finding]:
    """Check a client's files and labels; with ``whole`` also all rows, as a run reads them."""
    settings = party.settings
    if not isinstance(settings, RowPartySettings):
        yield ok("data", "a server has no rows")
        return
    if not settings.data.has_labels:
        message = "a client needs labels, and its data has none"
        yield fail_with("label", message, "set label, or labels for images", DataError)
    agreement = party.config.agreement
    try:
        data = agreed_data(agreement.columns, settings.data, party.name)
    except DataError as error:
        yield fail("columns", error)
        return
    if agreement.columns:
        yield ok("columns", _agreed(agreement))
        if isinstance(data, TableSettings):  # so that the header must have all agreed columns
            data = data.model_copy(update={"numeric": tuple(data.ranges)})
    sound = True
    for found in check_file_heads(data, party.folder):
        sound = not found.code
        yield found
    if whole and sound:
        yield from _read(party, settings)


def _read(party: ExaminedHorizontalParty, settings: RowPartySettings) -> Iterator[Finding]:
    agreement, name = party.config.agreement, party.name
    try:
        client_data = read_client_data(agreement, name, settings.data, party.folder, lambda _: None)
    except PartyError as error:
        yield fail("all rows", error)
        return
    message = f"{len(client_data.train)} for training, {len(client_data.test)} for tests"
    yield ok("all rows", f"{message}, {len(client_data.validation)} for validation")
    for request in agreement.unlearn:
        count = len(requested_rows(agreement, request, name, client_data))
        if count:
            yield ok("request", f"{request.name!r} unlearns {count} rows of {name}")


def _check_memory(party: ExaminedHorizontalParty) -> Iterator[Finding]:
    try:
        count = _parameters(party)
    except ConfigError:
        return  # a finding of the check "network"
    yield memory_finding(PROCESS_MEMORY + MODEL_COPIES * _FLOAT * count)


def _parameters(party: ExaminedHorizontalParty) -> int:
    network = build_whole_network(party.config.agreement, "shape")
    return sum(each.numel() for each in network.parameters())


def _agreed(agreement: HorizontalAgreement) -> str:
    ranges = sum(each.range is not None for each in agreement.columns)
    texts = len(agreement.columns) - ranges
    return f"{ranges} numeric and {texts} categorical columns as agreed"


def _shape(party: ExaminedHorizontalParty) -> str:
    return " x ".join(map(str, party.config.agreement.shape))
