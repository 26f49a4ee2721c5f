"""A trained population: the original models, and the early checkpoints that methods start from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from models.ensemble import Ensemble
from parties.experiments.population.pooled_data import PooledData
from parties.vertical.engine.rows import RowSets


@dataclass(frozen=True, slots=True)
class TrainedPopulation:
    """A population after training, before unlearning."""

    pooled: PooledData  # the data of all parties
    sets: Sequence[RowSets]  # row sets, such as the forgotten rows, of every run
    names: Sequence[str]  # name of every run; the names of random streams contain this name
    original: Ensemble  # the trained models
    # The models after a fraction of the training epochs, by this fraction, for methods that start
    # from an early checkpoint.
    early: Mapping[float, Ensemble]

    def streams(self, purpose: str) -> list[str]:
        """Return the name of each run's random stream: ``purpose`` and the name of the run."""
        return [f"{purpose} {name}".strip() for name in self.names]
