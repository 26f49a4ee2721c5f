"""All simulated clients' rows in one place: one data set, of which each client has its part."""

from functools import lru_cache
from pathlib import Path

import torch
from torch import nn

from configs.errors import ConfigError
from configs.federated_file import SIMULATED, HorizontalConfig
from configs.horizontal import Own
from configs.seat import RowSeat
from parties.horizontal.local.backdoor import plant
from parties.horizontal.local.client_data import Whole, read_whole, shelf_of
from parties.horizontal.local.learner import Learner
from parties.horizontal.local.networks import build
from parties.horizontal.network_task import learner
from parties.horizontal.simulation.simulated_data import LIVE, Standing
from parties.horizontal.task import Taught


class RowStock:
    """The data set, read once, and the network."""

    def __init__(self, config: HorizontalConfig, whole: Whole, network: nn.Module) -> None:
        self._config, self._whole, self._network = config, whole, network
        self._laid_out = lru_cache(LIVE)(self._learner)

    @classmethod
    def read(cls, config: HorizontalConfig, data: Path | None) -> "RowStock":
        """From its files.

        Raises:
            ConfigError: simulated clients share one data set, which must be dealt.
        """
        if isinstance(config.agreement.partition, Own):
            raise ConfigError(
                f"{config.path}: simulated clients have one data set, and partition is 'own'",
                'say how it is dealt: partition = {kind = "iid"}, "pathological" or "dirichlet"',
            )
        seat = config.seat(f"{SIMULATED}-0")
        if not isinstance(seat, RowSeat):
            raise ConfigError(f"{config.path}: [seats.{SIMULATED}] has no data")
        torch.set_num_threads(seat.threads)
        folder = data or config.path.parent / (seat.folder or Path())
        whole = read_whole(config.agreement, seat.data, folder, lambda _: None)
        return cls(config, whole, build(config.agreement, "shape"))

    def learner(self, client: str, standing: Standing) -> Taught:
        """See ``Stock``."""
        return self._laid_out(client, standing)

    def _learner(self, client: str, standing: Standing) -> Learner:
        agreement = self._config.agreement
        shelf = shelf_of(agreement, client, self._whole)
        plant(agreement, client, shelf)
        return standing.taken(learner(agreement, client, self._network, shelf))
