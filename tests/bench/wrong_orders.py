"""Figure: how many wrong orders of a hub a passive party and a client refuse as specified."""

from collections.abc import Callable, Iterator

from bad_input import outcomes
from bench.ledger import Row

WHERE = tuple(
    f"tests/parties/bad_input/test_bad_{name}_orders.py" for name in ("vertical", "client")
)
LEAST = 40  # wrong orders


def wrong_orders(report: Callable[[str], None]) -> Iterator[Row]:
    """Run the tests and count the wrong orders that were refused without any change."""
    report("wrong orders")
    passed, failed = outcomes(*WHERE)
    refused = sum(name.startswith("test_wrong_order") for name in passed)
    count = refused + sum(name.startswith("test_wrong_order") for name in failed)
    title = (
        "wrong orders of a hub to a passive party and a client, refused with the hub's name, "
        "state unchanged"
    )
    yield Row(title, refused, "", str(count), refused == count >= LEAST)
