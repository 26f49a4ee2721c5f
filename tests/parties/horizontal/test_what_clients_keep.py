"""What a client keeps: it comes back with its own parameters, and without the rows it purged."""

import json
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest
from client_processes import SERVER, Wood
from kills import Running, finish, wait_for

from parties.cli.options import Begin
from parties.common.errors import StorageError
from parties.horizontal.admission import Door
from parties.horizontal.client_store import Kept
from parties.horizontal.engine.cohort import Member
from parties.horizontal.engine.hub_cohort import HubCohort, Manner
from parties.horizontal.local.local_task import Lesson
from parties.horizontal.local.networks import fresh
from parties.horizontal.party import HorizontalParty
from parties.horizontal.run_party import listen, play
from parties.horizontal.setup import take_horizontal_seat
from parties.session.setup import Place
from parties.vertical.saved_model import MODEL

NAMES = ("ash", "elm", "fir")
LESSON = Lesson(stream="one", batch=16, learning_rate=0.1)
SETTINGS = """
unlearn = [{ name = "half", client = "ash", fraction = 0.5 }, { name = "gone", client = "ash" }]
unlearning = { method = "fine-tune", compare = [], fine_tune = { rounds = 3 } }
training = { rounds = 4, batch = 16, learning_rate = 0.1 }
personal = { kind = "fedper" }
"""
RUN, OTHER = "aa original 1", "bb original 2"


@pytest.fixture(scope="module")
def wood(tmp_path_factory: pytest.TempPathFactory) -> Wood:
    return Wood(tmp_path_factory.mktemp("wood"), SETTINGS, NAMES)


def taken(wood: Wood, folder: Path, name: str = "ash") -> HorizontalParty:
    place = Place(folder, None, wood.keys)
    return take_horizontal_seat(wood.config, name, place, lambda _: None)


def taught(wood: Wood, folder: Path, line: str = RUN) -> Kept:
    found = Kept(taken(wood, folder))
    found.follow(line, None)
    found.answer("learn", LESSON, {"model": fresh(wood.config.agreement, "original")})
    return found


def test_a_client_that_comes_back_has_its_own_parameters(wood: Wood, tmp_path: Path) -> None:
    model = fresh(wood.config.agreement, "original")
    before, new = taught(wood, tmp_path), Kept(taken(wood, tmp_path / "new"))
    back = Kept(taken(wood, tmp_path))
    back.follow(RUN, None)
    assert back.measure("held", model) == before.measure("held", model)
    assert back.measure("held", model) != new.measure("held", model)


def test_a_server_that_shall_go_on_and_cannot_says_so(wood: Wood, tmp_path: Path) -> None:
    place = Place(tmp_path, None, wood.keys, Begin.RESUME)
    with pytest.raises(StorageError, match="no checkpoint"):
        play(wood.config, SERVER, place, None, lambda _: None)


def test_a_line_that_begins_copies_what_was_kept_of_its_parent(wood: Wood, tmp_path: Path) -> None:
    model = fresh(wood.config.agreement, "original")
    before = taught(wood, tmp_path).measure("held", model)
    back = Kept(taken(wood, tmp_path))
    back.follow("aa half fine-tune 1", RUN)
    assert back.measure("held", model) == before
    back.follow("aa half retrain 1", None)
    assert back.measure("held", model) != before


def test_files_are_for_this_account_alone(wood: Wood, tmp_path: Path) -> None:
    taught(wood, tmp_path)
    files = [each for each in tmp_path.rglob("*.safetensors") if each.is_file()]
    assert files
    assert all(each.stat().st_mode & 0o077 == 0 for each in files)


def test_purged_rows_stay_away_and_are_drawn_once(wood: Wood, tmp_path: Path) -> None:
    """A purge that is said again, to the same process or the next one, takes no further rows."""
    model = fresh(wood.config.agreement, "original")
    one = taught(wood, tmp_path)
    whole = one.measure("learn", model).rows
    one.attend("half")
    said = one.purge()
    left = one.measure("learn", model).rows
    assert said == [f"{whole - left} rows"]
    assert 0 < left < whole
    for each in (one, Kept(taken(wood, tmp_path))):
        each.attend("half")
        assert each.measure("forgotten", model).rows == 0
        assert each.purge() == said
        assert each.measure("learn", model).rows == left


def test_purging_removes_all_lines_but_the_delivered_one(wood: Wood, tmp_path: Path) -> None:
    model = fresh(wood.config.agreement, "original")
    one = taught(wood, tmp_path)
    one.follow("aa half fine-tune 1", None)
    one.attend("half")
    one.answer("retained", LESSON, {"model": model})
    delivered = one.measure("held", model)
    files = set(tmp_path.rglob("*.safetensors"))
    one.purge()
    assert len(files) == 2
    assert len(set(tmp_path.rglob("*.safetensors"))) == len(list(tmp_path.rglob("0*.json"))) == 1
    back = Kept(taken(wood, tmp_path))
    back.follow("aa half fine-tune 1", None)
    assert back.measure("held", model) == delivered


