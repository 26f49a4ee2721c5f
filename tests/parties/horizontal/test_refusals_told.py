"""What a client cannot do is told as it is, who waits at the door hears its end, and losses end."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from five_clients import (
    CONFIG,
    LOCAL_TASK,
    MEMBERS,
    Dies,
    cohort,
    party_of,
    prepared,
    untouched,
)

from configs.federated_file import HorizontalConfig
from parties.horizontal.admission import Admission
from parties.horizontal.client import run_client
from parties.horizontal.engine.cohort import Member
from parties.horizontal.local.local_task import LocalTask, LocalUpdate, Slots
from parties.horizontal.local.network_client import NetworkClientTask
from parties.horizontal.local.networks import initial_parameters
from parties.horizontal.local.rows import RowKind
from parties.session.memory_port import MemoryPort
from parties.session.reconnect import MAX_FRUITLESS_LOSSES
from parties.session.setup import StartOptions
from protocol.errors import Aborted, LineBroken, PeerSilent
from protocol.line import Line

Ready = tuple[HorizontalConfig, StartOptions]


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Ready:
    return prepared(tmp_path_factory.mktemp("wards"), CONFIG)


def told(ready: Ready, member: Member, task: LocalTask, model: torch.Tensor) -> str:
    warnings = list[str]()
    with cohort(ready, warnings, untouched) as remote:
        assert not dict(remote.updates([member], task, {"model": model, "teacher": model}))
    return " ".join(warnings)


def test_who_has_no_such_row_says_so(ready: Ready) -> None:
    model = initial_parameters(ready[0].agreement, "original")
    heard = told(ready, Member("client-1", "forgotten"), LOCAL_TASK, model)
    assert "client-1 has no forgotten rows" in heard


def test_a_lesson_that_does_not_fit_is_not_told_as_a_lack_of_rows(ready: Ready) -> None:
    model = initial_parameters(ready[0].agreement, "original")
    heard = told(ready, MEMBERS[1], replace(LOCAL_TASK, aim="error-maximising-noise"), model)
    assert "needs the settings of the noise" in heard
    assert "no learn rows" not in heard


def test_a_fault_of_the_client_s_own_is_not_told_as_a_lack_of_rows(
    ready: Ready, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(
        _one: NetworkClientTask, _kind: RowKind, _lesson: LocalTask, _slots: Slots
    ) -> LocalUpdate:
        raise ValueError("a value of row 7")

    monkeypatch.setattr(NetworkClientTask, "run_task", broken)
    heard = told(ready, MEMBERS[1], LOCAL_TASK, initial_parameters(ready[0].agreement, "original"))
    assert "something is wrong at this party; its own log has the details" in heard
    assert "row 7" not in heard


def test_admitted_clients_are_told_that_admission_ends(tmp_path: Path) -> None:
    """One of five comes; the run needs three, and that one need not wait for its own patience."""
    text = CONFIG.replace("join_seconds = 10.0", "join_seconds = 1.0")
    text = text.replace("rejoin_seconds = 2.0", "rejoin_seconds = 0.0")
    wards, port = prepared(tmp_path, text), MemoryPort()
    with ThreadPoolExecutor(1) as pool:
        party = party_of(wards, "client-0", [])
        alone = pool.submit(run_client, party, lambda: port.connect("client-0"))
        with pytest.raises(PeerSilent, match="client-1, client-2, client-3, client-4 did not join"):
            Admission(party_of(wards, "server", []), port).open()
        with pytest.raises(Aborted, match="did not join within 1 s"):
            alone.result(5)


def test_a_client_that_gets_nothing_done_between_losses_gives_up(ready: Ready) -> None:
    """It is greeted, and its line breaks before any answer: after so many times it ends."""
    port, lines = MemoryPort(), list[Line]()
    party, server = party_of(ready, "client-2", []), party_of(ready, "server", [])

    def dial() -> Line:
        lines.append(Dies(port.connect("client-2"), 2))
        return lines[-1]

    with ThreadPoolExecutor(1) as pool:
        ending = pool.submit(run_client, party, dial)
        door = Admission(server, port)
        while not ending.done() and len(lines) < 3 * MAX_FRUITLESS_LOSSES:
            for channel in door.arrivals().values():
                channel.close()
        port.connect("client-2").close()
        with pytest.raises(LineBroken):
            ending.result(10)
    assert len(lines) == MAX_FRUITLESS_LOSSES + 1
