"""Simulated clients of the language mode: one corpus that is divided among all of them."""

from functools import lru_cache
from pathlib import Path

import torch

from configs.config_file import read_config
from configs.errors import ConfigError
from configs.federated import SIMULATED
from configs.language import LanguageConfig, OwnTexts
from configs.language_party_settings import LanguageClientSettings
from parties.horizontal.simulation.simulated_data import (
    MAX_LOADED_CLIENTS,
    ClientState,
    SimulationSource,
)
from parties.language.client_data import (
    build_text_dataset,
    encode_public_texts,
    partition_corpus,
    read_text_corpus,
)
from parties.language.engine.base_model import load_base_model
from parties.language.engine.local_training import LanguageClientTask
from parties.language.language_task import build_text_client
from parties.language.registry import SCHEMA
from parties.session.setup import data_folder


class SimulatedTextClients:
    """Simulated clients of one process, which share one corpus and one base model."""

    def __init__(
        self, config: LanguageConfig, settings: LanguageClientSettings, folder: Path
    ) -> None:
        self._agreement = config.agreement
        base = folder / settings.base
        self._base_model = load_base_model(config.agreement, base, settings.device)
        self._corpus = read_text_corpus(settings, folder)
        self._parts = partition_corpus(config.agreement, self._corpus)
        self._public = encode_public_texts(settings, folder, self._base_model.encoder)
        self._cached = lru_cache(MAX_LOADED_CLIENTS)(self._load)

    @classmethod
    def read(cls, config: LanguageConfig, data: Path | None) -> "SimulatedTextClients":
        """Read the corpus and the base model from ``data``; if None, from the config's folder.

        Raises:
            ConfigError: ``partition.kind`` is ``own``, or the config names no texts for simulated
                clients.
        """
        if isinstance(config.agreement.partition, OwnTexts):
            raise ConfigError(
                f"{config.path}: partition.kind is 'own', but simulated clients share one corpus",
                'set partition = {kind = "shards"} or {kind = "authors"} to divide the corpus',
            )
        settings = config.settings(f"{SIMULATED}-0")
        if not isinstance(settings, LanguageClientSettings):
            raise ConfigError(
                f"{config.path}: [settings.{SIMULATED}] names no texts for the simulated clients",
                f"add the keys base and data to [settings.{SIMULATED}]",
            )
        torch.set_num_threads(settings.threads)
        return cls(config, settings, data_folder(config.path, settings, data))

    def load(self, client: str, state: ClientState) -> LanguageClientTask:
        """Load a client, apply the requests in ``state``, and return the client's task."""
        return self._cached(client, state)

    def _load(self, client: str, state: ClientState) -> LanguageClientTask:
        agreement, base_model = self._agreement, self._base_model
        share = self._parts[client]
        dataset = build_text_dataset(
            agreement, client, self._corpus, share, base_model.encoder, self._public
        )
        return state.apply_to(build_text_client(agreement, client, base_model, dataset))


def read_text_clients(source: SimulationSource) -> SimulatedTextClients:
    """Read the corpus of all simulated clients.

    Raises:
        ConfigError: the config is for another mode, or ``partition.kind`` is ``own``.
    """
    config = read_config(source.config, SCHEMA, source.changes)
    return SimulatedTextClients.read(config, source.data)
