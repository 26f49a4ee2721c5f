"""Labels of a kept model that are corrected by a request, long after the training."""

import csv
import re
import shutil
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import torch
from corrections import submit_correction
from kept_trio import KeptTrio, train_trio
from three_parties import PARTIES, party

from parties.common.errors import StorageError
from parties.requests.events import DecisionBody, EventKind, VerifiedBody
from parties.requests.lifecycle import RequestState
from parties.requests.subjects import SubjectStore
from parties.vertical.kept_model import kept_rows
from unlearning.receipts.receipt import RequestKind, decode_receipt

FIT = {"fit_epochs": 1, "top_epochs": 1, "joint_epochs": 1}
EXACT = {"method": "retrain-local", "retrain_local": FIT, "compare": ("fine-tune", "relabel")}
PLAN: dict[str, Any] = {
    "unlearning": EXACT | {"retrains": 2},
    "requests": {"guard": 1.0},
    "limits": {"checkpoint_seconds": 0.0},
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> KeptTrio:
    """Three parties that have trained; tests work on copies."""
    return train_trio(tmp_path_factory.mktemp("trained"), **PLAN)


@pytest.fixture
def trio(trained: KeptTrio, tmp_path: Path) -> KeptTrio:
    """A copy of the trained parties."""
    shutil.copytree(trained.folder, tmp_path / "trio")
    return KeptTrio(tmp_path / "trio", dict(trained.plan))


def content(trio: KeptTrio, name: str = "hub") -> Any:
    """The content of the newest version of a party."""
    store = trio.models()[name]
    return store.read(store.offer().kept)


def labels(trio: KeptTrio) -> torch.Tensor:
    """The labels of the newest version, [common_rows]."""
    found: torch.Tensor = content(trio).tensors["labels"]["labels"]
    return found


def rows_of(trio: KeptTrio, part: str) -> list[int]:
    """The rows of a set of the newest version: ``train``, ``validation`` or ``test``."""
    found: list[int] = content(trio).tensors["rows"][part].tolist()
    return found


def weights(trio: KeptTrio) -> list[torch.Tensor]:
    """All parameters of the newest version at all parties."""
    stores = [content(trio, name).tensors for name in PARTIES]
    return [
        part[key] for each in stores for slot, part in sorted(each.items())
        if slot.startswith("model") for key in sorted(part)
    ]  # fmt: skip


def next_class(trio: KeptTrio, rows: list[int]) -> dict[int, str]:
    """Another label for each row."""
    now = labels(trio)
    return {row: "abc"[(int(now[row]) + 1) % 3] for row in rows}


def correct(trio: KeptTrio, wanted: Mapping[int, str], name: str = "hub") -> str:
    """Make a request that gives rows other labels, and return its ID."""
    with closing(trio.desk(name)) as desk:
        return submit_correction(trio.party(name), desk, wanted)


def write_labels(trio: KeptTrio, wanted: Mapping[int, str]) -> None:
    """Write labels into the data of the active party."""
    place = {row: each.decode() for each, row in kept_rows(trio.models()["hub"]).items()}
    by_id = {place[row]: label for row, label in wanted.items()}
    path = trio.folder / "hub.csv"
    with path.open(newline="") as file:
        lines = list(csv.DictReader(file))
    for line in lines:
        line["label"] = by_id.get(line["id"], line["label"])
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, lines[0].keys())
        table.writeheader()
        table.writerows(lines)


def test_labels_are_replaced_and_the_receipt_says_so(trio: KeptTrio) -> None:
    train, validation = rows_of(trio, "train"), rows_of(trio, "validation")
    wanted = next_class(trio, [*train[:12], validation[0]])
    before, rows = labels(trio).clone(), kept_rows(trio.models()["left"])
    request = correct(trio, wanted)
    with closing(trio.desk("hub")) as desk:
        assert desk.frozen_rows(1) == set(wanted)
    trio.carry_out()
    now = labels(trio)
    assert {row: "abc"[int(now[row])] for row in wanted} == wanted
    others = [row for row in range(len(now)) if row not in wanted]
    assert torch.equal(now[others], before[others])
    assert rows_of(trio, "train") == train
    assert kept_rows(trio.models()["left"]) == rows  # no row is gone
    with closing(trio.desk("hub")) as desk:
        assert desk.frozen_rows(trio.models()["hub"].offer().kept) == frozenset()
        assert len(desk.forgotten) == 0
    receipts = set()
    for name in PARTIES:
        assert trio.view(name, request).state is RequestState.CERTIFIED
        path = trio.folder / "runs" / "trio" / name / "receipts" / f"{request}.json"
        receipts.add(path.read_bytes())
        assert "Labels were replaced in a model" in path.with_suffix(".html").read_text()
    (receipt,) = map(decode_receipt, receipts)
    assert receipt.requests[0].kind is RequestKind.CORRECTION
    assert receipt.requests[0].count_bucket == "8-15"
    for statement in receipt.statements:
        assert statement.model_before != statement.model_after
        kinds = {each.kind.value for each in statement.artefacts_destroyed}
        assert kinds <= {"model", "checkpoint"}  # features and embeddings stay


