"""The clients of a simulation, as its config says what they learn."""

from configs.federated_file import HorizontalConfig, read_federated
from parties.horizontal.simulation.simulated_data import Source, Stock
from parties.horizontal.simulation.simulated_rows import RowStock


def read_stock(source: Source) -> Stock:
    """From its files.

    Raises:
        ConfigError: simulated clients share one data set, which must be dealt.
    """
    config = read_federated(source.config, source.changes)
    if isinstance(config, HorizontalConfig):
        return RowStock.read(config, source.data)
    from parties.language.simulated_data import TextStock

    return TextStock.read(config, source.data)
