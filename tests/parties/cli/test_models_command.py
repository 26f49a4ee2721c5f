"""``vfl models``: versions are listed, searched, gone back to and erased; every refusal."""

import gzip
import json
import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from kept_trio import KeptTrio, train_trio
from safetensors.torch import save
from three_parties import PARTIES
from typer.testing import CliRunner, Result
from unlearn_desk import Desk, known

from configs.shipped import find_config
from parties.cli.main import app
from parties.common.errors import StorageError
from parties.requests.events import DecisionBody, EventKind
from parties.session.run_folder import lock_run_folder
from parties.session.saved_model import FILES, MANIFEST, read_saved_model
from parties.vertical.kept_model import kept_ids
from parties.vertical.prediction.setup import load_party_network


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> KeptTrio:
    """Three parties that have trained; tests work on copies."""
    trio = train_trio(tmp_path_factory.mktemp("trained"))
    Desk(trio)  # writes the config
    return trio


@pytest.fixture(scope="module")
def requested(trained: KeptTrio, tmp_path_factory: pytest.TempPathFactory) -> KeptTrio:
    """The same parties after a request for three rows."""
    folder = tmp_path_factory.mktemp("requested") / "trio"
    shutil.copytree(trained.folder, folder)
    trio = KeptTrio(folder, trained.plan)
    trio.request("left", [3, 5, 8])
    trio.carry_out()
    return trio


@pytest.fixture
def trio(trained: KeptTrio, tmp_path: Path) -> KeptTrio:
    """A copy of the trained parties."""
    shutil.copytree(trained.folder, tmp_path / "trio")
    return KeptTrio(tmp_path / "trio", trained.plan)


@pytest.fixture
def after(requested: KeptTrio, tmp_path: Path) -> KeptTrio:
    """A copy of the parties after a request."""
    shutil.copytree(requested.folder, tmp_path / "after")
    return KeptTrio(tmp_path / "after", requested.plan)


def state_of(trio: KeptTrio, party: str = "left") -> Path:
    return trio.folder / "runs" / "trio" / party


def run(trio: KeptTrio, command: str, *options: object, party: str = "left") -> Result:
    words = ["models", command, trio.folder / "trio.toml", *options, "--party", party]
    words += ["--out", trio.folder / "runs", "--format", "json"]
    words += ["--data", trio.folder] if command == "audit" else []
    environment = {"COLUMNS": "300", "VFL_DATA": None, "VFL_MASTER_KEY_FILE": None}
    return CliRunner().invoke(app, [str(word) for word in words], env=environment)


def events(trio: KeptTrio, *words: object, code: int = 0, party: str = "left") -> list[Any]:
    result = run(trio, str(words[0]), *words[1:], party=party)
    assert result.exit_code == code, result.output
    return [json.loads(line) for line in result.output.splitlines()]


def refused(trio: KeptTrio, code: int, message: str, *words: object, party: str = "left") -> None:
    error = events(trio, *words, code=code, party=party)[-1]
    assert message in error["message"]
    assert error["hint"]


def found_in(trio: KeptTrio, *options: object, party: str = "left") -> dict[str, dict[str, int]]:
    """What an audit finds, by file; an audit that finds something ends with exit code 9."""
    result = run(trio, "audit", *options, party=party)
    lines = [json.loads(line) for line in result.output.splitlines()]
    found = {each["file"]: each["found"] for each in lines if each["event"] == "file"}
    found = {name: each for name, each in found.items() if each}
    assert result.exit_code == (9 if found else 0), result.output
    return found


# --- list -----------------------------------------------------------------------------------------


def test_list_shows_versions_and_sizes(after: KeptTrio) -> None:
    version, total = events(after, "list")
    assert version["readable"] is True
    assert version["version"]["made_by"] == "requests"
    assert version["version"]["method"] == "retrain-local"
    assert version["version"]["parent"] == 1
    assert total["size"] == version["size"]
    assert total["model_size"] == (state_of(after) / "model.safetensors").stat().st_size
    words = ["models", "list", str(after.folder / "trio.toml"), "--party", "left"]
    words += ["--out", str(after.folder / "runs")]
    text = CliRunner().invoke(app, words, env={"COLUMNS": "300"}).output
    assert "(newest)" in text
    assert "times the saved model" in text


def test_list_names_files_that_cannot_be_read(trio: KeptTrio) -> None:
    trio.party("left").keys.destroy("model 1")
    version, _ = events(trio, "list")
    assert (version["readable"], version["fault"]) == (False, "its key was destroyed")
    assert version["version"] is None


def test_list_of_an_absent_party_is_refused(trio: KeptTrio) -> None:
    shutil.rmtree(state_of(trio))
    refused(trio, 7, "does not exist", "list")


