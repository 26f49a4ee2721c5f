"""Differencing: two intersections that differ by few rows tell who these few are, so count them.

A party that adds or takes away one of its rows between two runs learns from their sizes whether
the others hold it. Only sizes are kept, never rows.
"""

import json
from typing import Any

from parties.common.atomic_file import write
from parties.common.errors import PolicyError, StorageError
from parties.common.json_files import canonical
from parties.session.party import Party

SIZES = "intersections.json"


def refuse_small_change(party: Party, common: int) -> None:
    """Refuse a run whose common rows are nearly as many as in an earlier one; remember others.

    Raises:
        PolicyError: the sizes differ by less than ``psi.differencing``, and differ.
        StorageError: the earlier sizes cannot be read or written.
    """
    least, peers = party.agreement.psi.differencing, sorted(party.agreement.parties)
    if not least:
        return
    runs = _runs(party)
    earlier = [run["rows"] for run in runs if run["parties"] == peers]
    if any(0 < abs(rows - common) < least for rows in earlier):
        raise PolicyError(
            "the common rows differ from those of an earlier run by fewer than psi.differencing = "
            f"{least}",
            "run with the rows of the earlier run, or wait until more have changed",
        )
    if common not in earlier:
        write(party.state / SIZES, canonical([*runs, {"parties": peers, "rows": common}]))


def _runs(party: Party) -> list[dict[str, Any]]:
    path = party.state / SIZES
    if not path.exists():
        return []
    try:
        runs: list[dict[str, Any]] = json.loads(path.read_text())
        if not all(isinstance(run["rows"], int) and run["parties"] for run in runs):
            raise ValueError("no sizes")
    except (OSError, ValueError, TypeError, KeyError):
        raise StorageError(
            f"cannot read the sizes of earlier runs in {path}",
            "restore the file; without it psi.differencing cannot be kept",
        ) from None
    return runs
