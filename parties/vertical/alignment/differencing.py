"""Protection against differencing: two intersections whose sizes differ by few rows.

A party that adds or removes one of its rows between two runs learns from the sizes whether the
others hold that row. Only sizes are stored, never rows.
"""

import json
from typing import Any

from parties.common.atomic_file import write_atomically
from parties.common.errors import PolicyError, StorageError
from parties.common.json_files import canonical_json
from parties.vertical.engine.party import VerticalParty

SIZES = "intersections.json"


def refuse_small_change(party: VerticalParty, common: int) -> None:
    """Refuse a run whose number of common rows is close to that of an earlier run; store new sizes.

    Raises:
        PolicyError: the sizes differ, but by fewer rows than ``psi.differencing``.
        StorageError: the earlier sizes cannot be read or written.
    """
    least, peers = party.agreement.psi.differencing, sorted(party.agreement.parties)
    if not least:
        return
    runs = _runs(party)
    earlier = [run["rows"] for run in runs if run["parties"] == peers]
    if any(0 < abs(rows - common) < least for rows in earlier):
        raise PolicyError(
            "the number of common rows differs from that of an earlier run by fewer than "
            f"psi.differencing = {least}",
            "run with the rows of the earlier run, or wait until more rows have changed",
        )
    if common not in earlier:
        write_atomically(
            party.state / SIZES, canonical_json([*runs, {"parties": peers, "rows": common}])
        )


def _runs(party: VerticalParty) -> list[dict[str, Any]]:
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
            "restore the file from a backup: psi.differencing needs it",
        ) from None
    return runs