def test_other_modes_keep_no_model(tmp_path: Path) -> None:
    words = ["models", "list", str(find_config(Path("horizontal/digits"))), "--party", "server"]
    result = CliRunner().invoke(app, [*words, "--out", str(tmp_path)])
    assert result.exit_code == 3
    assert "no model is kept for requests" in result.output.replace("\n", " ")


# --- audit ----------------------------------------------------------------------------------------


def test_audit_finds_nothing_at_any_party_after_a_request(
    after: KeptTrio, trained: KeptTrio
) -> None:
    for name, store in trained.models().items():
        ids = kept_ids(store, 1)
        path = after.folder / "asked.txt"
        path.write_text("\n".join(ids[row].decode() for row in (3, 5, 8)))
        lines = events(after, "audit", "--ids", path, party=name)
        assert lines[-1]["clean"] is True
        assert (lines[-1]["ids"], lines[-1]["rows"]) == (3, 3)  # the source data still has them
        # Raw values, preprocessed values and embeddings; those of two values are no evidence.
        assert lines[-1]["evident"] == (6 if name == "right" else 9)
        assert {each["id"]: each["gone"] for each in lines if each["event"] == "erased"}["model-1"]


def test_audit_knows_the_ids_without_a_list(after: KeptTrio) -> None:
    (line,) = [each for each in events(after, "audit") if each["event"] == "audit"]
    assert (line["ids"], line["rows"], line["found"]) == (3, 3, 0)


def test_audit_does_not_search_for_a_person_who_was_readmitted(trio: KeptTrio) -> None:
    desk = Desk(trio)
    (identity,) = known(desk, 1)
    desk.event("request", "--id", identity)
    trio.carry_out()
    assert events(trio, "audit")[-1]["ids"] == 1
    for name in PARTIES:
        desk.event("readmit", "--id", identity, "--reason", "contract", party=name)
    trio.train()
    last = events(trio, "audit")[-1]
    assert (last["clean"], last["ids"]) == (True, 0)
    (trio.folder / "asked.txt").write_text(identity)
    found = found_in(trio, "--ids", trio.folder / "asked.txt")
    assert [each["ID"] for each in found.values()] == [1]


def test_audit_finds_ids_in_the_versions_of_a_model_that_did_not_forget(trio: KeptTrio) -> None:
    ids = [each for each in kept_ids(trio.models()["left"], 1) if each][:2]
    (trio.folder / "asked.txt").write_text("\n".join(each.decode() for each in ids))
    found = found_in(trio, "--ids", trio.folder / "asked.txt")
    assert found["models/version 1, decrypted"]["ID"] == 2


def test_audit_finds_what_other_programs_left(after: KeptTrio, trained: KeptTrio) -> None:
    state, row = state_of(after), 5
    identity = kept_ids(trained.models()["left"], 1)[row].decode()
    holding = trained.party("left").holding
    place = list(holding.ids).index(identity.encode())
    saved = read_saved_model(state, "left", after.party("left").agreement)
    assert saved.fitted is not None
    features = saved.fitted.transform(holding, np.array([place]))
    left = after.party("left")
    network = load_party_network(saved, "left", left.agreement, left.settings)
    with torch.no_grad():
        embedding = network(torch.from_numpy(np.asarray(features)))
    (state / "notes").mkdir()
    (state / "notes" / "export.csv").write_text(f"id,x\n{identity},3\n")
    (state / "notes" / f"{identity}-long-name.txt").write_text("")
    (state / "cache.bin").write_bytes(b"\0" * 7 + np.asarray(features, np.float32).tobytes())
    mixed = torch.cat([torch.zeros(2, 4, dtype=torch.float64), embedding * (1 + 1e-7)])
    (state / "old.safetensors").write_bytes(save({"e": mixed}))
    (state / "dump.gz").write_bytes(gzip.compress(identity.encode()))
    (state / "link").symlink_to(state / "notes")
    found = found_in(after)
    assert found == {
        "notes/export.csv": {"ID": 1},
        "cache.bin": {"feature values": 1},
        "old.safetensors": {"embedding": 1},
    }
    lines = events(after, "audit", code=9)
    unread = {each["file"]: each["unread"] for each in lines if each["event"] == "file"}
    assert "compressed (gzip)" in unread["dump.gz"]
    assert unread["link"] == "it is no plain file"


def test_audit_names_an_erased_version_that_came_back(after: KeptTrio, trained: KeptTrio) -> None:
    shutil.copy(state_of(trained) / "models" / "000001.sealed", state_of(after) / "models")
    lines = events(after, "audit", code=9)
    erased = {each["id"]: each["gone"] for each in lines if each["event"] == "erased"}
    assert erased["model-1"] is False
    unread = {each["file"]: each["unread"] for each in lines if each["event"] == "file"}
    assert "key" in unread["models/version 1, decrypted"]  # its key is gone all the same


# --- rollback -------------------------------------------------------------------------------------


