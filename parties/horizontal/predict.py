"""Prediction in the horizontal mode: a client applies the model of a run to its own rows, alone."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from configs.errors import ConfigError
from configs.federated_file import HorizontalConfig
from configs.seat import Data, RowSeat
from parties.data.asked_ids import all_held, id_columns, read_ids
from parties.data.holding import read_holding
from parties.data.predictions import Predictions
from parties.data.sources.records import Progress
from parties.horizontal.local.client_data import inputs
from parties.horizontal.local.learner import AT_ONCE
from parties.horizontal.local.networks import build
from parties.vertical.prediction.saved import loaded, read_saved


@dataclass(frozen=True, slots=True)
class Question:
    """Who asks, and about which rows.

    Attributes:
        runs: folder of the runs.
        data: wins over the seat's folder.
        ids: a file of IDs; None: every row of the seat's data.
    """

    seat: str
    runs: Path
    data: Path | None
    ids: Path | None


def predict_rows(config: HorizontalConfig, asks: Question, progress: Progress) -> Predictions:
    """What the model that the seat kept says of its rows.

    Raises:
        ConfigError: this seat cannot ask.
        StorageError, IntegrityError: its model cannot be used.
        DataError: its data cannot, or the IDs.
    """
    agreement, seat = config.agreement, config.seat(asks.seat)
    owner = _owner(config, asks.seat)
    if not isinstance(seat, RowSeat):
        raise ConfigError(
            f"{asks.seat} is the server in {config.path}: it holds no row",
            "predict at a client, which got the model when the run ended",
        )
    saved = read_saved(asks.runs / agreement.federation / owner, owner, agreement)
    network = loaded(saved, build(agreement, "shape"))
    columns = id_columns(seat.data)
    asked = None if asks.ids is None else read_ids(asks.ids, columns)
    holding = read_holding(
        seat.data,
        folder=asks.data or config.path.parent / (seat.folder or Path()),
        classes=agreement.labels.classes,
        active=_labelled(seat.data),
        varied=False,
        progress=progress,
    )
    asked = asked or all_held(holding, columns)
    torch.set_num_threads(seat.threads)
    found = _probabilities(network, inputs(holding, seat.data, agreement.shape))
    places = {each: row for row, each in enumerate(holding.ids)}
    absent = np.full((1, found.shape[1]), np.nan)
    rows = [places.get(each, -1) for each in asked.ids]
    return Predictions(asked.texts, agreement.labels.classes, np.concatenate([found, absent])[rows])


def _owner(config: HorizontalConfig, name: str) -> str:
    """Whose folder has the model: the client's own, or the server's, which simulates it."""
    agreement = config.agreement
    if not agreement.clients or name == agreement.hub:
        return name
    if agreement.personal.kind != "none":
        raise ConfigError(
            f"{name} is simulated, and what is a simulated client's own ends with the run",
            "predict with clients that have processes, or personal = none",
        )
    return agreement.hub


def _labelled(data: Data) -> bool:
    """Whether the seat names labels: then they are read as in training, and not used."""
    return any(getattr(data, option, None) for option in ("label", "labels"))


@torch.no_grad()
def _probabilities(network: nn.Module, rows: Tensor) -> NDArray[np.float64]:
    """``[rows, classes]``."""
    parts = [network(part).double().softmax(dim=1) for part in torch.split(rows, AT_ONCE)]
    found: NDArray[np.float64] = torch.cat(parts).numpy()
    return found
