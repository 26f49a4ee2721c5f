"""What both roles do alike when they predict: seat, data and network of a trained half."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from configs.schema import Config
from configs.seat import Data
from parties.common.device import ready
from parties.common.progress import Listener
from parties.common.shared_randomness import Index
from parties.data.holding import Holding, read_holding
from parties.data.preprocess import Fitted
from parties.data.sources.records import Progress
from parties.session.party import Party
from parties.session.setup import Place, take_seat
from parties.vertical.engine.features import DTYPES
from parties.vertical.prediction.saved import network, read_saved


@dataclass(frozen=True, slots=True)
class Trained:
    """One party's half, ready to be asked."""

    network: nn.Module
    fitted: Fitted | None


def take_trained_seat(
    config: Config,
    name: str,
    place: Place,
    listener: Listener,
    asked: Sequence[bytes] | None = None,
) -> tuple[Party, Trained]:
    """Read the half that the seat kept, then its data and certificates.

    Where the seat has no features, the IDs that are ``asked`` for are all its data.

    Raises:
        IntegrityError: a file of the half is not as the run wrote it.
        ConfigError, DataError, IdentityError, StorageError: see ``take_seat``.
    """
    agreement = config.agreement
    seat = config.seat(name)
    saved = read_saved(place.out / agreement.federation / name, name, agreement)
    built = network(saved, name, agreement, seat.module).to(ready(seat.device))
    trained = Trained(built, saved.fitted)
    party = take_seat(config, name, place, listener, partial(_read, saved.fitted, asked))
    return replace(party, predicts=saved.run), trained


def _read(
    fitted: Fitted | None,
    asked: Sequence[bytes] | None,
    data: Data,
    *,
    folder: Path,
    classes: Sequence[str],
    active: bool,
    progress: Progress,
) -> Holding:
    """The columns that the model knows, without labels: who is predicted need not have one."""
    if fitted is not None:
        source = _features(data, fitted)
        return read_holding(source, folder=folder, classes=classes, active=False, progress=progress)
    if asked is not None:
        return _only(list(dict.fromkeys(asked)))
    return read_holding(data, folder=folder, classes=classes, active=active, progress=progress)


def _features(data: Data, fitted: Fitted) -> Data:
    """The source without its labels; columns of tables are those that were fitted."""
    fields = type(data).model_fields
    changes: dict[str, Any] = {
        name: fields[name].default for name in ("label", "labels", "test_labels") if name in fields
    }
    changes |= {
        name: tuple(columns)
        for name, columns in (("numeric", fitted.numeric), ("categorical", fitted.categorical))
        if name in fields
    }
    return data.model_copy(update=changes)


def sought(party: Party, rows: Index) -> Party:
    """The party as the intersection meets it: with some of its rows, and one in common is enough.

    All parties change their agreement alike, after the greeting has compared it.
    """
    psi = party.agreement.psi.model_copy(update={"minimum": 1})
    agreement = party.agreement.model_copy(update={"psi": psi})
    ids = [party.holding.ids[row] for row in rows.tolist()]
    return replace(party, agreement=agreement, holding=_only(ids))


def inputs(party: Party, trained: Trained, rows: Index) -> Tensor | None:
    """Features of some rows of the holding, [rows, ...]; None where the party has none."""
    if trained.fitted is None:
        return None
    values = np.asarray(trained.fitted.transform(party.holding, rows))
    return torch.from_numpy(values).to(DTYPES[party.agreement.dtype])


def _only(ids: Sequence[bytes]) -> Holding:
    """IDs without features; which files they stand in does not matter any more."""
    return Holding(ids=ids, in_test=np.zeros(len(ids), np.bool_))
