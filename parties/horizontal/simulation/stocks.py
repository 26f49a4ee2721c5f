"""The clients of a simulation, as its config says what they learn."""

from configs.federated_file import HorizontalConfig, read_federated
from parties.horizontal.simulation.row_stock import RowStock
from parties.horizontal.simulation.stock import Source, Stock


def read_stock(source: Source) -> Stock:
    """From its files.

    Raises:
        ConfigError: simulated clients share one data set, which must be dealt.
    """
    config = read_federated(source.config, source.changes)
    if isinstance(config, HorizontalConfig):
        return RowStock.read(config, source.data)
    from parties.horizontal.language.stock import TextStock

    return TextStock.read(config, source.data)
