"""The desk for requests, open in two processes of one party: the service, and a command."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Barrier

from request_federation import write_trio

from parties.requests.events import EventKind
from parties.vertical.engine.party import VerticalParty
from parties.vertical.service.desk import open_desk


def test_two_processes_of_a_party_approve_a_request_once(tmp_path: Path) -> None:
    federation, out = write_trio(tmp_path), tmp_path / "runs"
    together = Barrier(3, timeout=60)

    def attend(party: VerticalParty) -> None:
        with closing(open_desk(party, party.agreement)) as desk:
            for _ in range(6):
                together.wait()
                together.wait()
                desk.attend()

    with ThreadPoolExecutor(2) as pool:
        both = pool.map(attend, [federation.party("left", out) for _ in range(2)])
        for number in range(6):
            together.wait()
            federation.record("left", out, [number])
            together.wait()
        list(both)
    kinds = Counter(event.kind for event in federation.events("left", out))
    assert kinds[EventKind.INTRODUCED] == 1
    assert kinds[EventKind.REQUESTED] == kinds[EventKind.APPROVED] == 6