@pytest.fixture
def twice(trio: KeptTrio) -> KeptTrio:
    """Parties that have trained twice."""
    trio.train()
    return trio


def test_rollback_uses_an_earlier_version_at_every_party(twice: KeptTrio) -> None:
    before = read_saved_model(state_of(twice), "left", twice.party("left").agreement).run
    for name in PARTIES:
        (line,) = events(twice, "rollback", 1, party=name)
        assert line["numbers"] == [2]
        assert [each.number for each in twice.models()[name].files()] == [1]
        assert not (state_of(twice, name) / MANIFEST).exists()
        assert set(twice.party(name).keys.destroyed) == {"model 2"}
    twice.carry_out()  # writes the saved model again
    after = read_saved_model(state_of(twice), "left", twice.party("left").agreement).run
    assert after == twice.models()["left"].files()[0].run != before
    request = twice.request("left", [3])
    twice.carry_out()
    assert twice.view("hub", request).state.value == "certified"


def test_rollback_at_one_party_alone_leaves_no_common_version(twice: KeptTrio) -> None:
    events(twice, "rollback", 1)
    with pytest.raises(StorageError, match="keep no common version"):
        twice.carry_out()


def test_rollback_refuses_versions_that_do_not_exist_or_cannot_be_read(twice: KeptTrio) -> None:
    refused(twice, 8, "is the newest one already", "rollback", 2)
    refused(twice, 7, "has no version 9; it has 1, 2", "rollback", 9)
    path = state_of(twice) / "models" / "000001.sealed"
    path.write_bytes(path.read_bytes()[:-1])
    refused(twice, 7, "cannot be read: it is damaged", "rollback", 1)
    assert [each.number for each in twice.models()["left"].files()] == [1, 2]


def test_rollback_refuses_a_checkpoint(trio: KeptTrio) -> None:
    store = trio.models()["left"]
    run_name = store.files()[0].run
    for number in (2, 3):
        store.write(number, run_name, store.read(1))
    refused(trio, 7, "2 is a checkpoint of a request", "rollback", 2)


def test_rollback_refuses_rows_of_an_open_request_of_any_run(twice: KeptTrio) -> None:
    request = twice.request("left", [3, 4])
    refused(twice, 8, f"it knows 2 rows of the request {request}", "rollback", 1)
    with closing(twice.desk("left")) as desk:
        desk.append(EventKind.WITHDRAWN, request, DecisionBody(reason="mistake"))
    assert events(twice, "rollback", 1)[0]["numbers"] == [2]


def test_rollback_refuses_a_request_by_label_whose_rows_are_not_known(twice: KeptTrio) -> None:
    twice.request("left", kind="label", rows=None, classes=("b",))
    refused(twice, 8, "are not known yet", "rollback", 1)


def test_rollback_refuses_a_version_with_forgotten_rows(after: KeptTrio, trained: KeptTrio) -> None:
    """A version from before a request, restored with its key from a backup."""
    for name in PARTIES:
        store, old = after.models()[name], trained.models()[name]
        run_name, content, facts = old.files()[0].run, old.read(1), old.facts(1)
        store.write(1, run_name, content, facts)
        refused(after, 8, "it knows 3 rows that were forgotten", "rollback", 1, party=name)


def test_rollback_refuses_while_the_party_serves(twice: KeptTrio) -> None:
    with lock_run_folder(state_of(twice)):
        refused(twice, 7, "is in use by process", "rollback", 1)
        refused(twice, 7, "is in use by process", "remove", 1)
        assert len(events(twice, "list")) == 3  # reading needs no lock


# --- remove ---------------------------------------------------------------------------------------


def test_remove_erases_one_earlier_version(twice: KeptTrio) -> None:
    refused(twice, 8, "version 2 is the one that vfl serve uses", "remove", 2)
    refused(twice, 7, "has no version 3", "remove", 3)
    refused(twice, 2, "give the number of a version, or --all", "remove")
    refused(twice, 2, "give the number of a version, or --all", "remove", 1, "--all")
    assert events(twice, "remove", 1)[0]["numbers"] == [1]
    assert [each.number for each in twice.models()["left"].files()] == [2]
    assert "model 1" not in twice.party("left").keys.all()


def test_remove_all_needs_that_no_request_is_open(trio: KeptTrio) -> None:
    request = trio.request("left", [3])
    refused(trio, 8, request, "remove", "--all")
    with closing(trio.desk("left")) as desk:
        desk.append(EventKind.WITHDRAWN, request, DecisionBody(reason="mistake"))
    folder = trio.folder / "runs" / "trio" / "left"
    assert {*FILES} <= {each.name for each in folder.iterdir()}
    assert events(trio, "remove", "--all")[0]["numbers"] == [1]
    assert not trio.models()["left"].files()
    assert not {*FILES} & {each.name for each in folder.iterdir()}  # it knows the same rows
