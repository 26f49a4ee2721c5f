"""One party of a real intersection and nothing else: a process over mutual TLS, IDs made here.

    python tests/parties/psi_process.py FOLDER NAME PARTIES IDS PORT BUCKET COMMON KNOWN

COMMON of everybody's IDs are common to all; sets above 2 BUCKET IDs are cut. If KNOWN is not 0, the
party goes on from a version with the first KNOWN of the common IDs. The process prints its progress
and at last its figures as JSON.
"""

import hashlib
import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402

from configs.agreement import VerticalAgreement, vertical_agreement  # noqa: E402
from configs.config_file import validate_table  # noqa: E402
from configs.unlearning import unlearning_table  # noqa: E402
from parties.common.progress import ProgressReporter  # noqa: E402
from parties.common.traffic import TrafficCounter  # noqa: E402
from parties.data.holding import Holding  # noqa: E402
from parties.data.party_settings import VerticalPartySettings  # noqa: E402
from parties.session import handshake  # noqa: E402
from parties.session.setup import NEWEST  # noqa: E402
from parties.vertical.alignment.align import Alignment, align_active, align_passive  # noqa: E402
from parties.vertical.engine.party import VerticalParty  # noqa: E402
from protocol import vfl_pb2  # noqa: E402
from protocol.errors import ProtocolError  # noqa: E402
from protocol.grpc_line import LineServer, dial_hub  # noqa: E402
from protocol.keyring import issue_certificate, make_authority, make_trust, read_keyring  # noqa: E402
from psi import buckets  # noqa: E402
from psi.id_list import IdList  # noqa: E402

FEDERATION, HUB = "people", "hub"
# Without the methods, so that this process does not import torch for them.
AGREEMENT = vertical_agreement(unlearning_table({"fine-tune": None}, ("fine-tune",), (), ()))


def names(parties: int) -> list[str]:
    """The hub and its spokes."""
    return [HUB, *(f"p{number}" for number in range(1, parties))]


def certify(folder: Path, parties: int) -> None:
    """Create the certificates of all parties, once."""
    make_authority(folder / "certs", FEDERATION)
    for name in names(parties):
        issue_certificate(folder / "certs", FEDERATION, name)


def start(
    folder: Path,
    name: str,
    parties: int,
    count: int,
    port: int,
    bucket: int = buckets.MIN_BUCKET_IDS,
    *,
    common: int | None = None,
    known: int = 0,
) -> subprocess.Popen[str]:
    """Start one party; after a crash the same command resumes. Half of the IDs are common."""
    shared = count // 2 if common is None else common
    numbers = map(str, (parties, count, port, bucket, shared, known))
    command = [sys.executable, __file__, str(folder), name, *numbers]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def events(process: subprocess.Popen[str]) -> Iterator[dict[str, Any]]:
    """The events that a party prints until it ends."""
    if process.stdout is None:
        return
    with process.stdout:
        for line in process.stdout:
            if line.startswith("{"):
                yield json.loads(line)
    process.wait()


def agreement(parties: int, **changes: Any) -> VerticalAgreement:
    """An agreement that serves for the intersection only."""
    plan = {name: {"role": "passive", "width": 1} for name in names(parties)}
    plan[HUB] = {"role": "active"}
    content = {
        "federation": FEDERATION,
        "parties": plan,
        "labels": {"classes": ["no", "yes"]},
        "psi": {"minimum": 10},
        "limits": {"join_seconds": 300.0, "step_seconds": 60.0},
        **changes,
    }
    return validate_table(AGREEMENT, content, ROOT, "")


def people(number: int, count: int, common: int | None = None) -> IdList:
    """The IDs of party ``number``; the first ``common``, or half, are common to all parties."""
    own, shared = count * (number + 1), count // 2 if common is None else common
    ranges = (range(shared), range(own, own + count - shared))
    order = np.concatenate([np.arange(r.start, r.stop, dtype=np.uint32) for r in ranges])
    np.random.default_rng(number).shuffle(order)
    parts = (order[at : at + 65_536].tolist() for at in range(0, count, 65_536))
    return IdList.of(b"person-%d" % person for part in parts for person in part)


