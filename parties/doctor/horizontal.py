"""The examination of a server or a client of a horizontal run: its network and its rows."""

from collections.abc import Iterator
from functools import partial

from configs.errors import ConfigError
from configs.seat import RowSeat
from parties.common.errors import DataError, PartyError
from parties.doctor.check import Finding, HorizontalExamined, fail, ok, trouble
from parties.doctor.federated import examine_federated
from parties.doctor.machine import BARE, COPIES, memory
from parties.doctor.source import look_at
from parties.horizontal.local.client_data import read_shelf, requested
from parties.horizontal.local.networks import build

_FLOAT = 4  # bytes


def examine_horizontal(examined: HorizontalExamined, *, whole_data: bool) -> Iterator[Finding]:
    """Everything that can be found out before a run."""
    own = (
        partial(_check_network, examined),
        partial(_check_data, examined, whole=whole_data),
    )
    yield from examine_federated(
        examined, examined.config.agreement, own, partial(_check_memory, examined)
    )


def _check_network(examined: HorizontalExamined) -> Iterator[Finding]:
    """Rows of the agreed shape fit into the agreed network."""
    try:
        count = _parameters(examined)
    except ConfigError as error:
        yield fail("network", error)
    else:
        kind = examined.config.agreement.model.kind
        yield ok("network", f"{kind}, {count:,} parameters, rows of {_shape(examined)}")


def _check_data(examined: HorizontalExamined, *, whole: bool) -> Iterator[Finding]:
    """At a client: files, labels and, where ``whole``, all rows as a run reads and deals them."""
    seat = examined.seat
    if not isinstance(seat, RowSeat):
        yield ok("data", "a server holds no row")
        return
    labels = ("label", "labels")
    if not any(getattr(seat.data, option, None) for option in labels):
        said = "a client learns from labels, and this seat's data has none"
        yield trouble("label", said, "set label, or labels of images", DataError)
    sound = True
    for found in look_at(seat.data, examined.folder):
        sound = not found.code
        yield found
    if whole and sound:
        yield from _read(examined, seat)


def _read(examined: HorizontalExamined, seat: RowSeat) -> Iterator[Finding]:
    agreement, name = examined.config.agreement, examined.name
    try:
        shelf = read_shelf(agreement, name, seat.data, examined.folder, lambda _: None)
    except PartyError as error:
        yield fail("all rows", error)
        return
    told = f"{len(shelf.rows)} to learn from, {len(shelf.held)} for tests"
    yield ok("all rows", f"{told}, {len(shelf.validation)} for choosing settings")
    for request in agreement.unlearn:
        count = len(requested(agreement, request, name, shelf))
        if count:
            yield ok("request", f"{request.name!r} takes {count} rows of {name}")


def _check_memory(examined: HorizontalExamined) -> Iterator[Finding]:
    try:
        count = _parameters(examined)
    except ConfigError:
        return  # said of the network
    yield memory(BARE + COPIES * _FLOAT * count)


def _parameters(examined: HorizontalExamined) -> int:
    network = build(examined.config.agreement, "shape")
    return sum(each.numel() for each in network.parameters())


def _shape(examined: HorizontalExamined) -> str:
    return " x ".join(map(str, examined.config.agreement.shape))
