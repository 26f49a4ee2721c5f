"""Set-up of a party for prediction: settings, data and trained network."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from configs.agreement import VerticalAgreement
from models.bottoms import ParallelBottoms
from parties.common.device import prepare_device
from parties.common.errors import DataError, IntegrityError
from parties.common.progress import ProgressListener
from parties.common.shared_randomness import Index
from parties.data.holding import Holding, read_holding, select_rows
from parties.data.party_settings import VerticalConfig, VerticalPartySettings
from parties.data.preprocess import FittedPreprocessing
from parties.data.sources.source import DataSettings
from parties.requests.journal import journal_of
from parties.requests.lifecycle import frozen_rows, requests_of
from parties.session.saved_model import (
    PREPROCESSING,
    RESTORE_HINT,
    SavedModel,
    load_parameters,
    read_saved_model,
)
from parties.session.setup import StartOptions
from parties.vertical.engine.features import DTYPES
from parties.vertical.engine.networks import (
    ActiveEnsemble,
    ActiveNetwork,
    OwnModule,
    build_bottom,
)
from parties.vertical.engine.party import VerticalParty
from parties.vertical.forgotten_rows import request_rules
from parties.vertical.kept_model import kept_ids, party_models, present_version
from parties.vertical.setup import set_up_party


@dataclass(frozen=True, slots=True)
class TrainedNetwork:
    """A party's trained network."""

    network: nn.Module  # the network, ready for evaluation
    # The fitted preprocessing of the party's features; None if the party has no features.
    fitted: FittedPreprocessing | None


def set_up_trained_party(
    config: VerticalConfig,
    name: str,
    options: StartOptions,
    listener: ProgressListener,
    asked: Sequence[bytes] | None = None,
) -> tuple[VerticalParty, TrainedNetwork]:
    """Load the trained network of a party, then its data and certificates.

    ``asked`` are the IDs to predict; a party without features needs no other data. The rows of open
    requests to forget are left out.

    Raises:
        IntegrityError: a file of the saved model is damaged or missing.
        ConfigError: the settings cannot be used, or the model was trained for another agreement.
        DataError: the data cannot be read.
        IdentityError: a certificate is missing or invalid.
        StorageError: there is no saved model, or a folder cannot be used.
    """
    agreement = config.agreement
    settings = config.settings(name)
    saved = read_saved_model(options.out / agreement.federation / name, name, agreement)
    built = load_party_network(saved, name, agreement, settings).to(prepare_device(settings.device))
    trained = TrainedNetwork(built, saved.fitted)
    party = set_up_party(config, name, options, listener, partial(_read, saved.fitted, asked))
    party = replace(party, holding=without_frozen_rows(party))
    return replace(party, model_run=saved.run), trained


def without_frozen_rows(party: VerticalParty) -> Holding:
    """The rows of a party without those of open requests to forget.

    Raises:
        DataError: no row is left.
        IntegrityError: the journal or the kept model is damaged, or its keys are wrapped by a
            master key that is not given.
    """
    holding = party.holding
    with journal_of(party) as journal:
        events = [] if journal is None else journal.events()
    views = requests_of(events, request_rules(party.agreement))
    if not frozen_rows(views, 0):
        return holding  # without requests, the kept model and its keys are not needed
    store = party_models(party)
    version = present_version(store)
    rows = frozen_rows(views, version)
    ids = kept_ids(store, version) if rows else ()
    frozen = {ids[row] for row in rows if row < len(ids)}
    left = [at for at, each in enumerate(holding.ids) if each not in frozen]
    if len(left) == len(holding):
        return holding
    if not left:
        raise DataError(
            f"all {len(holding)} rows are to be forgotten", "wait until the requests have ended"
        )
    party.progress.warn(f"{len(holding) - len(left)} rows of open requests are not predicted")
    return select_rows(holding, np.array(left))


