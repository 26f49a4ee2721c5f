"""Prediction in the horizontal mode: a client applies the model of a run to its own rows."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from configs.errors import ConfigError
from configs.horizontal import HorizontalConfig
from parties.data.agreed_columns import agreed_data, read_agreed
from parties.data.party_settings import RowPartySettings
from parties.data.predictions import Predictions
from parties.data.requested_ids import all_ids, id_columns, read_ids
from parties.data.sources.arrays import Progress
from parties.data.sources.source import ReadOptions
from parties.horizontal.local.client_data import network_inputs
from parties.horizontal.local.network_client import EVALUATION_BATCH
from parties.horizontal.local.networks import build_whole_network
from parties.session.saved_model import load_parameters, read_saved_model
from parties.session.setup import data_folder


@dataclass(frozen=True, slots=True)
class RowPredictionRequest:
    """A request for predictions: the party that predicts, and the rows to predict."""

    party: str  # name of the party
    runs: Path  # folder of the runs
    data: Path | None  # folder of the data; None: the folder in the party settings
    ids: Path | None  # file with IDs; None: all rows of the party's data


def predict_rows(
    config: HorizontalConfig, request: RowPredictionRequest, progress: Progress
) -> Predictions:
    """Return the predictions of a party's saved model for the party's own rows.

    Raises:
        ConfigError: the party has no rows or no saved model of its own, or the model was trained
            for another agreement.
        StorageError: the saved model is missing.
        IntegrityError: the saved model is damaged.
        DataError: the data or the IDs cannot be used.
    """
    agreement, settings = config.agreement, config.settings(request.party)
    owner = _owner(config, request.party)
    if not isinstance(settings, RowPartySettings):
        raise ConfigError(
            f"{request.party} is the server in {config.path}; a server has no rows to predict",
            "run the prediction at a client; each client received the model at the end of the run",
        )
    saved = read_saved_model(request.runs / agreement.federation / owner, owner, agreement)
    network = load_parameters(saved, build_whole_network(agreement, "shape"))
    columns = id_columns(settings.data)
    asked = None if request.ids is None else read_ids(request.ids, columns)
    data = agreed_data(agreement.columns, settings.data, request.party)
    holding = read_agreed(
        agreement.columns,
        data,
        request.party,
        ReadOptions(
            data_folder(config.path, settings, request.data), agreement.labels.classes, progress
        ),
        labelled=data.has_labels,
        several_classes=False,
    )
    asked = asked or all_ids(holding, columns)
    torch.set_num_threads(settings.threads)
    found = _probabilities(network, network_inputs(holding, data, agreement.shape))
    places = {each: row for row, each in enumerate(holding.ids)}
    absent = np.full((1, found.shape[1]), np.nan)
    rows = [places.get(each, -1) for each in asked.ids]
    return Predictions(asked.texts, agreement.labels.classes, np.concatenate([found, absent])[rows])


def _owner(config: HorizontalConfig, name: str) -> str:
    """The party that saved the model: the client, or the server that simulates the client."""
    agreement = config.agreement
    if not agreement.clients or name == agreement.hub:
        return name
    if agreement.personal.kind != "none":
        raise ConfigError(
            f"{name} is a simulated client; the run did not save its personal parameters",
            'run the clients with vfl-party, or set personal = {kind = "none"}, and train again',
        )
    return agreement.hub


@torch.no_grad()
def _probabilities(network: nn.Module, rows: Tensor) -> NDArray[np.float64]:
    """Probabilities of the classes, ``[rows, classes]``."""
    parts = [network(part).double().softmax(dim=1) for part in torch.split(rows, EVALUATION_BATCH)]
    found: NDArray[np.float64] = torch.cat(parts).numpy()
    return found
