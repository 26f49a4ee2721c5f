"""All simulated clients' rows in one place: one data set, of which each client has its part."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import torch
from torch import nn

from configs.errors import ConfigError
from configs.federated_file import SIMULATED, HorizontalConfig, read_horizontal
from configs.horizontal import Own
from configs.seat import Seat
from parties.horizontal.learning.backdoor import plant
from parties.horizontal.learning.learner import Learner
from parties.horizontal.learning.networks import build
from parties.horizontal.learning.personal import personal
from parties.horizontal.learning.seat_taking import Whole, read_whole, requested, shelf_of

LIVE = 4  # clients of one process whose rows are laid out at a time


@dataclass(frozen=True, slots=True)
class Source:
    """Where the simulation's config and data are."""

    config: Path
    changes: tuple[str, ...]
    data: Path | None


@dataclass(frozen=True, slots=True)
class Standing:
    """What a client has been told: the present request, and those that it has purged."""

    request: str | None = None
    purged: tuple[str, ...] = ()


class Stock:
    """The data set, read once, and the network; clients are laid out when they are asked for."""

    def __init__(self, config: HorizontalConfig, whole: Whole, network: nn.Module) -> None:
        self._config, self._whole, self._network = config, whole, network
        self._laid_out = lru_cache(LIVE)(self._learner)

    @classmethod
    def read(cls, source: Source) -> "Stock":
        """From its files.

        Raises:
            ConfigError: simulated clients share one data set, which must be dealt.
        """
        config = read_horizontal(source.config, source.changes)
        if isinstance(config.agreement.partition, Own):
            raise ConfigError(
                f"{source.config}: simulated clients have one data set, and partition is 'own'",
                'say how it is dealt: partition = {kind = "iid"}, "pathological" or "dirichlet"',
            )
        seat = config.seat(f"{SIMULATED}-0")
        if not isinstance(seat, Seat):
            raise ConfigError(f"{source.config}: [seats.{SIMULATED}] has no data")
        torch.set_num_threads(seat.threads)
        folder = source.data or config.path.parent / (seat.folder or Path())
        whole = read_whole(config.agreement, seat.data, folder, lambda _: None)
        return cls(config, whole, build(config.agreement, "shape"))

    def learner(self, client: str, standing: Standing) -> Learner:
        """A client as it stands."""
        return self._laid_out(client, standing)

    def _learner(self, client: str, standing: Standing) -> Learner:
        agreement = self._config.agreement
        shelf = shelf_of(agreement, client, self._whole)
        known = {each.name: each for each in agreement.unlearn}
        plant(agreement, client, shelf)
        for name in standing.purged:
            shelf.forgotten = requested(agreement, known[name], client, shelf)
            shelf.purge()
        if standing.request is not None:
            shelf.forgotten = requested(agreement, known[standing.request], client, shelf)
        plan = personal(agreement, self._network)
        return Learner(client, self._network, shelf, agreement.seed, plan)
