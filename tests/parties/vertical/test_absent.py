"""A request while a passive party is absent: a fallback model, and the same version afterwards."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from shutil import copytree
from time import monotonic, sleep
from typing import Any

import numpy as np
import pytest
from kept_trio import SECONDS, KeptTrio, train_trio

from parties.data.predictions import Probabilities
from parties.requests.lifecycle import RequestState, RequestView
from parties.session.memory_port import MemoryPort
from parties.vertical.engine.party import VerticalParty
from parties.vertical.kept_model import kept_ids
from parties.vertical.service import fallback
from parties.vertical.service.active import serve_active
from parties.vertical.service.desk import open_desk
from parties.vertical.service.passive import serve_passive
from parties.web.kept_model_queue import KeptModelPredictions

PLAN = {"requests": {"absent": "fallback"}}


class Serving:
    """Parties that serve in threads, and the active party's predictions."""

    def __init__(self, trio: KeptTrio, pool: ThreadPoolExecutor) -> None:
        self._trio, self._pool, self._port = trio, pool, MemoryPort()
        self._desks = {name: trio.desk(name) for name in trio.names}
        self.runs: list[Future[None]] = []
        self.predictions = KeptModelPredictions(trio.party("hub"))

    def start(self, *names: str) -> None:
        """Let parties serve until nothing is left to do."""
        for name in names:
            self.runs.append(self._pool.submit(self._serve, self._trio.party(name)))

    def view(self, name: str, request: str) -> RequestView:
        """A request as one party sees it."""
        return self._desks[name].request(request)

    def close(self) -> None:
        """Wait until all parties have ended."""
        for run in self.runs:
            run.result(SECONDS)
        for desk in self._desks.values():
            desk.close()

    def _serve(self, party: VerticalParty) -> None:
        with closing(open_desk(party, party.agreement)) as desk:
            if party.name == "hub":
                serve_active(party, self._port, desk, self.predictions, once=True)
            else:
                serve_passive(party, lambda: self._port.connect(party.name), desk, once=True)


@contextmanager
def serving(trio: KeptTrio) -> Iterator[Serving]:
    pool = ThreadPoolExecutor(3)
    try:
        found = Serving(trio, pool)
        yield found
        found.close()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def wait_for(parties: Serving, holds: Callable[[], Any], what: str) -> None:
    end = monotonic() + 30
    while not holds():
        for each in parties.runs:
            if each.done():
                each.result()
        assert monotonic() < end, what
        sleep(0.1)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fallback, "PATIENCE", 0.0)


def training_rows(trio: KeptTrio) -> list[int]:
    """Common indices of the training rows."""
    store = trio.models()["hub"]
    return store.read(store.newest_version().number).tensors["rows"]["train"].tolist()


def digests(trio: KeptTrio) -> dict[str, str]:
    """The digest of each party's part of the newest version."""
    return {
        name: each.newest_version().version.own["after"] for name, each in trio.models().items()
    }


def test_absent_party_completes_its_part_when_it_returns(tmp_path: Path) -> None:
    (tmp_path / "absent").mkdir()
    trio = train_trio(tmp_path / "absent", **PLAN)
    copytree(tmp_path / "absent", tmp_path / "present")
    present = KeptTrio(tmp_path / "present", trio.plan)
    rows = training_rows(trio)[:20]
    ids = kept_ids(trio.models()["hub"], 1)
    request = trio.request("left", rows)
    found: Probabilities = np.empty(0)
    with serving(trio) as parties:
        parties.start("hub", "left")
        wait_for(parties, lambda: parties.view("left", request).fallback, "no fallback model")
        found = parties.predictions.probabilities(ids)
        health = parties.predictions.health()
        view = parties.view("hub", request)
        parties.start("right")
    assert health["fallback"]
    assert health["parties"] == {"hub": "here", "left": "here", "right": "absent"}
    assert view.state is RequestState.PENDING
    assert view.fallback is not None
    assert view.fallback.absent == ("right",)
    withheld = np.flatnonzero(np.isnan(found).any(axis=1)).tolist()
    assert withheld == rows
    assert trio.view("right", request).state is RequestState.CERTIFIED

    present.request("left", rows)
    present.carry_out()
    assert digests(present) == digests(trio)
    for each in trio.models().values():
        assert [file.number for file in each.files()] == [2]
