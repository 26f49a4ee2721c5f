"""Preprocessing that no private row entered: statistics from a file of the seat, or none needed."""

import json

from parties.common.errors import DataError, PolicyError
from parties.data.preprocess import Fitted, read_statistics
from parties.session.party import Party

_LARGEST = 1 << 24  # bytes


def statistics_apart(party: Party) -> Fitted | None:
    """The statistics that the seat names; None where they are to be fitted on training rows.

    Raises:
        DataError: the file cannot be read, or holds no statistics.
        PolicyError: our embeddings are released once, and statistics would be fitted on our rows.
    """
    path = party.seat.statistics
    if path is not None:
        try:
            with path.open("rb") as file:
                return read_statistics(json.loads(file.read(_LARGEST)))
        except (OSError, ValueError, RecursionError) as error:
            raise DataError(f"cannot read the statistics {path}") from error
    plan, passive = party.agreement.privacy, party.name != party.agreement.active
    if plan.embed_once and passive and party.holding.images is None:
        raise PolicyError(
            "with privacy.embed_once preprocessing must not depend on private rows, and a table's "
            "means and categories are fitted on them",
            "name statistics from public rows in the seat: statistics = FILE, in the format of "
            "preprocessing.json",
        )
    return None
