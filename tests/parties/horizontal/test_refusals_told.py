"""What a client cannot do is told as it is, who waits at the door hears its end, and losses end."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from five_clients import (
    CONFIG,
    LESSON,
    MEMBERS,
    Dies,
    cohort,
    prepared,
    seat,
    untouched,
)

from configs.federated_file import HorizontalConfig
from parties.horizontal.admission import Door
from parties.horizontal.client import run_client
from parties.horizontal.engine.cohort import Kind, Member
from parties.horizontal.local.learner import Learner
from parties.horizontal.local.local_task import Learned, Lesson, Slots
from parties.horizontal.local.networks import fresh
from parties.session.memory_port import MemoryPort
from parties.session.setup import Place
from parties.vertical.resume import FRUITLESS
from protocol.errors import Aborted, LineBroken, PeerSilent
from protocol.line import Line

Ready = tuple[HorizontalConfig, Place]


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Ready:
    return prepared(tmp_path_factory.mktemp("wards"), CONFIG)


def told(ready: Ready, member: Member, lesson: Lesson, model: torch.Tensor) -> str:
    warnings = list[str]()
    with cohort(ready, warnings, untouched) as remote:
        assert not dict(remote.each([member], lesson, {"model": model, "teacher": model}))
    return " ".join(warnings)


def test_who_has_no_such_row_says_so(ready: Ready) -> None:
    model = fresh(ready[0].agreement, "original")
    heard = told(ready, Member("client-1", "forgotten"), LESSON, model)
    assert "client-1 has no forgotten rows" in heard


def test_a_lesson_that_does_not_fit_is_not_told_as_a_lack_of_rows(ready: Ready) -> None:
    model = fresh(ready[0].agreement, "original")
    heard = told(ready, MEMBERS[1], replace(LESSON, aim="worst-noise"), model)
    assert "the lesson does not say how noise is made" in heard
    assert "no learn rows" not in heard


def test_a_fault_of_the_client_s_own_is_not_told_as_a_lack_of_rows(
    ready: Ready, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_one: Learner, _kind: Kind, _lesson: Lesson, _slots: Slots) -> Learned:
        raise ValueError("a value of row 7")

    monkeypatch.setattr(Learner, "answer", broken)
    heard = told(ready, MEMBERS[1], LESSON, fresh(ready[0].agreement, "original"))
    assert "something is wrong at this party; its own log says what" in heard
    assert "row 7" not in heard


def test_who_is_seated_hears_that_the_door_closes(tmp_path: Path) -> None:
    """One of five comes; the run needs three, and that one need not wait for its own patience."""
    text = CONFIG.replace("join_seconds = 10.0", "join_seconds = 1.0")
    text = text.replace("rejoin_seconds = 2.0", "rejoin_seconds = 0.0")
    wards, port = prepared(tmp_path, text), MemoryPort()
    with ThreadPoolExecutor(1) as pool:
        party = seat(wards, "client-0", [])
        alone = pool.submit(run_client, party, lambda: port.connect("client-0"))
        with pytest.raises(PeerSilent, match="client-1, client-2, client-3, client-4 did not join"):
            Door(seat(wards, "server", []), port).open()
        with pytest.raises(Aborted, match="did not join within 1 s"):
            alone.result(5)


def test_a_client_that_gets_nothing_done_between_losses_gives_up(ready: Ready) -> None:
    """It is greeted, and its line breaks before any answer: after so many times it ends."""
    port, lines = MemoryPort(), list[Line]()
    party, server = seat(ready, "client-2", []), seat(ready, "server", [])

    def dial() -> Line:
        lines.append(Dies(port.connect("client-2"), 2))
        return lines[-1]

    with ThreadPoolExecutor(1) as pool:
        ending = pool.submit(run_client, party, dial)
        door = Door(server, port)
        while not ending.done() and len(lines) < 3 * FRUITLESS:
            for channel in door.arrivals().values():
                channel.close()
        port.connect("client-2").close()
        with pytest.raises(LineBroken):
            ending.result(10)
    assert len(lines) == FRUITLESS + 1
