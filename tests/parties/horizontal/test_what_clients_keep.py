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

from parties.common.errors import StorageError
from parties.horizontal.admission import Admission
from parties.horizontal.client_store import ClientStore
from parties.horizontal.engine.cohort import Member
from parties.horizontal.engine.hub_cohort import CohortSettings, HubCohort
from parties.horizontal.local.local_task import LocalTask
from parties.horizontal.local.networks import initial_parameters
from parties.horizontal.party import HorizontalParty
from parties.horizontal.run_party import listen_for_clients, run_federated_party
from parties.horizontal.setup import ROW_MODE, set_up_horizontal_party
from parties.session.saved_model import MODEL
from parties.session.setup import Begin, StartOptions

NAMES = ("ash", "elm", "fir")
LOCAL_TASK = LocalTask(stream="one", batch=16, learning_rate=0.1)
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
    place = StartOptions(folder, None, wood.keys)
    return set_up_horizontal_party(wood.config, name, place, lambda _: None)


def taught(wood: Wood, folder: Path, line: str = RUN) -> ClientStore:
    found = ClientStore(taken(wood, folder))
    found.switch_branch(line, None)
    found.run_task(
        "learn", LOCAL_TASK, {"model": initial_parameters(wood.config.agreement, "original")}
    )
    return found


def test_a_client_that_comes_back_has_its_own_parameters(wood: Wood, tmp_path: Path) -> None:
    model = initial_parameters(wood.config.agreement, "original")
    before, new = taught(wood, tmp_path), ClientStore(taken(wood, tmp_path / "new"))
    back = ClientStore(taken(wood, tmp_path))
    back.switch_branch(RUN, None)
    assert back.evaluate("test", model) == before.evaluate("test", model)
    assert back.evaluate("test", model) != new.evaluate("test", model)


def test_a_server_that_shall_go_on_and_cannot_says_so(wood: Wood, tmp_path: Path) -> None:
    place = StartOptions(tmp_path, None, wood.keys, Begin.RESUME)
    with pytest.raises(StorageError, match="no checkpoint"):
        run_federated_party(ROW_MODE, wood.config, SERVER, place, None, lambda _: None)


def test_a_line_that_begins_copies_what_was_kept_of_its_parent(wood: Wood, tmp_path: Path) -> None:
    model = initial_parameters(wood.config.agreement, "original")
    before = taught(wood, tmp_path).evaluate("test", model)
    back = ClientStore(taken(wood, tmp_path))
    back.switch_branch("aa half fine-tune 1", RUN)
    assert back.evaluate("test", model) == before
    back.switch_branch("aa half retrain 1", None)
    assert back.evaluate("test", model) != before


def test_files_are_for_this_account_alone(wood: Wood, tmp_path: Path) -> None:
    taught(wood, tmp_path)
    files = [each for each in tmp_path.rglob("*.safetensors") if each.is_file()]
    assert files
    assert all(each.stat().st_mode & 0o077 == 0 for each in files)


def test_purged_rows_stay_away_and_are_drawn_once(wood: Wood, tmp_path: Path) -> None:
    """A purge that is said again, to the same process or the next one, takes no further rows."""
    model = initial_parameters(wood.config.agreement, "original")
    one = taught(wood, tmp_path)
    whole = one.evaluate("learn", model).rows
    one.select_request("half")
    said = one.purge()
    left = one.evaluate("learn", model).rows
    assert said == [f"{whole - left} rows"]
    assert 0 < left < whole
    for each in (one, ClientStore(taken(wood, tmp_path))):
        each.select_request("half")
        assert each.evaluate("forgotten", model).rows == 0
        assert each.purge() == said
        assert each.evaluate("learn", model).rows == left


