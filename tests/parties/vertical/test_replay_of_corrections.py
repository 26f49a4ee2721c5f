"""Replays of requests that replace labels, alone or in one batch with requests to forget rows."""

import json
import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from kept_trio import KeptTrio, train_trio
from test_corrected_later import correct, labels, next_class, rows_of, write_labels
from test_replay import contents, receipt_of, replay
from three_parties import PARTIES

from parties.common.errors import PolicyError, StorageError
from parties.requests.subjects import SubjectStore

FEDORA: dict[str, Any] = {
    "method": "fedora",
    "fedora": {"iterations": 3, "batch": 16, "check_every": 2, "reference_epochs": 1},
    "compare": ("fine-tune", "relabel"),
    "retrains": 2,
}
FRESH = {"method": "retrain-local", "compare": ("fine-tune", "relabel"), "retrains": 2}
SAME = dict.fromkeys(PARTIES, True)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> KeptTrio:
    """Three parties that keep old versions for a week; tests work on copies."""
    folder = tmp_path_factory.mktemp("trained")
    return train_trio(folder, unlearning=FEDORA, requests={"guard": 1.0, "replay_days": 7})


@pytest.fixture
def trio(trained: KeptTrio, tmp_path: Path) -> KeptTrio:
    """A copy of the trained parties."""
    shutil.copytree(trained.folder, tmp_path / "trio")
    return KeptTrio(tmp_path / "trio", dict(trained.plan))


def purge(trio: KeptTrio, request: str) -> None:
    """Let the active party delete its record of a request."""
    with closing(trio.desk("hub")) as desk:
        SubjectStore(desk.journal, trio.party("hub").keys).purge(desk.request(request))


def test_correction_is_replayed_from_the_version_before(trio: KeptTrio) -> None:
    request = correct(trio, next_class(trio, rows_of(trio, "train")[:9]))
    trio.carry_out()
    before = contents(trio)
    results = replay(trio, request)
    assert results["hub"].equal == SAME
    assert all(all(each.equal.values()) for each in results.values())
    assert contents(trio) == before  # nothing is stored, and nothing is erased


def test_labels_of_the_replay_are_those_of_the_request(trio: KeptTrio) -> None:
    train = rows_of(trio, "train")
    first = correct(trio, next_class(trio, train[:9]))
    trio.carry_out()
    correct(trio, next_class(trio, train[:9]))  # again, so the data and the model have others
    trio.carry_out()
    assert replay(trio, first)["hub"].equal == SAME


def test_replay_with_other_labels_makes_another_model(trio: KeptTrio) -> None:
    wanted = next_class(trio, rows_of(trio, "train")[:9])
    request = correct(trio, wanted)
    trio.carry_out()
    write_labels(trio, next_class(trio, list(wanted)))
    purge(trio, request)
    assert not replay(trio, request)["hub"].equal["hub"]


def test_replay_after_a_purge_reads_the_data(trio: KeptTrio) -> None:
    wanted = next_class(trio, rows_of(trio, "train")[:9])
    request = correct(trio, wanted)
    trio.carry_out()
    purge(trio, request)
    with pytest.raises(StorageError, match="has 9 of the wrong ones"):
        replay(trio, request)
    write_labels(trio, wanted)
    assert replay(trio, request)["hub"].equal == SAME


def test_replay_names_labels_that_a_later_request_deleted(trio: KeptTrio) -> None:
    rows = rows_of(trio, "train")[:9]
    request = correct(trio, next_class(trio, rows))
    trio.carry_out()
    later = trio.request("left", rows[:2])
    trio.carry_out()
    with pytest.raises(PolicyError, match="deleted the labels of 2 rows"):
        replay(trio, request)
    assert replay(trio, later)["hub"].equal == SAME


def test_rows_outside_training_need_no_method(trio: KeptTrio) -> None:
    request = correct(trio, next_class(trio, [rows_of(trio, "validation")[0]]))
    trio.carry_out()
    assert replay(trio, request)["hub"].equal == SAME


def restored(trio: KeptTrio) -> tuple[str, str]:
    """Correct labels, forget rows, and do both again in one batch from the restored models."""
    runs, backup = trio.folder / "runs" / "trio", trio.folder / "backup"
    shutil.copytree(runs, backup)
    train = rows_of(trio, "train")
    corrected = correct(trio, next_class(trio, train[:9]))
    trio.carry_out()
    forgotten = trio.request("left", [*train[7:9], *train[20:24]])
    trio.carry_out()
    for name in PARTIES:
        shutil.rmtree(runs / name / "models")
        shutil.copytree(backup / name / "models", runs / name / "models")
        keys = [json.loads((each / name / "keys.json").read_text()) for each in (backup, runs)]
        merged = keys[1] | {"keys": keys[1]["keys"] | keys[0]["keys"]}
        (runs / name / "keys.json").write_text(json.dumps(merged))
    trio.carry_out()
    assert set(trio.view("hub", corrected).batch) == {corrected, forgotten}
    return corrected, forgotten


def test_batch_of_both_kinds_is_replayed(trio: KeptTrio) -> None:
    corrected, forgotten = restored(trio)
    before = contents(trio)
    assert replay(trio, forgotten)["hub"].equal == SAME
    assert replay(trio, corrected)["hub"].equal == SAME
    assert contents(trio) == before
    with pytest.raises(PolicyError, match="a comparison is of one kind"):
        replay(trio, corrected, compares=True)


def test_fresh_method_replays_a_correction_from_its_own_version(tmp_path: Path) -> None:
    trio = train_trio(tmp_path, unlearning=FRESH, requests={"guard": 1.0})
    request = correct(trio, next_class(trio, rows_of(trio, "train")[:9]))
    trio.carry_out()
    assert all(len(each.files()) == 1 for each in trio.models().values())
    assert replay(trio, request)["hub"].equal == SAME


def test_correction_is_compared_with_retrains_that_have_the_right_labels(trio: KeptTrio) -> None:
    wanted = next_class(trio, rows_of(trio, "train")[:24])
    request = correct(trio, wanted)
    trio.carry_out()
    result = replay(trio, request, compares=True)["hub"]
    assert result.equal == SAME
    assert result.page is not None
    (measured,) = json.loads(result.page.with_name("metrics.json").read_text())["requests"]
    assert measured["rows"]["corrects"]
    assert measured["rows"]["retained"] == len(rows_of(trio, "train"))
    names = [each["name"] for each in measured["methods"]]
    assert names == ["original", "fedora", "fine-tune", "retrain", "retrain-2", "retrain-paired"]
    assert "replaced the labels" in " ".join(result.page.read_text().split())
    assert {row: "abc"[int(labels(trio)[row])] for row in wanted} == wanted
    assert receipt_of(trio, request).receipt_id in str(result.page)