def take_part(folder: Path, name: str, parties: int, ids: Sequence[bytes]) -> VerticalParty:
    """A party with ``ids`` and no other data."""
    keyring = read_keyring(folder / "certs", name)
    data = {"kind": "csv", "path": "unread.csv", "id": {"columns": ["id"]}}
    watch = ProgressReporter(name, lambda event: print(json.dumps(event), flush=True))
    return VerticalParty(
        name=name,
        agreement=agreement(parties),
        settings=validate_table(VerticalPartySettings, {"data": data}, folder, ""),
        holding=Holding(ids=ids, in_test=np.zeros(len(ids), np.bool_)),
        keyring=keyring,
        trust=make_trust(keyring, FEDERATION, {}, ()),
        state=folder / name,
        incarnation=1,
        now=lambda: datetime.now(UTC),
        entropy=os.urandom,
        progress=watch,
        traffic=TrafficCounter(watch.add_bytes),
    )


def goes_on(party: VerticalParty, known: int) -> VerticalParty:
    """The party, which goes on from a version with the first ``known`` of the common IDs."""
    from parties.vertical.engine.networks import KeptPart  # noqa: PLC0415  imports torch

    ids = frozenset(b"person-%d" % person for person in range(known))
    base = KeptPart(
        run=bytes(16),
        number=1,
        parties=tuple(party.agreement.parties),
        anew="",
        digest="",
        ids=ids,
        trained=ids,
        widths={},
        statistics=None,
        parameters={},
    )
    return replace(party, base=base, continues=NEWEST)


def align(party: VerticalParty, port: int) -> Alignment:
    """Join and intersect, and nothing else."""
    address = f"127.0.0.1:{port}"
    if party.name != HUB:
        channel = handshake.join_hub(party, lambda: dial_hub(address, party.keyring, HUB))
        opened = channel.receive(party.agreement.limits.idle_seconds).expect(vfl_pb2.StartAlignment)
        alignment = align_passive(party, channel, opened)
        channel.receive(60).expect(
            vfl_pb2.Goodbye
        )  # closing at once could overtake the last message
        channel.close()
        return alignment
    spokes = len(party.agreement.passive)
    with LineServer(
        address, party.keyring, lambda leaf: party.trust.check(leaf, party.now()), spokes
    ) as server:
        hub, _ = handshake.accept_spokes(party, server)
        try:
            alignment = align_active(party, hub)
            hub.move_to(vfl_pb2.Place(task=vfl_pb2.CLOSE, epoch=0, step=0, microbatch=0))
            hub.broadcast(vfl_pb2.Goodbye())
            return alignment
        finally:
            hub.close()


def figures(party: VerticalParty, alignment: Alignment) -> dict[str, Any]:
    """The size, the time, the traffic and the memory of a finished intersection."""
    psi = next(each for each in party.traffic.by_phase() if each["phase"] == "psi")
    ids = b"\n".join(party.holding.ids[row] for row in alignment.rows[:1000].tolist())
    used = resource.getrusage(resource.RUSAGE_SELF)
    # Not used.ru_maxrss, which is at least that of the process that started this one.
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return {
        "party": party.name,
        "common": len(alignment),
        "order": hashlib.sha256(ids).hexdigest(),
        "seconds": psi["seconds"],
        "bytes": psi["bytes"],
        "stores": party.traffic.total("KeyValueStore").messages,
        "rss": int(status["VmHWM"].split()[0]) * 1024,
        "cpu": used.ru_utime + used.ru_stime,  # with making the IDs
    }


def main() -> None:
    """Run the intersection, and print the metrics."""
    folder, name, parties, count, port, bucket, common, known = sys.argv[1:]
    buckets.MIN_BUCKET_IDS, buckets.MAX_UNCUT_IDS = int(bucket), 2 * int(bucket)
    number = names(int(parties)).index(name)
    ids = people(number, int(count), int(common))
    party = take_part(Path(folder), name, int(parties), ids)
    if int(known):
        party = goes_on(party, int(known))
    try:
        alignment = align(party, int(port))
    except ProtocolError as error:
        print(json.dumps({"event": "error", "party": name, "message": str(error)}), flush=True)
        sys.exit(1)
    print(json.dumps({"event": "figures", **figures(party, alignment)}), flush=True)


if __name__ == "__main__":
    main()
