"""Protection against differencing attacks, which compare the sizes of two intersections.

If a party adds or removes one of its rows between two runs, the two sizes reveal whether all other
parties have that row. Rows that journaled requests removed are known to all parties, so they are
taken off the earlier size first. Only sizes are stored, never rows.
"""

import json
from typing import Any

from parties.common.atomic_file import write_atomically
from parties.common.errors import PolicyError, StorageError
from parties.common.json_files import canonical_json
from parties.vertical.engine.party import VerticalParty

SIZES = "intersections.json"


def refuse_small_change(party: VerticalParty, common: int, forgotten: int) -> None:
    """Store the number of common rows; refuse a number that is close to an earlier run's number.

    ``forgotten`` is the number of common rows that requests have removed so far.

    Raises:
        PolicyError: the number of common rows and the number of an earlier run, less the rows that
            requests have removed since, differ, but by less than ``psi.differencing``.
        StorageError: the sizes of earlier runs cannot be read or written.
    """
    least, peers = party.agreement.psi.differencing, sorted(party.agreement.parties)
    if not least:
        return
    runs = _runs(party)
    earlier = [
        run["rows"] + run.get("forgotten", 0) - forgotten for run in runs if run["parties"] == peers
    ]
    if any(0 < abs(rows - common) < least for rows in earlier):
        raise PolicyError(
            "the number of common rows and the number in an earlier run differ by less than "
            f"psi.differencing = {least}",
            "use the same rows as in the earlier run, or wait until more rows have changed",
        )
    if common not in earlier:
        run = {"parties": peers, "rows": common, "forgotten": forgotten}
        write_atomically(party.state / SIZES, canonical_json([*runs, run]))


def _runs(party: VerticalParty) -> list[dict[str, Any]]:
    path = party.state / SIZES
    if not path.exists():
        return []
    try:
        runs: list[dict[str, Any]] = json.loads(path.read_text())
        if not all(isinstance(run["rows"], int) and run["parties"] for run in runs):
            raise ValueError("the entry of a run has no number of common rows or no parties")
    except (OSError, ValueError, TypeError, KeyError):
        raise StorageError(
            f"cannot read the sizes of earlier runs in {path}",
            "restore the file from a backup, because psi.differencing needs the earlier sizes",
        ) from None
    return runs
