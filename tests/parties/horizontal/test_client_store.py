"""The client store: personal parameters survive a restart, and purged rows stay deleted."""

import json
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest
import torch
from client_processes import SERVER, ClientProcesses
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
ONE, TWO = "a" * 32, "b" * 32  # IDs of runs
RUN, OTHER = f"{ONE} original 1", f"{TWO} original 2"


@pytest.fixture(scope="module")
def wood(tmp_path_factory: pytest.TempPathFactory) -> ClientProcesses:
    return ClientProcesses(tmp_path_factory.mktemp("wood"), SETTINGS, NAMES)


def set_up_party(wood: ClientProcesses, folder: Path, name: str = "ash") -> HorizontalParty:
    options = StartOptions(folder, None, wood.keys)
    return set_up_horizontal_party(wood.config, name, options, lambda _: None)


def trained_store(wood: ClientProcesses, folder: Path, branch: str = RUN) -> ClientStore:
    store = ClientStore(set_up_party(wood, folder))
    store.switch_branch(branch, None)
    store.run_task(
        "learn", LOCAL_TASK, {"model": initial_parameters(wood.config.agreement, "original")}
    )
    return store


def test_restarted_client_has_its_personal_parameters(
    wood: ClientProcesses, tmp_path: Path
) -> None:
    model = initial_parameters(wood.config.agreement, "original")
    before, new = trained_store(wood, tmp_path), ClientStore(set_up_party(wood, tmp_path / "new"))
    restarted = ClientStore(set_up_party(wood, tmp_path))
    restarted.switch_branch(RUN, None)
    assert restarted.evaluate("test", model) == before.evaluate("test", model)
    assert restarted.evaluate("test", model) != new.evaluate("test", model)


@pytest.mark.parametrize("restarted", [False, True])
def test_a_repeated_task_starts_from_the_parameters_before_it(
    wood: ClientProcesses, tmp_path: Path, restarted: bool
) -> None:
    """The server repeats the last two tasks: the reply was lost, or the server was killed."""
    slots = {"model": initial_parameters(wood.config.agreement, "original")}
    second, third = replace(LOCAL_TASK, stream="two"), replace(LOCAL_TASK, stream="three")
    store = trained_store(wood, tmp_path)
    expected = [store.run_task("learn", each, slots).delta for each in (second, third)]
    scores = store.evaluate("test", slots["model"])
    again = ClientStore(set_up_party(wood, tmp_path)) if restarted else store
    assert again.evaluate("test", slots["model"]) == scores
    for task, delta in zip((second, third), expected, strict=True):
        assert torch.equal(again.run_task("learn", task, slots).delta, delta)
    assert again.evaluate("test", slots["model"]) == scores


def test_resume_without_a_checkpoint_is_refused(wood: ClientProcesses, tmp_path: Path) -> None:
    options = StartOptions(tmp_path, None, wood.keys, Begin.RESUME)
    with pytest.raises(StorageError, match="no checkpoint"):
        run_federated_party(ROW_MODE, wood.config, SERVER, options, None, lambda _: None)


def test_new_branch_copies_the_parameters_of_its_parent(
    wood: ClientProcesses, tmp_path: Path
) -> None:
    model = initial_parameters(wood.config.agreement, "original")
    before = trained_store(wood, tmp_path).evaluate("test", model)
    restarted = ClientStore(set_up_party(wood, tmp_path))
    restarted.switch_branch(f"{ONE} half fine-tune 1", RUN)
    assert restarted.evaluate("test", model) == before
    restarted.switch_branch(f"{ONE} half retrain 1", None)
    assert restarted.evaluate("test", model) != before


def test_files_are_readable_by_their_owner_only(wood: ClientProcesses, tmp_path: Path) -> None:
    trained_store(wood, tmp_path)
    files = [each for each in tmp_path.rglob("*.safetensors") if each.is_file()]
    assert files
    assert all(each.stat().st_mode & 0o077 == 0 for each in files)


def test_purged_rows_stay_deleted_and_are_selected_once(
    wood: ClientProcesses, tmp_path: Path
) -> None:
    """A repeated purge, in the same process or after a restart, deletes no further rows."""
    model = initial_parameters(wood.config.agreement, "original")
    store = trained_store(wood, tmp_path)
    all_rows = store.evaluate("learn", model).rows
    store.select_request("half")
    purged_rows = store.purge()
    remaining = store.evaluate("learn", model).rows
    assert purged_rows == [f"{all_rows - remaining} rows"]
    assert 0 < remaining < all_rows
    for each in (store, ClientStore(set_up_party(wood, tmp_path))):
        each.select_request("half")
        assert each.evaluate("forgotten", model).rows == 0
        assert each.purge() == purged_rows
        assert each.evaluate("learn", model).rows == remaining


def test_purge_removes_all_branches_but_the_delivered_one(
    wood: ClientProcesses, tmp_path: Path
) -> None:
    model = initial_parameters(wood.config.agreement, "original")
    store = trained_store(wood, tmp_path)
    store.switch_branch(f"{ONE} half fine-tune 1", None)
    store.select_request("half")
    store.run_task("retained", LOCAL_TASK, {"model": model})
    delivered = store.evaluate("test", model)
    files = set(tmp_path.rglob("*.safetensors"))
    store.purge()
    assert len(files) == 2
    assert len(set(tmp_path.rglob("*.safetensors"))) == len(list(tmp_path.rglob("0*.json"))) == 1
    restarted = ClientStore(set_up_party(wood, tmp_path))
    restarted.switch_branch(f"{ONE} half fine-tune 1", None)
    assert restarted.evaluate("test", model) == delivered