def _read(
    fitted: FittedPreprocessing | None,
    asked: Sequence[bytes] | None,
    data: DataSettings,
    *,
    active: bool,
    **options: Any,
) -> Holding:
    """Read the columns that the model uses, without labels, which prediction does not need.

    ``options`` are those of ``read_holding``.
    """
    if fitted is not None:
        return read_holding(_features(data, fitted), active=False, **options)
    if asked is not None:
        return _only(list(dict.fromkeys(asked)))
    return read_holding(data, active=active, **options)


def _features(data: DataSettings, fitted: FittedPreprocessing) -> DataSettings:
    """The source without labels, dates and weights; of a table only the fitted columns."""
    fields = type(data).model_fields
    unused = [name for name in (*data.label_keys, "time", "weight") if name in fields]
    changes: dict[str, Any] = {name: fields[name].default for name in unused}
    changes |= {
        name: tuple(columns)
        for name, columns in (("numeric", fitted.numeric), ("categorical", fitted.categorical))
        if name in fields
    }
    return data.model_copy(update=changes)


def prediction_party(party: VerticalParty, rows: Index) -> VerticalParty:
    """Return a copy of ``party`` whose data is only the IDs with the indices ``rows``, [n].

    In the copy, ``psi.minimum`` is 1, so that a single row can be predicted. All parties make this
    change of the agreement, after the handshake has compared the unchanged agreements.
    """
    psi = party.agreement.psi.model_copy(update={"minimum": 1})
    agreement = party.agreement.model_copy(update={"psi": psi})
    ids = [party.holding.ids[row] for row in rows.tolist()]
    return replace(party, agreement=agreement, holding=_only(ids))


def prediction_inputs(party: VerticalParty, trained: TrainedNetwork, rows: Index) -> Tensor | None:
    """Features of ``rows``, [rows], with shape [rows, ...]; None without feature columns."""
    if trained.fitted is None:
        return None
    values = np.asarray(trained.fitted.transform(party.holding, rows))
    for column, (unknown, present) in trained.fitted.unknown_texts(party.holding, rows).items():
        party.progress.warn(
            f"column {column!r}: {unknown} of {present} texts are no category of the training, and "
            "are predicted without this column's value; compare how the data writes them, such as "
            "1 and 1.0"
        )
    return torch.from_numpy(values).to(DTYPES[party.agreement.dtype])


def _only(ids: Sequence[bytes]) -> Holding:
    """IDs without features; the test set does not matter in prediction."""
    return Holding(ids=ids, in_test=np.zeros(len(ids), np.bool_))


def load_party_network(
    saved: SavedModel, name: str, agreement: VerticalAgreement, settings: VerticalPartySettings
) -> nn.Module:
    """Build the network of a party for evaluation, and load its saved parameters.

    Raises:
        IntegrityError: the parameters do not fit the network, or are not finite.
        ConfigError: the party's own module cannot be imported, or differs from the agreed module.
        LookupError: the party is passive and has no features, and so no bottom model.
    """
    plan, shape = agreement.parties[name], None if saved.fitted is None else saved.fitted.shape
    shards = agreement.sharding.shards
    if (shape is None) is not (plan.width is None):
        raise IntegrityError(
            f"{saved.folder}: {PREPROCESSING} is missing, or belongs to another party", RESTORE_HINT
        )

    def build() -> nn.Module:
        own = OwnModule(name, settings.module)
        bottom = None if shape is None else build_bottom(plan, own, shape)
        top = OwnModule(name, settings.top_module)
        built = bottom if plan.role == "passive" else ActiveNetwork(agreement, bottom, top)
        if built is None:
            raise LookupError("a passive party without features has no bottom model to load")
        return built

    ensemble = ParallelBottoms if plan.role == "passive" else ActiveEnsemble
    built = build() if shards == 1 else ensemble(build() for _ in range(shards))
    return load_parameters(saved, built.to(DTYPES[agreement.dtype]))