def test_no_event_contains_an_id_or_a_label(trio: KeptTrio) -> None:
    wanted = next_class(trio, rows_of(trio, "train")[:3])
    request = correct(trio, wanted)
    trio.carry_out()
    with closing(trio.desk("left")) as desk:
        (asked,) = [
            each for each in desk.journal.events(request) if each.kind is EventKind.REQUESTED
        ]
        assert asked.body.model_dump()["classes"] == ()
        assert SubjectStore(desk.journal, trio.party("left").keys).of(request) is None


def test_model_is_that_of_parties_that_never_had_the_wrong_labels(
    trio: KeptTrio, tmp_path: Path
) -> None:
    """``retrain-local`` reads the rows and their present labels alone."""
    train = rows_of(trio, "train")
    wanted = next_class(trio, train[:20])
    clean = KeptTrio(tmp_path / "clean", trio.plan)
    shutil.copytree(trio.folder, clean.folder)
    last, *first = sorted(wanted)
    write_labels(clean, {row: wanted[row] for row in first})
    shutil.rmtree(clean.folder / "runs")
    clean.train()
    assert torch.equal(labels(clean)[first], torch.tensor(["abc".index(wanted[r]) for r in first]))
    correct(trio, wanted)
    correct(clean, {last: wanted[last]})
    trio.carry_out()
    clean.carry_out()
    for one, other in zip(weights(trio), weights(clean), strict=True):
        assert torch.equal(one, other)


def test_rows_outside_training_get_their_labels_without_a_method(trio: KeptTrio) -> None:
    before = weights(trio)
    wanted = next_class(trio, [rows_of(trio, "validation")[0], rows_of(trio, "test")[0]])
    request = correct(trio, wanted)
    trio.carry_out()
    assert trio.view("left", request).state is RequestState.CERTIFIED
    assert {row: "abc"[int(labels(trio)[row])] for row in wanted} == wanted
    assert all(map(torch.equal, before, weights(trio)))


def test_only_the_active_party_can_correct_labels(trio: KeptTrio) -> None:
    request = correct(trio, next_class(trio, rows_of(trio, "train")[:2]), "left")
    trio.carry_out()
    view = trio.view("hub", request)
    assert view.state is RequestState.REJECTED
    assert "only hub has labels" in view.reason


def test_method_that_cannot_correct_labels_is_named(trio: KeptTrio) -> None:
    trio.plan["unlearning"] = EXACT | {"method": "gradient-ascent", "retrains": 2}
    request = correct(trio, next_class(trio, rows_of(trio, "train")[:2]))
    view = trio.view("hub", request)
    assert view.state is RequestState.REJECTED
    assert "'gradient-ascent' cannot correct labels" in view.reason


def restored(trio: KeptTrio) -> tuple[dict[int, str], list[int]]:
    """Correct labels, forget rows, and restore the models from before; return both."""
    runs, backup = trio.folder / "runs" / "trio", trio.folder / "backup"
    shutil.copytree(runs, backup)
    train = rows_of(trio, "train")
    wanted = next_class(trio, train[:6])
    correct(trio, wanted)
    trio.carry_out()
    trio.request("left", train[10:14])
    trio.carry_out()
    write_labels(trio, wanted)  # the key of the request's labels is not in the backup
    for name in PARTIES:
        for journal in (runs / name).glob("requests.sqlite*"):
            shutil.copy(journal, backup / name)
    shutil.rmtree(runs)
    shutil.copytree(backup, runs)
    return wanted, train[10:14]


