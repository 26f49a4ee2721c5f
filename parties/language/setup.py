"""Set-up of a party in the language mode: identity, memory check, texts, folder."""

from pathlib import Path

import numpy as np

from configs.config_file import FederatedConfig
from configs.errors import ConfigError
from configs.federated import SIMULATED
from configs.language import LanguageAgreement
from configs.language_party_settings import LanguageClientSettings, LanguageServerSettings
from parties.common.progress import ProgressListener, ProgressReporter
from parties.horizontal.local.rows import OwnRows
from parties.horizontal.party import FederatedMode
from parties.language.client_data import (
    OwnText,
    build_text_dataset,
    encode_records,
    own_texts,
    partition_corpus,
    read_public_texts,
    read_text_corpus,
)
from parties.language.engine.base_model import load_base_model, load_encoder
from parties.language.engine.party import LanguageParty
from parties.language.engine.text_dataset import TextDataset
from parties.language.engine.truncation import warn_of_truncated_texts
from parties.language.language_task import language_client_task, language_server_task
from parties.language.memory_check import memory_roles, report_memory
from parties.language.registry import text_local_tasks
from parties.language.simulated_data import read_text_data
from parties.session.setup import StartOptions, data_folder
from parties.session.start import start_party

BASE_HINT = 'set base = "DIR", the folder of the base model'


def set_up_language_party(
    config: FederatedConfig, name: str, options: StartOptions, listener: ProgressListener
) -> LanguageParty:
    """Read a party's settings, certificates and texts, and check the memory.

    Raises:
        ConfigError: the config is for another mode, or the party settings name no base model.
        DataError: the base model or a text file cannot be used.
        PolicyError: the base model differs from the agreed one, or the texts cannot be divided
            among the clients.
        IdentityError: a certificate cannot be used.
        StorageError: the folder of the party cannot be used.
    """
    agreement = config.agreement
    if not isinstance(agreement, LanguageAgreement):
        raise ConfigError(f"{config.path} is not a config of the LLM mode", 'set mode = "llm"')
    settings = config.settings(name)
    if not isinstance(settings, LanguageServerSettings | LanguageClientSettings):
        raise ConfigError(f"{config.path}: the settings of {name} name no base model", BASE_HINT)
    start = start_party(config, name, options, listener)
    folder, progress = start.folder, start.progress
    roles = memory_roles(agreement, server=name == agreement.hub)
    report_memory(agreement, folder / settings.base, settings.device, progress, *roles)
    if agreement.clients and not isinstance(settings, LanguageClientSettings):
        _warn_of_simulated_texts(config, agreement, options, progress)
    dataset = TextDataset([], np.zeros(0, np.bool_))
    if isinstance(settings, LanguageClientSettings):
        progress.phase("reading texts")
        dataset = _read_dataset(agreement, name, settings, folder)
        held = [*dataset.test, *dataset.validation]
        warn_of_truncated_texts(progress, [*dataset.rows, *held, *dataset.public], agreement)
    return LanguageParty(
        server_task=language_server_task, client_task=language_client_task,
        local_tasks=text_local_tasks, agreement=agreement, settings=settings, folder=folder,
        dataset=dataset, **start.count().values(),
    )  # fmt: skip


def _warn_of_simulated_texts(
    config: FederatedConfig,
    agreement: LanguageAgreement,
    options: StartOptions,
    progress: ProgressReporter,
) -> None:
    """Warn once of truncated texts of all simulated clients; their processes do not warn."""
    settings = config.settings(f"{SIMULATED}-0")
    if not isinstance(settings, LanguageClientSettings):
        return  # SimulatedTextData.read raises the error
    folder = data_folder(config.path, settings, options.data)
    progress.phase("reading texts")
    encoder = load_encoder(agreement, folder / settings.base)
    rows = encode_records(read_text_corpus(settings, folder).records, encoder)
    public = encode_records(read_public_texts(settings, folder), encoder)
    warn_of_truncated_texts(progress, rows + public, agreement)


def _read_dataset(
    agreement: LanguageAgreement, name: str, settings: LanguageClientSettings, folder: Path
) -> TextDataset:
    encoder = load_base_model(agreement, folder / settings.base, settings.device).encoder
    corpus = read_text_corpus(settings, folder)
    public = encode_records(read_public_texts(settings, folder), encoder)
    share = partition_corpus(agreement, corpus)[name]
    return build_text_dataset(agreement, name, corpus, share, encoder, public)


def texts_of_client(config: FederatedConfig, name: str, folder: Path) -> list[OwnText]:
    """Return the texts of a client by number, without the base model.

    Raises:
        ConfigError: the party has no texts.
        DataError: a text file cannot be used.
        PolicyError: the texts cannot be divided among the clients.
    """
    agreement, settings = config.agreement, config.settings(name)
    if (
        not isinstance(agreement, LanguageAgreement)
        or not isinstance(settings, LanguageClientSettings)
        or name not in agreement.spokes
    ):
        clients = ", ".join(agreement.spokes[:10])
        raise ConfigError(f"{config.path}: {name} has no texts", f"the clients are {clients}")
    return own_texts(agreement, name, read_text_corpus(settings, folder))


def own_text_rows(config: FederatedConfig, name: str, folder: Path) -> OwnRows:
    """Return the texts of a client by content hash and number; see ``texts_of_client``."""
    texts = texts_of_client(config, name, folder)
    return OwnRows(
        held=frozenset(each.id for each in texts),
        trained={each.id: 1 for each in texts if each.trained},
        numbers={each.number: each.id for each in texts},
        hashes=True,
    )


LANGUAGE_MODE = FederatedMode(set_up_language_party, read_text_data, own_text_rows)
