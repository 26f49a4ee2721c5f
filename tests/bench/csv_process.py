"""One party of an intersection from CSV file to CSV file, to compare with ``spu_process.py``.

    python tests/bench/csv_process.py FOLDER NAME PORT

The IDs are the column ``id`` of FOLDER/NAME.csv. The common IDs, in the order that all parties
computed, go to FOLDER/NAME-common.csv. The process prints its figures as JSON.
"""

import json
import sys
from pathlib import Path
from time import perf_counter

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS.parent), str(TESTS / "parties")]

import psi_process  # noqa: E402

from configs.config_file import validate_table  # noqa: E402
from parties.data.party_settings import VerticalPartySettings  # noqa: E402
from parties.data.sources.source import ReadOptions  # noqa: E402
from psi.id_list import IdList  # noqa: E402


def main() -> None:
    """Read the IDs, intersect, write the common IDs, and print the metrics."""
    folder, name, port = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    settings = {"kind": "csv", "path": f"{name}.csv", "id": {"columns": ["id"]}, "numeric": []}
    data = validate_table(VerticalPartySettings, {"data": settings}, folder, "").data
    started = perf_counter()
    ids = data.read(ReadOptions(folder, ())).ids
    read = perf_counter() - started
    party = psi_process.take_part(folder, name, 2, ids)
    alignment = psi_process.align(party, port)
    started = perf_counter()
    common = b"\n".join([b"id", *IdList.of(ids).take(alignment.rows), b""])
    (folder / f"{name}-common.csv").write_bytes(common)
    wrote = perf_counter() - started
    figures = {"event": "figures", **psi_process.figures(party, alignment)}
    print(json.dumps(figures | {"reading": read, "writing": wrote}), flush=True)


if __name__ == "__main__":
    main()
