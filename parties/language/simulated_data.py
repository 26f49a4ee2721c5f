"""Simulated clients of the language mode: one corpus that is divided among all of them."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray

from configs.config_file import read_config
from configs.errors import ConfigError
from configs.federated import SIMULATED
from configs.language import LanguageAgreement, LanguageConfig, OwnTexts
from configs.language_party_settings import LanguageClientSettings
from parties.horizontal.simulation.simulated_data import (
    MAX_LOADED_CLIENTS,
    ClientState,
    SimulationSource,
)
from parties.language.client_data import (
    TextCorpus,
    build_text_dataset,
    encode_records,
    partition_corpus,
    read_public_texts,
    read_text_corpus,
)
from parties.language.engine.base_model import BaseModel, load_base_model
from parties.language.engine.local_training import LanguageClientTask
from parties.language.language_task import build_text_client
from parties.language.registry import SCHEMA
from parties.language.texts.records import TextRecord
from parties.session.setup import data_folder


class SimulatedTextClients:
    """All simulated clients of a run, which share one corpus and one base model.

    Args:
        agreement: the agreement of the run.
        corpus: the texts that are divided among the clients.
        base_model: the base model that all clients of a process share.
        public: the public texts.
    """

    def __init__(
        self,
        agreement: LanguageAgreement,
        corpus: TextCorpus,
        base_model: BaseModel,
        public: Sequence[TextRecord],
    ) -> None:
        self._agreement, self._corpus, self._base_model = agreement, corpus, base_model
        self._parts = partition_corpus(agreement, corpus)
        self._public = encode_records(public, base_model.encoder)
        self._cached = lru_cache(MAX_LOADED_CLIENTS)(self._load)

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


@dataclass(frozen=True, slots=True, repr=False)
class SimulatedTextData:
    """Agreement, texts and base model of all simulated clients; ``repr`` shows no texts.

    Attributes:
        agreement: the agreement of the run as JSON; its class, built at run time, has no name by
            which another process finds it.
        corpus: the texts that are divided among the clients.
        public: the public texts.
        base: folder of the base model, or the contents of its files by relative path, ``[bytes]``
            each.
        device: device of the model.
        threads: number of threads of a process that trains clients.
    """

    agreement: str
    corpus: TextCorpus
    public: Sequence[TextRecord]
    base: Path | Mapping[str, NDArray[np.uint8]]
    device: str
    threads: int

    @classmethod
    def read(cls, config: LanguageConfig, data: Path | None) -> Self:
        """Read the texts from ``data``; if None, from the config's folder.

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
        folder = data_folder(config.path, settings, data)
        corpus, public = read_text_corpus(settings, folder), read_public_texts(settings, folder)
        base, threads = folder / settings.base, settings.threads
        agreement = config.agreement.model_dump_json(exclude_unset=True)
        return cls(agreement, corpus, public, base, settings.device, threads)

    def clients(self) -> SimulatedTextClients:
        """Load the base model, and return all clients."""
        torch.set_num_threads(self.threads)
        agreement = SCHEMA.agreement.model_validate_json(self.agreement)
        with _base_folder(self.base) as folder:
            base_model = load_base_model(agreement, folder, self.device)
        return SimulatedTextClients(agreement, self.corpus, base_model, self.public)

    def without_paths(self) -> Self:
        """Return a copy with the contents of the base model's files in place of their folder."""
        if not isinstance(self.base, Path):
            return self
        paths = sorted(each for each in self.base.rglob("*") if each.is_file())
        names = [str(each.relative_to(self.base)) for each in paths]
        contents = [np.fromfile(each, np.uint8) for each in paths]
        return replace(self, base=dict(zip(names, contents, strict=True)))


@contextmanager
def _base_folder(base: Path | Mapping[str, NDArray[np.uint8]]) -> Iterator[Path]:
    """The folder of the base model; a temporary folder if ``base`` has the contents of its files.

    A model that is loaded stays usable when the temporary folder is deleted.
    """
    if isinstance(base, Path):
        yield base
        return
    with TemporaryDirectory(prefix="vfl-base-") as name:
        for relative, content in base.items():
            path = Path(name) / relative
            path.parent.mkdir(parents=True, exist_ok=True)
            content.tofile(path)
        yield Path(name)


def read_text_data(source: SimulationSource) -> SimulatedTextData:
    """Read the texts of all simulated clients.

    Raises:
        ConfigError: the config is for another mode, or ``partition.kind`` is ``own``.
    """
    return SimulatedTextData.read(read_config(source.config, SCHEMA, source.changes), source.data)
