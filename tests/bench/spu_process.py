"""One party of an intersection by SecretFlow's spu, from CSV file to CSV file, over loopback.

    .venv-peers/bin/python tests/bench/spu_process.py FOLDER NAME RANK PORT PORT

The ports are those of rank 0, which receives the intersection, and of rank 1, to which rank 0
broadcasts it. The IDs are the column ``id`` of FOLDER/NAME.csv; the common IDs, in an order that is
the same at both parties, go to FOLDER/NAME-common.csv. The process imports nothing of this project.
"""

import json
import sys
from pathlib import Path
from time import perf_counter

from spu import psi
from spu.libspu import link


def main() -> None:
    """Intersect the IDs of two files, and print the metrics."""
    folder, name, rank, *ports = sys.argv[1:]
    parties = link.Desc()
    for number, port in enumerate(ports):
        parties.add_party(f"rank-{number}", f"127.0.0.1:{port}")
    context = link.create_brpc(parties, int(rank))  # returns once both are connected
    config = psi.PsiExecuteConfig(
        protocol_conf=psi.PsiProtocolConfig(
            protocol=psi.PsiProtocol.PROTOCOL_RR22, receiver_rank=0, broadcast_result=True
        ),
        # It does not check then whether IDs are unique, which takes it longer.
        input_params=psi.InputParams(
            path=f"{folder}/{name}.csv", selected_keys=["id"], keys_unique=True
        ),
        output_params=psi.OutputParams(path=f"{folder}/{name}-common.csv"),
    )
    started = perf_counter()
    report = psi.psi_execute(config, context)
    seconds = perf_counter() - started
    context.stop_link()
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    figures = {
        "party": name,
        "common": report.intersection_count,
        "seconds": seconds,
        "rss": int(status["VmHWM"].split()[0]) * 1024,
    }
    print(json.dumps({"event": "figures", **figures}), flush=True)


if __name__ == "__main__":
    main()
