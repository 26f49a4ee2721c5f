"""Set-up of a vertical party: settings, certificates, data and folder."""

from collections.abc import Callable

from configs.agreement import VerticalAgreement
from parties.common.device import prepare_device
from parties.common.errors import DataError
from parties.common.progress import ProgressListener
from parties.data.holding import Holding, read_holding
from parties.data.party_settings import VerticalConfig, VerticalPartySettings
from parties.data.preprocess import declared_preprocessing, declared_target
from parties.session.setup import StartOptions
from parties.session.start import start_party
from parties.vertical.engine.party import VerticalParty
from parties.vertical.forgotten_rows import with_corrected_labels, without_forgotten_rows
from parties.vertical.kept_model import read_kept_part, refuse_other_columns
from protocol.errors import IdentityError


def set_up_party(
    config: VerticalConfig,
    name: str,
    options: StartOptions,
    listener: ProgressListener,
    read: Callable[..., Holding] | None = None,
) -> VerticalParty:
    """Read the settings, the data and the certificates of the party ``name``.

    If the caller gives a function ``read``, it reads the data in place of ``read_holding``, and no
    check tests whether the data is suitable for training. Forgotten rows are left out, except for
    a party that uses a kept model, which knows them.

    Raises:
        ConfigError: the settings cannot be used.
        DataError: the data cannot be read, or does not fit the agreement.
        IdentityError: a certificate is missing or invalid.
        StorageError: a folder cannot be used.
    """
    agreement, settings = config.agreement, config.settings(name)
    start = start_party(config, name, options, listener)
    start.progress.phase("reading data")
    prepare_device(settings.device)
    holding = (read or read_holding)(
        settings.data,
        folder=start.folder,
        classes=agreement.labels.classes,
        task=agreement.labels.task,
        active=agreement.parties[name].role == "active",
        progress=start.progress.step,
    )
    started = start.count()
    # A kept model knows which of its rows were forgotten, and a replay needs them once more.
    if not (started.serves or started.replays):
        holding = without_forgotten_rows(holding, started)
        holding = with_corrected_labels(holding, started, agreement)
    if read is None:
        check_holding(holding, agreement, name, settings)
    values = started.values()
    if started.continues:
        values["base"] = base = read_kept_part(started, agreement)
        if base is not None:
            refuse_other_columns(base, holding, name)
    return VerticalParty(agreement=agreement, settings=settings, holding=holding, **values)


def check_holding(
    holding: Holding, agreement: VerticalAgreement, name: str, settings: VerticalPartySettings
) -> None:
    """Check the data before any other party is contacted.

    Raises:
        DataError: the data do not fit the agreement.
    """
    _refuse_large_batch(holding, agreement.training.batch)
    _refuse_no_columns(holding, agreement, name)
    _refuse_other_columns(holding, agreement.parties[name].columns)
    _refuse_other_times(holding, agreement, name)
    _refuse_other_weights(holding, agreement, name)
    if agreement.preprocessing == "declared":
        declared_preprocessing(holding, settings.data)
        if holding.labels is not None and agreement.labels.task == "regression":
            declared_target(settings.data)


def _refuse_large_batch(holding: Holding, batch: int) -> None:
    """Refuse a batch that the party's own rows cannot fill; common rows are even fewer."""
    if batch > len(holding):
        raise DataError(
            f"training.batch = {batch}, but this party has only {len(holding)} rows",
            f"choose a batch from 1 to {len(holding)}, the same at every party",
        )


def _refuse_other_times(holding: Holding, agreement: VerticalAgreement, name: str) -> None:
    """Only the active party has dates, and only if they divide the rows."""
    needed = agreement.split.kind == "time" and name == agreement.active
    if needed and holding.times is None:
        raise DataError(
            "split.kind = 'time' divides the rows by a date, but this party's data has none",
            "name the column with the key time in the table [data] of the party settings",
        )
    if holding.times is not None and not needed:
        raise DataError(
            "the party settings name a column with dates (data.time), which nothing uses",
            "remove data.time; at the active party, split.kind = 'time' in the agreement uses it",
        )


def _refuse_other_weights(holding: Holding, agreement: VerticalAgreement, name: str) -> None:
    """Only the active party has weights of the rows, and only if they are agreed."""
    needed = agreement.training.sample_weights and name == agreement.active
    if needed and holding.weights is None:
        raise DataError(
            f"training.sample_weights is set, but the data of {name} has no weights of the rows",
            "name the column with the key weight in the table [data] of the party settings; only a "
            "table (csv, parquet or sql) has such a column",
        )
    if holding.weights is not None and not needed:
        raise DataError(
            f"the settings of {name} name a column with weights of the rows (data.weight), which "
            "nothing uses",
            "remove data.weight; at the active party, training.sample_weights = true in the "
            "agreement uses it",
        )


def _refuse_no_columns(holding: Holding, agreement: VerticalAgreement, name: str) -> None:
    """Refuse an agreed width of a party that has only labels."""
    width = agreement.parties[name].width
    if width is not None and holding.table is None and holding.images is None:
        raise DataError(
            f"the agreement has parties.{name}.width = {width}, but the data of {name} has no "
            "features",
            f"remove the key 'width' of {name}, which then has labels alone; or select columns "
            "with the keys numeric and categorical in its settings",
        )


def _refuse_other_columns(holding: Holding, agreed: int | None) -> None:
    held = len(holding.numeric) + len(holding.categorical)
    if agreed is not None and held != agreed:
        raise DataError(
            f"the data has {held} feature columns, but the agreement requires columns = {agreed}",
            "select columns with the keys numeric and categorical in the party settings, or change "
            "columns in the agreement",
        )


def admit_passive_party(party: VerticalParty, certificate: object) -> str:
    """The name of the passive party in a certificate; raises ``IdentityError`` for other names."""
    name = party.trust.check(certificate, party.now())  # type: ignore[arg-type]
    if name not in party.agreement.passive:
        raise IdentityError(f"{name} is not a passive party of this agreement")
    return name