def test_purging_removes_all_lines_but_the_delivered_one(wood: Wood, tmp_path: Path) -> None:
    model = initial_parameters(wood.config.agreement, "original")
    one = taught(wood, tmp_path)
    one.switch_branch("aa half fine-tune 1", None)
    one.select_request("half")
    one.run_task("retained", LOCAL_TASK, {"model": model})
    delivered = one.evaluate("test", model)
    files = set(tmp_path.rglob("*.safetensors"))
    one.purge()
    assert len(files) == 2
    assert len(set(tmp_path.rglob("*.safetensors"))) == len(list(tmp_path.rglob("0*.json"))) == 1
    back = ClientStore(taken(wood, tmp_path))
    back.switch_branch("aa half fine-tune 1", None)
    assert back.evaluate("test", model) == delivered


def test_a_purge_that_is_said_again_leaves_the_lines_that_began_after_it(
    wood: Wood, tmp_path: Path
) -> None:
    """A server that was killed in the second request tells its story from the beginning."""
    model, second = initial_parameters(wood.config.agreement, "original"), "aa gone fine-tune 1"
    one = taught(wood, tmp_path)
    one.select_request("half")
    said = one.purge()
    one.switch_branch(second, RUN)
    one.run_task("learn", LOCAL_TASK, {"model": model})
    wanted = one.evaluate("test", model)
    for each in (one, ClientStore(taken(wood, tmp_path))):
        each.select_request("half")
        each.switch_branch(RUN, None)
        assert each.evaluate("test", model) != wanted
        assert each.purge() == said
        each.switch_branch(second, None)
        assert each.evaluate("test", model) == wanted


def test_who_has_no_rows_left_keeps_nothing_of_its_own(wood: Wood, tmp_path: Path) -> None:
    one = taught(wood, tmp_path)
    one.select_request("gone")
    one.purge()
    assert not list(tmp_path.rglob("*.safetensors"))


def test_another_run_takes_nothing_over(wood: Wood, tmp_path: Path) -> None:
    model = initial_parameters(wood.config.agreement, "original")
    taught(wood, tmp_path)
    back, new = ClientStore(taken(wood, tmp_path)), ClientStore(taken(wood, tmp_path / "new"))
    back.switch_branch(OTHER, RUN)
    assert back.evaluate("test", model) == new.evaluate("test", model)


def test_another_run_after_a_purge_is_refused(wood: Wood, tmp_path: Path) -> None:
    one = taught(wood, tmp_path)
    one.select_request("half")
    one.purge()
    with pytest.raises(StorageError, match="ash has purged rows in an unfinished run"):
        ClientStore(taken(wood, tmp_path)).switch_branch(OTHER, None)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_killed_process_comes_back_with_its_own_parameters(tmp_path: Path) -> None:
    """The server goes on, and reads of the same model the same scores as before."""
    wood = Wood(tmp_path, SETTINGS, NAMES)
    model, party = (
        initial_parameters(wood.config.agreement, "original"),
        taken(wood, wood.out, SERVER),
    )
    with listen_for_clients(party, wood.address) as port, wood.all(*NAMES) as running:
        door = Admission(party, port)
        manner = CohortSettings(0.5, 60.0, rejoin_timeout=60.0)
        cohort = HubCohort(NAMES, door.open(), door.arrivals, manner, lambda _: None)
        cohort.switch_branch(RUN, None)
        without = cohort.evaluate(NAMES, "test", model)
        members = [Member(name) for name in NAMES]
        cohort.mean_update(members, LOCAL_TASK, {"model": model})
        wanted = cohort.evaluate(NAMES, "test", model)
        assert wanted["elm"] != without["elm"]
        running["elm"].process.send_signal(signal.SIGKILL)
        running["elm"].process.wait()
        assert set(cohort.evaluate(NAMES, "test", model)) == {"ash", "fir"}
        running["elm"] = wood.start("elm")
        deadline = monotonic() + 120
        while len(found := cohort.evaluate(NAMES, "test", model)) < len(NAMES):
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
            for name in ("seconds", "size", "rounds"):
                method.pop(name)
    return metrics["requests"]
