"""The service with a kept model: requests months after the training, receipts, restarts."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kept_trio import TRAINING, KeptTrio, train_trio
from three_parties import PARTIES, party

from parties.common.errors import StorageError
from parties.common.progress import ProgressReporter
from parties.requests.lifecycle import RequestState
from parties.vertical.kept_model import kept_rows, present_version
from parties.vertical.service.desk import open_desk
from unlearning.receipts.receipt import decode_receipt


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> KeptTrio:
    """Three parties that have trained; tests work on copies."""
    return train_trio(tmp_path_factory.mktemp("trained"))


@pytest.fixture
def trio(trained: KeptTrio, tmp_path: Path) -> KeptTrio:
    """A copy of the trained parties."""
    folder = tmp_path / "trio"
    shutil.copytree(trained.folder, folder)
    return KeptTrio(folder, trained.plan)


def test_training_keeps_a_version_at_every_party(trio: KeptTrio) -> None:
    for store in trio.models().values():
        (kept,) = store.files()
        assert kept.readable
        assert kept.version is not None
        assert kept.version.made_by == "training"


def test_request_is_carried_out_after_the_training_and_certified_by_all(trio: KeptTrio) -> None:
    before = {name: kept_rows(store) for name, store in trio.models().items()}
    request = trio.request("left", [3, 5, 8, 21])
    trio.carry_out()
    receipts = set()
    for name, store in trio.models().items():
        view = trio.view(name, request)
        assert view.state is RequestState.CERTIFIED
        assert view.starts == 1
        (kept,) = store.files()  # earlier versions and checkpoints were erased
        assert kept.version is not None
        assert kept.version.requests == (request,)
        gone = before[name].keys() - kept_rows(store).keys()
        assert {before[name][each] for each in gone} == {3, 5, 8, 21}
        path = trio.folder / "runs" / "trio" / name / "receipts" / f"{request}.json"
        receipts.add(path.read_bytes())
        assert path.with_suffix(".html").exists()
    (receipt,) = map(decode_receipt, receipts)  # the same bytes at every party
    assert receipt.parties_without_signature == []
    assert receipt.method == "retrain-local"
    assert receipt.guarantee.kind.value == "exact"
    assert [each.party for each in receipt.statements] == sorted(PARTIES)


@pytest.mark.parametrize("method", ["fedora", "retrain-paired"])
def test_request_for_all_validation_rows_is_carried_out_and_certified(
    tmp_path: Path, method: str
) -> None:
    """No accuracy is measured on rows that do not exist, and a Retrain trains all epochs."""
    unlearning = {"method": method, "compare": (), "retrains": 0}
    trio = train_trio(tmp_path, unlearning=unlearning, training=TRAINING | {"patience": 1})
    store = trio.models()["hub"]
    rows = store.read(present_version(store)).tensors["rows"]
    request = trio.request("left", [*rows["validation"].tolist(), *rows["train"].tolist()[:4]])
    trio.carry_out()
    for name in PARTIES:
        assert trio.view(name, request).state is RequestState.CERTIFIED
    path = trio.folder / "runs" / "trio" / "hub" / "receipts" / f"{request}.json"
    receipt = decode_receipt(path.read_bytes())
    assert receipt.audit is not None
    assert [each.metric for each in receipt.audit.results] == []
    assert receipt.method == method


def test_receipt_names_a_copy_that_may_still_know_the_rows(tmp_path: Path) -> None:
    fedora = {"policy": "present", "iterations": 2, "check_every": 2}
    unlearning = {"method": "fedora", "fedora": fedora, "compare": ("fine-tune", "relabel")}
    trio = train_trio(tmp_path, unlearning=unlearning | {"retrains": 2})
    request = trio.request("left", [3, 5])
    trio.carry_out(requests={"guard": 1.0})
    path = trio.folder / "runs" / "trio" / "left" / "receipts" / f"{request}.json"
    receipt = decode_receipt(path.read_bytes())
    for statement in receipt.statements:
        assert "early-checkpoint" in [each.id for each in statement.artefacts_retained]


@pytest.mark.parametrize("name", ["hub", "left"])
def test_restored_journal_gets_its_own_events_back(trio: KeptTrio, name: str) -> None:
    request = trio.request("right", [3, 5])
    folder = trio.folder / "runs" / "trio" / name
    trio.carry_out()
    events = trio.view(name, request)
    for path in folder.glob("requests.sqlite*"):  # as restored from a backup of before
        path.unlink()
    trio.carry_out()
    assert trio.view(name, request) == events
    later = trio.request(name, [7])
    trio.carry_out()
    assert trio.view("right", later).state is RequestState.CERTIFIED


def test_due_date_that_comes_near_is_in_the_log(trio: KeptTrio) -> None:
    times = {"received_at": "2026-01-01T00:00:00Z", "due_at": "2026-02-01T00:00:00Z"}
    request = trio.request("left", [3], **times)
    us, warnings = trio.party("left"), list[Any]()
    us = replace(us, progress=ProgressReporter("left", warnings.append))
    desk = open_desk(us, us.agreement)
    for _ in range(2):
        desk.merge([], {})
    desk.close()
    (text,) = [each["text"] for each in warnings if request in str(each)]
    assert "100 % of the time until it is due, 2026-02-01" in text


def test_requests_one_after_another_form_a_chain_of_receipts(trio: KeptTrio) -> None:
    first = trio.request("right", [1, 2])
    trio.carry_out()
    second = trio.request("hub", [2, 7])  # row 2 is gone already
    trio.carry_out()
    folder = trio.folder / "runs" / "trio" / "hub" / "receipts"
    one, two = (decode_receipt((folder / f"{each}.json").read_bytes()) for each in (first, second))
    assert two.prev_receipt_hash == one.digest
    assert two.version_before == one.version_after
    assert len(kept_rows(trio.models()["hub"])) == len(kept_rows(trio.models()["left"]))


def test_forgotten_row_does_not_come_back_in_a_later_training(trio: KeptTrio) -> None:
    before = {each: kept_rows(store) for each, store in trio.models().items()}
    trio.request("left", [3, 5])
    trio.carry_out()
    gone = before["left"].keys() - kept_rows(trio.models()["left"]).keys()
    events: list[Any] = []
    for name in PARTIES:
        us = party(trio.folder, name, trio.plan, events)
        assert not gone & set(us.holding.ids)
    assert sum("forgotten by an earlier request" in str(each) for each in events) == len(PARTIES)
    trio.train()
    for store in trio.models().values():
        newest = store.newest_version()
        assert newest is not None
        assert newest.version is not None
        assert newest.version.made_by == "training"
        assert not gone & kept_rows(store).keys()


def test_two_batches_in_one_session(trio: KeptTrio) -> None:
    first = trio.request("left", [3, 5])
    exact = trio.plan["unlearning"] | {"method": "gradient-ascent"}
    trio.carry_out(requests={"guard": 0.0}, unlearning=exact)
    assert trio.view("hub", first).starts == 1
    second = trio.request("right", [9])
    trio.carry_out(requests={"guard": 1.0})  # the one in quarantine, then the new one
    views = [trio.view("left", each) for each in (first, second)]
    assert {each.state for each in views} == {RequestState.CERTIFIED}
    assert [each.starts for each in views] in ([2, 1], [1, 1])


def test_request_by_label_is_aligned_by_the_active_party(trio: KeptTrio) -> None:
    request = trio.request("left", kind="label", rows=None, classes=("b",))
    trio.carry_out()
    view = trio.view("right", request)
    assert view.state is RequestState.CERTIFIED
    assert view.rows
    content = trio.models()["hub"].read(trio.models()["hub"].files()[0].number)
    assert not bool((content.tensors["labels"]["labels"] == 1).any())


def test_two_requests_are_one_batch_with_one_receipt(trio: KeptTrio) -> None:
    requests = sorted([trio.request("left", [3]), trio.request("right", [4, 5])])
    trio.carry_out()
    views = [trio.view("hub", each) for each in requests]
    assert {each.version_after for each in views} == {views[0].version_after}
    assert views[0].receipt == views[1].receipt
    folder = trio.folder / "runs" / "trio" / "left" / "receipts"
    assert [path.stem for path in folder.glob("0*.json")] == [requests[0]]


def test_passive_parties_do_not_get_the_figures_of_one_row(trio: KeptTrio) -> None:
    """The accuracy on the rows to forget says whether the model predicts the label of one row."""
    store = trio.models()["hub"]
    first = store.read(present_version(store)).tensors["rows"]["train"].tolist()[0]
    request = trio.request("left", [first])
    trio.carry_out(requests={"guard": 1.0})
    own = trio.figures()
    assert {"forgotten_before", "forgotten_after", "test_before", "membership_auc"} <= own.keys()
    for name in PARTIES:
        (figures,) = trio.journaled_figures(name, request)
        lost = float(own["validation_before"]) - float(own["validation_after"])
        assert figures == {
            "validation_before": f"{lost:.4f}",
            "validation_after": "0.0000",
            "validation_rows": own["validation_rows"],
        }


def test_model_that_loses_too_much_accuracy_is_quarantined(trio: KeptTrio) -> None:
    kept = {name: store.files() for name, store in trio.models().items()}
    request = trio.request("left", range(120))
    strict, method = (
        {"guard": 0.0},
        {"method": "gradient-ascent", "gradient_ascent": {"steps": 40, "learning_rate": 1.0}},
    )
    trio.carry_out(requests=strict, unlearning=trio.plan["unlearning"] | method)
    for name, store in trio.models().items():
        view = trio.view(name, request)
        assert view.state is RequestState.QUARANTINED
        assert "on validation rows fell by 0." in view.reason  # neither accuracy
        assert "Set another unlearning.method" in view.reason
        assert "requests.guard" in view.reason
        assert store.files() == kept[name]  # the version before is still there, and nothing else
    desk = trio.desk("right")
    assert desk.frozen_rows(1) == set(range(120))  # the rows stay frozen
    desk.close()
    trio.carry_out(requests=strict, unlearning=trio.plan["unlearning"] | method)
    assert trio.view("hub", request).starts == 1  # the same method is not tried again
    trio.carry_out(requests={"guard": 1.0})
    assert trio.view("hub", request).starts == 1  # even with another guard
    exact = trio.plan["unlearning"] | {"method": "retrain-paired"}
    trio.carry_out(unlearning=exact)
    assert trio.view("hub", request).state is RequestState.CERTIFIED
    assert trio.view("hub", request).starts == 2


def test_request_is_quarantined_if_fedora_restored_the_model_from_before(trio: KeptTrio) -> None:
    kept = {name: store.files() for name, store in trio.models().items()}
    request = trio.request("left", range(5))
    weak = {
        "start": "fresh-top", "policy": "present", "primal_step": 1e-6, "iterations": 3,
        "check_every": 1, "utility_loss": 1e-9, "anneal": False,
    }  # fmt: skip
    fedora = trio.plan["unlearning"] | {"method": "fedora", "fedora": weak}
    trio.carry_out(requests={"guard": 1.0}, unlearning=fedora)
    for name, store in trio.models().items():
        view = trio.view(name, request)
        assert view.state is RequestState.QUARANTINED
        assert "restored the model from before" in view.reason
        assert store.files() == kept[name]


def test_data_may_have_more_rows_in_another_order(trio: KeptTrio) -> None:
    request = trio.request("left", [3, 5])
    path = next(trio.folder.glob("left*.csv"))
    header, *lines = path.read_text().splitlines()
    path.write_text("\n".join([header, *reversed(lines)]) + "\n")
    trio.carry_out()
    assert trio.view("hub", request).state is RequestState.CERTIFIED


def test_no_kept_model_is_refused(trio: KeptTrio) -> None:
    shutil.rmtree(trio.folder / "runs" / "trio" / "hub" / "models")
    trio.request("left", [3])
    with pytest.raises(StorageError, match="no model is kept"):
        trio.models()["hub"].require()


def test_rows_of_a_request_are_frozen_at_once(trio: KeptTrio) -> None:
    trio.request("left", [3, 5])
    desk = trio.desk("left")
    assert desk.frozen_rows(1) == {3, 5}
    desk.close()
