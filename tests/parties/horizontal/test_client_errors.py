"""Errors of a client reach the server, and clients end when the run cannot start or continue."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Event

import pytest
import torch
from clients import CLIENTS
from five_clients import (
    CONFIG,
    LOCAL_TASK,
    MEMBERS,
    BreakingLine,
    connected_cohort,
    party_of,
    prepare,
    unchanged_line,
)

from configs.horizontal import HorizontalConfig
from parties.common.errors import exit_code
from parties.horizontal.admission import Admission
from parties.horizontal.client import run_client
from parties.horizontal.engine.cohort import Member
from parties.horizontal.local.local_task import LocalTask, LocalUpdate, Slots
from parties.horizontal.local.network_client import NetworkClientTask
from parties.horizontal.local.networks import initial_parameters
from parties.horizontal.local.rows import RowKind
from parties.horizontal.server import run_server
from parties.session.memory_port import MemoryPort
from parties.session.reconnect import MAX_FRUITLESS_LOSSES
from parties.session.setup import StartOptions
from protocol.errors import Aborted, LineBroken, PeerSilent
from protocol.line import Line

Ready = tuple[HorizontalConfig, StartOptions]


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Ready:
    return prepare(tmp_path_factory.mktemp("wards"), CONFIG)


def warnings_of(ready: Ready, member: Member, task: LocalTask, model: torch.Tensor) -> str:
    warnings = list[str]()
    # The client ends with its error, so nobody comes back.
    with connected_cohort(ready, warnings, unchanged_line, rejoin_timeout=0.0) as remote:
        assert not dict(remote.updates([member], task, {"model": model, "teacher": model}))
    return " ".join(warnings)


def test_client_without_such_rows_reports_it(ready: Ready) -> None:
    model = initial_parameters(ready[0].agreement, "original")
    warning = warnings_of(ready, Member("client-1", "forgotten"), LOCAL_TASK, model)
    assert "client-1 has no forgotten rows" in warning


def test_invalid_task_is_not_reported_as_missing_rows(ready: Ready) -> None:
    model = initial_parameters(ready[0].agreement, "original")
    warning = warnings_of(
        ready, MEMBERS[1], replace(LOCAL_TASK, aim="error-maximising-noise"), model
    )
    assert "differs from every task of the agreement" in warning
    assert "no learn rows" not in warning


def test_error_at_the_client_is_not_reported_as_missing_rows(
    ready: Ready, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing_task(
        _one: NetworkClientTask, _kind: RowKind, _task: LocalTask, _slots: Slots
    ) -> LocalUpdate:
        raise ValueError("a value of row 7")

    monkeypatch.setattr(NetworkClientTask, "run_task", failing_task)
    warning = warnings_of(
        ready, MEMBERS[1], LOCAL_TASK, initial_parameters(ready[0].agreement, "original")
    )
    assert "an error occurred at this party; the log of this party has the details" in warning
    assert "row 7" not in warning


def test_admitted_client_is_notified_that_admission_failed(tmp_path: Path) -> None:
    """One of five clients joins, but the run needs three; the client ends with the server."""
    text = CONFIG.replace("join_seconds = 10.0", "join_seconds = 1.0")
    text = text.replace("rejoin_seconds = 2.0", "rejoin_seconds = 0.0")
    wards, port = prepare(tmp_path, text), MemoryPort()
    with ThreadPoolExecutor(1) as pool:
        party = party_of(wards, "client-0", [])
        client = pool.submit(run_client, party, lambda: port.connect("client-0"))
        with pytest.raises(PeerSilent, match="client-1, client-2, client-3, client-4 did not join"):
            Admission(party_of(wards, "server", []), port).open()
        with pytest.raises(Aborted, match="did not join within 1 s"):
            client.result(5)


def test_a_training_without_a_client_that_it_needs_ends_as_an_absence(tmp_path: Path) -> None:
    """Exit code 6: the unit starts every party again, and the other clients hear of an absence."""
    text = CONFIG.replace("quorum = 0.5", "quorum = 1.0")
    text = text.replace("rejoin_seconds = 2.0", "rejoin_seconds = 0.5")
    wards, port, lines, ended = prepare(tmp_path, text), MemoryPort(), list[Line](), Event()

    def dial(name: str) -> Line:
        if ended.is_set() or (name == "client-2" and lines):
            raise LineBroken("the server has ended, or the client is killed")
        line = port.connect(name)
        if name == "client-2":
            lines.append(BreakingLine(line, 3))
            return lines[-1]
        return line

    with ThreadPoolExecutor(5) as pool:
        clients = {
            name: pool.submit(run_client, party_of(wards, name, []), partial(dial, name))
            for name in CLIENTS
        }
        with pytest.raises(PeerSilent, match=r"replied.*missing: client-2") as absence:
            run_server(party_of(wards, "server", []), port, lambda _: None)
        ended.set()
        with suppress(PeerSilent):  # no client is waiting any more
            while True:
                port.accept(0.5).cut()
        assert exit_code(absence.value) == 6
        for each in clients.values():
            error = each.exception(20)
            assert isinstance(error, Exception)
            assert exit_code(error) == 6


def test_client_ends_after_repeated_losses_without_progress(ready: Ready) -> None:
    """The line breaks before every reply; the client ends after ``MAX_FRUITLESS_LOSSES`` losses."""
    port, lines = MemoryPort(), list[Line]()
    party, server = party_of(ready, "client-2", []), party_of(ready, "server", [])

    def dial() -> Line:
        lines.append(BreakingLine(port.connect("client-2"), 2))
        return lines[-1]

    with ThreadPoolExecutor(1) as pool:
        ending = pool.submit(run_client, party, dial)
        admission = Admission(server, port)
        while not ending.done() and len(lines) < 3 * MAX_FRUITLESS_LOSSES:
            for channel in admission.arrivals().values():
                channel.close()
        port.connect("client-2").close()
        with pytest.raises(LineBroken):
            ending.result(10)
    assert len(lines) == MAX_FRUITLESS_LOSSES + 1