def test_repeated_purge_keeps_later_branches(wood: ClientProcesses, tmp_path: Path) -> None:
    """A server that was killed in the second request repeats the purge of the first request."""
    model, second = initial_parameters(wood.config.agreement, "original"), f"{ONE} gone fine-tune 1"
    store = trained_store(wood, tmp_path)
    store.select_request("half")
    purged_rows = store.purge()
    store.switch_branch(second, RUN)
    store.run_task("learn", LOCAL_TASK, {"model": model})
    expected = store.evaluate("test", model)
    for each in (store, ClientStore(set_up_party(wood, tmp_path))):
        each.select_request("half")
        each.switch_branch(RUN, None)
        assert each.evaluate("test", model) != expected
        assert each.purge() == purged_rows
        each.switch_branch(second, None)
        assert each.evaluate("test", model) == expected


def test_client_without_rows_keeps_no_parameters(wood: ClientProcesses, tmp_path: Path) -> None:
    store = trained_store(wood, tmp_path)
    store.select_request("gone")
    store.purge()
    assert not list(tmp_path.rglob("*.safetensors"))


def test_another_run_starts_without_stored_parameters(
    wood: ClientProcesses, tmp_path: Path
) -> None:
    model = initial_parameters(wood.config.agreement, "original")
    trained_store(wood, tmp_path)
    restarted, new = (
        ClientStore(set_up_party(wood, tmp_path)),
        ClientStore(set_up_party(wood, tmp_path / "new")),
    )
    restarted.switch_branch(OTHER, RUN)
    assert restarted.evaluate("test", model) == new.evaluate("test", model)


def test_another_run_after_a_purge_is_refused(wood: ClientProcesses, tmp_path: Path) -> None:
    store = trained_store(wood, tmp_path)
    store.select_request("half")
    store.purge()
    with pytest.raises(StorageError, match="ash has purged rows in an unfinished run"):
        ClientStore(set_up_party(wood, tmp_path)).switch_branch(OTHER, None)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_killed_client_restarts_with_its_personal_parameters(tmp_path: Path) -> None:
    """The server continues and receives the same scores for the same model."""
    wood = ClientProcesses(tmp_path, SETTINGS, NAMES)
    model, party = (
        initial_parameters(wood.config.agreement, "original"),
        set_up_party(wood, wood.out, SERVER),
    )
    with listen_for_clients(party, wood.address) as port, wood.all(*NAMES) as running:
        admission = Admission(party, port)
        settings = CohortSettings(0.5, 60.0, rejoin_timeout=60.0)
        cohort = HubCohort(NAMES, admission.open(), admission.arrivals, settings, lambda _: None)
        cohort.switch_branch(RUN, None)
        before = cohort.evaluate(NAMES, "test", model)
        members = [Member(name) for name in NAMES]
        cohort.mean_update(members, LOCAL_TASK, {"model": model})
        expected = cohort.evaluate(NAMES, "test", model)
        assert expected["elm"] != before["elm"]
        running["elm"].process.send_signal(signal.SIGKILL)
        running["elm"].process.wait()
        assert set(cohort.evaluate(NAMES, "test", model)) == {"ash", "fir"}
        running["elm"] = wood.start("elm")
        deadline = monotonic() + 120
        while len(scores := cohort.evaluate(NAMES, "test", model)) < len(NAMES):
            assert monotonic() < deadline
            sleep(0.2)
        cohort.goodbye()
        finish(running)
        cohort.close()
    assert scores == expected
    assert not list((wood.out / "wood").glob("*/checkpoints/*"))  # the run has ended


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_killed_server_resumes_with_the_same_scores(tmp_path: Path) -> None:
    """The server is killed in unlearning and after a purge; scores equal those without kills."""
    requests = []
    for number, moments in enumerate(((), (wait_for_fine_tune, wait_for_purge))):
        folder = tmp_path / str(number)
        folder.mkdir()
        wood = ClientProcesses(folder, SETTINGS, NAMES)
        with wood.all() as running:
            for moment in moments:
                moment(wood, running[SERVER])
                running[SERVER].process.send_signal(signal.SIGKILL)
                running[SERVER].process.wait()
                running[SERVER] = wood.start(SERVER)
            finish(running)
        requests.append(recorded_requests(wood))
        assert all((wood.out / "wood" / name / MODEL).exists() for name in (SERVER, *NAMES))
    assert requests[0] == requests[1]


def wait_for_fine_tune(_: ClientProcesses, server: Running) -> None:
    wait_for(server, "fine-tune")


def wait_for_purge(wood: ClientProcesses, server: Running) -> None:
    """Wait until the client has stored that it purged the rows of the first request."""
    deadline = monotonic() + 120
    while not any('purged\\": [[' in text for text in manifests(wood)):
        assert server.process.poll() is None
        assert monotonic() < deadline
        sleep(0.001)


def manifests(wood: ClientProcesses) -> Iterator[str]:
    for path in (wood.out / "wood" / "ash" / "checkpoints").glob("0*.json"):
        with suppress(FileNotFoundError):
            yield path.read_text()


def recorded_requests(wood: ClientProcesses) -> list[dict[str, Any]]:
    """Return the requests of the metrics record without durations, sizes and rounds."""
    metrics = json.loads((wood.out / "wood" / "metrics.json").read_text())
    for request in metrics["requests"]:
        for method in request["methods"]:
            for name in ("cost", "steps"):
                method.pop(name)
    return metrics["requests"]
