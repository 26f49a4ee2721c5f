"""The agreed columns of a horizontal run, applied to the data of a client."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

from configs.columns import AgreedColumn
from parties.common.errors import DataError
from parties.data.holding import Holding, read_with_options
from parties.data.sources.collect import TableSettings
from parties.data.sources.source import AgreedFeatures, DataSettings, IdColumns, ReadOptions

_Data = TypeVar("_Data", bound=DataSettings)


def agreed_data(columns: Sequence[AgreedColumn], data: _Data, party: str) -> _Data:
    """Return the data settings of a client with the agreed ranges and vocabularies.

    Without agreed columns, the settings stay as they are.

    Args:
        columns: the agreed columns.
        data: the data settings of the client.
        party: name of the client, for messages.

    Raises:
        DataError: the settings declare ranges, vocabularies or features of their own.
    """
    if not columns:
        return data
    for key, declared in (("ranges", data.ranges), ("vocabulary", data.vocabulary)):
        for column in declared:
            raise DataError(
                f"the party settings of {party} set data.{key} for column {column!r}, but the "
                "agreement has the key 'columns'",
                f"remove the key {key!r} from the party settings: the agreed columns are used",
            )
    ranges = {each.name: each.range for each in columns if each.range is not None}
    words = {each.name: each.vocabulary for each in columns if each.vocabulary is not None}
    changes: dict[str, Any] = {"ranges": ranges, "vocabulary": words}
    if isinstance(data, TableSettings):
        _refuse_other_uses(columns, data, party)
        changes["categorical"] = tuple(words)
        if data.numeric is not None:
            changes["numeric"] = tuple(ranges)
    return data.model_copy(update=changes)


def read_agreed(
    columns: Sequence[AgreedColumn],
    data: DataSettings,
    party: str,
    options: ReadOptions,
    *,
    labelled: bool,
    several_classes: bool,
) -> Holding:
    """Read the data of a client; with agreed columns, the columns are in the agreed order.

    Args:
        columns: the agreed columns; empty: the client's settings decide.
        data: the data settings, as ``agreed_data`` returns them.
        party: name of the client.
        options: folder, classes and progress.
        labelled: whether the data must have labels.
        several_classes: whether the labels must have at least two classes.

    Raises:
        DataError: the data cannot be used, lacks an agreed column, or has another feature.
        ResourceError: the data exceeds a limit in the party settings.
        IntegrityError: a file changed while it was read.
        StorageError: the temporary folder has no space for large columns.
    """
    agreed = AgreedFeatures(party, frozenset(each.name for each in columns)) if columns else None
    holding = read_with_options(
        data, replace(options, agreed=agreed), active=labelled, several_classes=several_classes
    )
    if agreed is None:
        return holding
    if holding.table is None:
        kind = "images" if holding.images is not None else "no features"
        raise DataError(
            f"the data of {party} has {kind}, but the agreement lists columns of a table",
            "remove the key 'columns' from the agreement and set 'shape', or name a table",
        )
    features = (*holding.numeric, *holding.categorical)
    agreed.check("the data", features, features)
    numeric = [each.name for each in columns if each.range is not None]
    texts = [each.name for each in columns if each.vocabulary is not None]
    for name in {*numeric} ^ {*holding.numeric}:
        raise DataError(
            f"column {name!r} of {party} has numbers where the agreement has a vocabulary, or "
            "texts where it has a range",
            "give every client the same columns",
        )
    return replace(holding, table=holding.table.arranged(numeric, texts))


def _refuse_other_uses(columns: Sequence[AgreedColumn], data: TableSettings, party: str) -> None:
    """Refuse settings by which a column has another use than the agreed one."""
    agreed = {each.name: "categorical" if each.range is None else "numeric" for each in columns}
    ids = data.id.columns if isinstance(data.id, IdColumns) else ()
    for use, names in (("ID", ids), ("label", data.label_columns)):
        for name in agreed.keys() & {*names}:
            raise DataError(
                f"column {name!r} is the {use} of {party}, but the agreement lists it under "
                "'columns'",
                "remove it from the agreement, or name another column in the party settings",
            )
    stated = dict.fromkeys(data.categorical, "categorical")
    stated |= dict.fromkeys(data.numeric or (), "numeric")
    for name, use in stated.items():
        if name in agreed and use != agreed[name]:
            raise DataError(
                f"the party settings of {party} list column {name!r} as {use}, but it is "
                f"{agreed[name]} in the agreement",
                f"list it under data.{agreed[name]}",
            )
    if data.numeric is not None:
        AgreedFeatures(party, frozenset(agreed)).check("the table [data]", stated, stated)