def test_restored_models_do_both_kinds_of_request_again_also_after_crashes(
    trio: KeptTrio, tmp_path: Path
) -> None:
    wanted, gone = restored(trio)
    other = KeptTrio(tmp_path / "crashed", trio.plan)
    shutil.copytree(trio.folder, other.folder)
    trio.carry_out()
    assert {row: "abc"[int(labels(trio)[row])] for row in wanted} == wanted
    assert not set(gone) & set(kept_rows(trio.models()["right"]).values())
    newest = trio.models()["hub"].newest_version()
    assert newest is not None
    assert newest.version is not None
    audit = newest.version.own["audit"]  # of both kinds
    assert {"forgotten_after", "corrected_after", "membership_auc"} <= audit.keys()
    for part in (0.3, 0.55, 0.8):  # in the first and in the second kind of request
        other.carry_out(crash=int(part * trio.messages))
    other.carry_out()
    assert torch.equal(labels(trio), labels(other))
    for one, another in zip(weights(trio), weights(other), strict=True):
        assert torch.equal(one, another)


def test_guard_that_refuses_the_labels_of_a_restored_model_has_a_way_out(trio: KeptTrio) -> None:
    """The rows of the first part are erased in memory before the guard refuses the second one."""
    runs, backup = trio.folder / "runs" / "trio", trio.folder / "backup"
    shutil.copytree(runs, backup)
    train, now = rows_of(trio, "train"), labels(trio)
    wanted = {row: "b" for row in train if now[row] == 0}  # so that the model never predicts a
    requests = [trio.request("left", train[:1]), correct(trio, wanted)]
    trio.carry_out()
    write_labels(trio, wanted)
    for name in PARTIES:
        for journal in (runs / name).glob("requests.sqlite*"):
            shutil.copy(journal, backup / name)
    shutil.rmtree(runs)
    shutil.copytree(backup, runs)
    trio.carry_out(requests={"guard": 0.1})
    (figures,) = trio.journaled_figures("left", requests[1])
    for each in requests:
        view = trio.view("hub", each)
        assert (view.state, view.batch) == (RequestState.QUARANTINED, tuple(requests))
        fell = re.search(r"on validation rows fell by (0\.\d{4}), more than", view.reason)
        assert fell is not None
        lost = float(figures["validation_before"])  # of the second part
        assert float(fell[1]) == pytest.approx(lost, abs=2e-4)
    for name in PARTIES:
        assert [each.number for each in trio.models()[name].files()] == [1]
    trio.plan["unlearning"] = EXACT | {"method": "retrain-paired", "retrains": 2}
    trio.carry_out(requests={"guard": 1.0})  # as the reason says
    for each in requests:
        assert trio.view("left", each).state is RequestState.CERTIFIED
    assert train[0] not in kept_rows(trio.models()["right"]).values()
    assert {"abc"[int(labels(trio)[row])] for row in [*wanted][1:]} == {"b"}


def test_last_correction_of_a_row_counts_in_a_batch(trio: KeptTrio) -> None:
    row = rows_of(trio, "train")[0]
    first = next_class(trio, [row])
    correct(trio, first)
    correct(trio, {row: "abc"[("abc".index(first[row]) + 1) % 3]})
    trio.carry_out()
    assert labels(trio)[row] == ("abc".index(first[row]) + 1) % 3


def test_requests_that_forget_rows_have_their_own_batch(trio: KeptTrio) -> None:
    train = rows_of(trio, "train")
    corrected = correct(trio, next_class(trio, train[:3]))
    forgotten = trio.request("left", train[5:7])
    trio.carry_out()
    views = [trio.view("hub", each) for each in (forgotten, corrected)]
    assert [each.batch for each in views] == [(forgotten,), (corrected,)]
    assert views[0].version_after == views[1].version_before


def test_label_of_a_forgotten_row_is_removed(trio: KeptTrio) -> None:
    rows = rows_of(trio, "train")[:3]
    request = correct(trio, next_class(trio, rows))
    trio.carry_out()
    trio.request("left", rows[:2])
    trio.carry_out()
    with closing(trio.desk("hub")) as desk:
        kept = SubjectStore(desk.journal, trio.party("hub").keys).of(request)
    assert kept is not None
    assert [bool(each.label) for each in kept] == [False, False, True]


def test_event_of_another_party_does_not_make_a_withdrawn_correction_count(
    trio: KeptTrio,
) -> None:
    wanted = next_class(trio, rows_of(trio, "train")[:2])
    place = {row: each for each, row in kept_rows(trio.models()["hub"]).items()}
    request, before = correct(trio, wanted), labels(trio)
    with closing(trio.desk("hub")) as hub, closing(trio.desk("left")) as left:
        hub.append(EventKind.WITHDRAWN, request, DecisionBody(reason="mistake"))
        left.merge(hub.journal.since({}), hub.journal.counts())
        left.append(EventKind.VERIFIED, request, VerifiedBody(version=2**40))
        hub.merge(left.journal.since(hub.journal.counts()), left.journal.counts())
    trio.train()
    now, rows = labels(trio), kept_rows(trio.models()["hub"])
    for row in wanted:
        assert now[rows[place[row]]] == before[row]
    later = trio.request("left", rows_of(trio, "train")[:1])
    trio.carry_out()
    assert trio.view("hub", later).state is RequestState.CERTIFIED