def test_a_purge_that_is_said_again_leaves_the_lines_that_began_after_it(
    wood: Wood, tmp_path: Path
) -> None:
    """A server that was killed in the second request tells its story from the beginning."""
    model, second = fresh(wood.config.agreement, "original"), "aa gone fine-tune 1"
    one = taught(wood, tmp_path)
    one.attend("half")
    said = one.purge()
    one.follow(second, RUN)
    one.answer("learn", LESSON, {"model": model})
    wanted = one.measure("held", model)
    for each in (one, Kept(taken(wood, tmp_path))):
        each.attend("half")
        each.follow(RUN, None)
        assert each.measure("held", model) != wanted
        assert each.purge() == said
        each.follow(second, None)
        assert each.measure("held", model) == wanted


def test_who_has_no_rows_left_keeps_nothing_of_its_own(wood: Wood, tmp_path: Path) -> None:
    one = taught(wood, tmp_path)
    one.attend("gone")
    one.purge()
    assert not list(tmp_path.rglob("*.safetensors"))


def test_another_run_takes_nothing_over(wood: Wood, tmp_path: Path) -> None:
    model = fresh(wood.config.agreement, "original")
    taught(wood, tmp_path)
    back, new = Kept(taken(wood, tmp_path)), Kept(taken(wood, tmp_path / "new"))
    back.follow(OTHER, RUN)
    assert back.measure("held", model) == new.measure("held", model)


def test_another_run_after_a_purge_is_refused(wood: Wood, tmp_path: Path) -> None:
    one = taught(wood, tmp_path)
    one.attend("half")
    one.purge()
    with pytest.raises(StorageError, match="ash has purged rows in an unfinished run"):
        Kept(taken(wood, tmp_path)).follow(OTHER, None)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_killed_process_comes_back_with_its_own_parameters(tmp_path: Path) -> None:
    """The server goes on, and reads of the same model the same scores as before."""
    wood = Wood(tmp_path, SETTINGS, NAMES)
    model, party = fresh(wood.config.agreement, "original"), taken(wood, wood.out, SERVER)
    with listen(party, wood.address) as port, wood.all(*NAMES) as running:
        door = Door(party, port)
        manner = Manner(0.5, 60.0, rejoin=60.0)
        cohort = HubCohort(NAMES, door.open(), door.arrivals, manner, lambda _: None)
        cohort.follow(RUN, None)
        without = cohort.read(NAMES, "held", model)
        members = [Member(name) for name in NAMES]
        cohort.mean(members, LESSON, {"model": model})
        wanted = cohort.read(NAMES, "held", model)
        assert wanted["elm"] != without["elm"]
        running["elm"].process.send_signal(signal.SIGKILL)
        running["elm"].process.wait()
        assert set(cohort.read(NAMES, "held", model)) == {"ash", "fir"}
        running["elm"] = wood.start("elm")
        deadline = monotonic() + 120
        while len(found := cohort.read(NAMES, "held", model)) < len(NAMES):
            assert monotonic() < deadline
            sleep(0.2)
        cohort.goodbye()
        finish(running)
        cohort.close()
    assert found == wanted
    assert not list((wood.out / "wood").glob("*/checkpoints/*"))  # the run is over


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_killed_server_goes_on_and_finds_the_same(tmp_path: Path) -> None:
    """Killed in unlearning, and once rows are purged: every score is that of a run without."""
    found = []
    for number, moments in enumerate(((), (in_fine_tune, purged))):
        folder = tmp_path / str(number)
        folder.mkdir()
        wood = Wood(folder, SETTINGS, NAMES)
        with wood.all() as running:
            for moment in moments:
                moment(wood, running[SERVER])
                running[SERVER].process.send_signal(signal.SIGKILL)
                running[SERVER].process.wait()
                running[SERVER] = wood.start(SERVER)
            finish(running)
        found.append(story(wood))
        assert all((wood.out / "wood" / name / MODEL).exists() for name in (SERVER, *NAMES))
    assert found[0] == found[1]


def in_fine_tune(_: Wood, server: Running) -> None:
    wait_for(server, "fine-tune")


def purged(wood: Wood, server: Running) -> None:
    """Until the client has written that it purged the rows of the first request."""
    deadline = monotonic() + 120
    while not any('purged\\": [[' in text for text in manifests(wood)):
        assert server.process.poll() is None
        assert monotonic() < deadline
        sleep(0.001)


def manifests(wood: Wood) -> Iterator[str]:
    for path in (wood.out / "wood" / "ash" / "checkpoints").glob("0*.json"):
        with suppress(FileNotFoundError):
            yield path.read_text()


def story(wood: Wood) -> list[dict[str, Any]]:
    """What the report says of the requests, without what a clock or a counter said."""
    metrics = json.loads((wood.out / "wood" / "metrics.json").read_text())
    for request in metrics["requests"]:
        for method in request["methods"]:
            for name in ("seconds", "size", "turns"):
                method.pop(name)
    return metrics["requests"]
