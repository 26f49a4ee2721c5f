"""All simulated clients' texts in one place: one corpus, of which each client has its part."""

from functools import lru_cache
from pathlib import Path

import torch

from configs.errors import ConfigError
from configs.federated_file import SIMULATED, LanguageConfig
from configs.language import OwnTexts
from configs.language_seat import TextSeat
from parties.horizontal.simulation.simulated_data import LIVE, Standing
from parties.language.client_data import dealt, public_rows, read_corpus, shelf_of
from parties.language.engine.base_model import furnish
from parties.language.engine.learner import LanguageLearner
from parties.language.tasks import learner


class TextStock:
    """See ``Stock``: the corpus, read once, and the model, laid out once."""

    def __init__(self, config: LanguageConfig, seat: TextSeat, folder: Path) -> None:
        self._agreement = config.agreement
        self._room = furnish(config.agreement, folder / seat.base, seat.device)
        self._corpus = read_corpus(seat, folder)
        self._parts = dealt(config.agreement, self._corpus)
        self._public = public_rows(seat, folder, self._room.encoder)
        self._laid_out = lru_cache(LIVE)(self._learner)

    @classmethod
    def read(cls, config: LanguageConfig, data: Path | None) -> "TextStock":
        """From its files.

        Raises:
            ConfigError: simulated clients share one corpus, which must be dealt.
        """
        if isinstance(config.agreement.partition, OwnTexts):
            raise ConfigError(
                f"{config.path}: simulated clients have one corpus, and partition is 'own'",
                'say how it is dealt: partition = {kind = "shards"}, "authors" or "one"',
            )
        seat = config.seat(f"{SIMULATED}-0")
        if not isinstance(seat, TextSeat):
            raise ConfigError(f"{config.path}: [seats.{SIMULATED}] has no texts")
        torch.set_num_threads(seat.threads)
        return cls(config, seat, data or config.path.parent / (seat.folder or Path()))

    def learner(self, client: str, standing: Standing) -> LanguageLearner:
        """See ``Stock``."""
        return self._laid_out(client, standing)

    def _learner(self, client: str, standing: Standing) -> LanguageLearner:
        agreement, room = self._agreement, self._room
        part = self._parts[client]
        shelf = shelf_of(agreement, client, self._corpus, part, room.encoder, self._public)
        return standing.taken(learner(agreement, client, room, shelf))