def test_lost_labels_stop_a_training(trio: KeptTrio) -> None:
    hub, backup = trio.folder / "runs" / "trio" / "hub", trio.folder / "backup"
    shutil.copytree(hub, backup)
    request = correct(trio, next_class(trio, rows_of(trio, "train")[:2]))
    trio.carry_out()
    for path in hub.glob("requests.sqlite*"):
        path.unlink()
    for path in backup.glob("requests.sqlite*"):
        shutil.copy(path, hub)
    trio.carry_out()  # the other parties return the events, and no label
    with pytest.raises(StorageError, match=f"request {request} corrected are lost"):
        trio.party("hub", serves=False)


def test_training_uses_corrected_labels_where_the_data_has_others(trio: KeptTrio) -> None:
    wanted = next_class(trio, rows_of(trio, "train")[:4])
    place = {row: each for each, row in kept_rows(trio.models()["hub"]).items()}
    correct(trio, wanted)
    trio.carry_out()
    trio.train()
    now, rows = labels(trio), kept_rows(trio.models()["hub"])
    for row, label in wanted.items():
        assert "abc"[int(now[rows[place[row]]])] == label
    back = next_class(trio, [rows[place[row]] for row in wanted])
    correct(trio, back)  # the last request counts
    trio.carry_out()
    trio.train()
    now, by_id = labels(trio), kept_rows(trio.models()["hub"])
    inverse = {row: each for each, row in rows.items()}
    for row, label in back.items():
        assert "abc"[int(now[by_id[inverse[row]]])] == label


def test_corrected_label_of_a_class_that_is_gone_is_ignored_with_a_warning(trio: KeptTrio) -> None:
    train, now = rows_of(trio, "train"), labels(trio)
    of_a = [row for row in train if int(now[row]) == 0][:3]
    place = {row: each for each, row in kept_rows(trio.models()["hub"]).items()}
    correct(trio, {of_a[0]: "c", of_a[1]: "c", of_a[2]: "b"})
    trio.carry_out()
    table = trio.folder / "hub.csv"
    table.write_text(table.read_text().replace(",c\n", ",a\n"))
    trio.plan = {**trio.plan, "labels": {"classes": ["a", "b"]}}
    events: list[dict[str, Any]] = []
    us = party(trio.folder, "hub", trio.plan, events)
    assert us.holding.labels is not None
    found = {place[row]: int(us.holding.labels[us.holding.ids.index(place[row])]) for row in of_a}
    assert [*found.values()] == [0, 0, 1]
    (text,) = [each["text"] for each in events if "any more" in each.get("text", "")]
    assert text.startswith("2 labels that requests have corrected are of the class 'c'")
    assert not [each for each in found if each.decode() in text]
    assert trio.train()


def test_lost_labels_are_not_guessed(trio: KeptTrio) -> None:
    wanted = next_class(trio, rows_of(trio, "train")[:3])
    request = correct(trio, wanted)
    with closing(trio.desk("hub")) as desk:
        trio.party("hub").keys.destroy(f"subjects-{request}")
        assert SubjectStore(desk.journal, trio.party("hub").keys).of(request) is None
    with pytest.raises(StorageError, match="has 3 of the wrong ones"):
        trio.carry_out()
    write_labels(trio, wanted)
    trio.carry_out()
    assert {row: "abc"[int(labels(trio)[row])] for row in wanted} == wanted


def test_fedora_corrects_with_its_label_form(tmp_path: Path) -> None:
    fedora = {"iterations": 4, "batch": 16}
    unlearning = {"method": "fedora", "fedora": fedora, "compare": ("fine-tune", "relabel")}
    trio = train_trio(tmp_path, unlearning=unlearning | {"retrains": 2}, requests={"guard": 1.0})
    wanted = next_class(trio, rows_of(trio, "train")[:10])
    request = correct(trio, wanted)
    trio.carry_out()
    path = trio.folder / "runs" / "trio" / "left" / "receipts" / f"{request}.json"
    receipt = decode_receipt(path.read_bytes())
    assert receipt.method == "fedora"
    assert {row: "abc"[int(labels(trio)[row])] for row in wanted} == wanted
