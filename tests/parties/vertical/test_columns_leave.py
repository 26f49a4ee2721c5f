"""Columns of a party leave: its request, and the receipt of all parties."""

import shutil
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
import three_parties
import torch
from kept_trio import TRAINING, KeptTrio, train_trio
from request_federation import write_trio
from three_parties import PARTIES
from watched_party import Watch

from parties.common.errors import IntegrityError, PolicyError
from parties.data.party_settings import VerticalPartySettings
from parties.requests.duties import RequestDesk
from parties.requests.events import (
    DecisionBody,
    EventKind,
    StartedBody,
    StatedBody,
    VerifiedBody,
)
from parties.requests.lifecycle import RequestState, RequestView
from parties.requests.local_desk import local_desk_of
from parties.requests.persons import RequestPolicy
from parties.requests.receipts import FOLDER, TRUST
from parties.session.checkpoint import CheckpointContent
from parties.session.setup import NEWEST
from parties.session.store.model_store import ModelStore, VersionFacts
from parties.session.store.sealing import KeyFile
from parties.vertical.kept_model import (
    COLUMNS,
    LEFT,
    REPLACES,
    kept_rows,
    newest_replacement,
    party_models,
)
from parties.vertical.service.departure import (
    COLUMNS_METHOD,
    NO_MODEL,
    Departures,
    request_columns,
)
from parties.vertical.service.desk import open_desk
from parties.vertical.service.replay import plan_replay
from unlearning.receipts.keys import read_trust
from unlearning.receipts.receipt import Receipt, RequestKind
from unlearning.receipts.verify import Evidence, Verification, verify

FEW = {"unlearning": {"method": "fine-tune", "compare": (), "retrains": 0}}
POLICY = RequestPolicy(automatic=True, persons=())
NEW = {"training": {**TRAINING, "continued": {"new_weights": True}}}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> KeptTrio:
    """Three parties with a kept model, which tests copy."""
    return train_trio(tmp_path_factory.mktemp("trained"), **FEW)


@pytest.fixture
def trio(trained: KeptTrio, tmp_path: Path) -> KeptTrio:
    """A copy of the parties."""
    shutil.copytree(trained.folder, tmp_path / "trio")
    return KeptTrio(tmp_path / "trio", trained.plan)


@pytest.fixture(scope="module")
def narrowed(trained: KeptTrio, tmp_path_factory: pytest.TempPathFactory) -> KeptTrio:
    """The parties after a training without column z of left, which tests copy."""
    folder = tmp_path_factory.mktemp("narrowed") / "trio"
    shutil.copytree(trained.folder, folder)
    found = KeptTrio(folder, trained.plan)
    with pytest.MonkeyPatch.context() as patched:
        drop(found, patched, left="z")
    return found


@pytest.fixture
def without_z(narrowed: KeptTrio, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KeptTrio:
    """A copy of these parties."""
    shutil.copytree(narrowed.folder, tmp_path / "trio")
    use_fewer(monkeypatch, left="z")
    return KeptTrio(tmp_path / "trio", narrowed.plan)


def drop(trio: KeptTrio, monkeypatch: pytest.MonkeyPatch, **columns: str) -> None:
    """Parties take columns out of their settings, and all train from the newest version."""
    use_fewer(monkeypatch, **columns)
    trio.plan = {**trio.plan, **NEW}
    train(trio)


def use_fewer(monkeypatch: pytest.MonkeyPatch, **columns: str) -> None:
    """Parties take columns out of their settings."""
    known = three_parties.party_settings

    def narrower(folder: Path, requests: Iterable[str] = ()) -> dict[str, VerticalPartySettings]:
        found = known(folder, requests)
        for name, gone in columns.items():
            kept = {*columns_in(folder, name)} - {*gone.split()}
            update = {"numeric": tuple(sorted(kept)), "ranges": dict.fromkeys(kept, (-4.0, 8.0))}
            data = found[name].data.model_copy(update=update)
            found[name] = found[name].model_copy(update={"data": data})
        return found

    monkeypatch.setattr(three_parties, "party_settings", narrower)


def columns_in(folder: Path, name: str) -> list[str]:
    """The feature columns in the file of a party."""
    header = (folder / f"{name}.csv").read_text().splitlines()[0].split(",")
    return [each for each in header if each not in ("id", "label")]


def train(trio: KeptTrio) -> None:
    """All go on from the newest version."""
    trio.train(versions=dict.fromkeys(trio.names, NEWEST))


def newest(trio: KeptTrio) -> int:
    """The number of the newest version."""
    found: int = trio.models()["hub"].newest_version().number
    return found


def views(trio: KeptTrio, name: str = "hub") -> list[RequestView]:
    """The requests which say that columns left."""
    with closing(trio.desk(name)) as desk:
        return [each for each in desk.requests() if each.content.kind == "columns"]


def folder_of(trio: KeptTrio, name: str) -> Path:
    """The folder of a party's receipts."""
    return trio.folder / "runs" / "trio" / name / FOLDER


def checked(
    trio: KeptTrio, name: str, request: str, evidence: Evidence | None = None
) -> Verification:
    """What ``vfl-verify`` finds in a receipt of one party, with that party's keys."""
    folder = folder_of(trio, name)
    content = (folder / f"{request}.json").read_bytes()
    found = verify(content, read_trust((folder / TRUST).read_bytes()), evidence)
    assert found.findings == []
    return found


def receipts(trio: KeptTrio) -> Receipt:
    """The one receipt of columns that left, which is the same at every party."""
    (request,) = {min(each.batch) for each in views(trio)}
    found = [checked(trio, name, request).receipt for name in trio.names]
    assert found[0] is not None
    assert all(each == found[0] for each in found)
    return found[0]


def test_all_parties_sign_how_many_columns_left_and_what_they_erased(without_z: KeptTrio) -> None:
    without_z.carry_out()
    (view,) = views(without_z)
    assert (view.origin, view.state) == ("left", RequestState.CERTIFIED)
    receipt = receipts(without_z)
    (request,) = receipt.requests
    assert (request.kind, request.origin, request.columns_left) == (RequestKind.COLUMNS, "left", 1)
    assert (request.count_bucket, request.subjects_root) == ("0", None)
    assert (receipt.version_before, receipt.version_after) == (1, 2)
    assert (receipt.guarantee.kind.value, receipt.method) == ("exact", "training-without-columns")
    assert [each.party for each in receipt.statements] == sorted(PARTIES)
    for each in receipt.statements:
        assert "model-1" in [item.id for item in each.artefacts_destroyed]
        assert each.model_before != each.model_after
    with closing(without_z.desk("right")) as desk:
        export = b"".join(each + b"\n" for each in desk.journal.since({}))
    found = checked(without_z, "hub", view.id, Evidence(journal=export))
    assert found.notes == [
        "left states that 1 of its columns left; no other party knows its columns"
    ]
    page = " ".join((folder_of(without_z, "hub") / f"{view.id}.html").read_text().split())
    assert "trained it again without 1 column of left" in page


def test_names_of_columns_stay_at_their_owner(
    trio: KeptTrio, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = trio.folder / "left.csv"
    path.write_text(path.read_text().replace("id,x,y,z", "id,x,y,salary", 1))
    with monkeypatch.context() as patched:
        drop(trio, patched, left="")  # learns salary in place of z: a column left
        trio.carry_out()
    drop(trio, monkeypatch, left="salary")
    trio.carry_out()
    files = [each for each in (trio.folder / "runs").rglob("*") if each.is_file()]
    assert len(files) > 20
    assert [each for each in files if b"salary" in each.read_bytes()] == []


def test_a_withdrawn_request_is_not_made_again_and_trainings_go_on(without_z: KeptTrio) -> None:
    """As if another party were lost for good before the receipt."""
    left = without_z.party("left")
    with closing(without_z.desk("left")) as desk:
        request_columns(left, party_models(left), desk)
        (view,) = views(without_z, "left")
        desk.append(EventKind.WITHDRAWN, view.id, DecisionBody(reason="right is lost"))
    without_z.carry_out()
    assert [each.state for each in views(without_z)] == [RequestState.CANCELLED]
    train(without_z)


def test_nobody_waits_for_columns_that_their_owner_does_not_approve(trio: KeptTrio) -> None:
    """A party could else stop all requests and trainings for ever."""
    hub = trio.party("hub")
    content = {"kind": "columns", "columns": 1, "version": newest(trio), "subjects_root": None}
    request = trio.request("left", **content)
    with closing(trio.desk("left")) as desk:
        records = list(desk.journal.since({}))
    with closing(trio.desk("hub")) as desk:
        desk.journal.merge(records)
        assert desk.request(request).approvals == frozenset()
        desk.attend()
        assert "hub" not in desk.request(request).approvals
        assert Departures(hub, party_models(hub), desk).record()


def test_a_later_training_from_nothing_ends_what_proves_that_columns_left(tmp_path: Path) -> None:
    keys = KeyFile(tmp_path)
    store = ModelStore(tmp_path, "left", {"seed": 1}, keys)
    state = CheckpointContent({}, {"model": {"w": torch.zeros(2)}})
    own = {REPLACES: 1, LEFT: [], COLUMNS: 1, "before": "", "older": []}
    when = "2026-11-28T10:00:00Z"
    store.write(2, b"r" * 16, state, VersionFacts("training", when, own=own))
    store.write(3, b"r" * 16, state, VersionFacts("requests", when, 2, ("01ARZ",), "fine-tune"))
    store.write(4, b"s" * 16, state, VersionFacts("training", when, 3))
    found = newest_replacement(store)
    assert found is not None
    assert (found["number"], found[COLUMNS]) == (2, 1)
    store.write(5, b"t" * 16, state, VersionFacts("training", when))
    assert newest_replacement(store) is None


def test_columns_of_two_parties_have_one_receipt(
    trio: KeptTrio, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of them is the active party."""
    drop(trio, monkeypatch, hub="x", right="y z")
    trio.policies = {"left": "roles"}  # but no person decides about columns that left
    trio.carry_out()
    assert receipts(trio).columns_left == {"hub": 1, "right": 2}
    assert len(views(trio)) == 2


def test_a_party_and_columns_leave_with_one_training(
    trio: KeptTrio, monkeypatch: pytest.MonkeyPatch
) -> None:
    parties = {name: each for name, each in trio.plan["parties"].items() if name != "right"}
    trio.plan = {**trio.plan, "parties": parties}
    drop(trio, monkeypatch, left="z")
    trio.carry_out()
    assert receipts(trio).columns_left == {"left": 1}
    with closing(trio.desk("left")) as desk:
        departures = [each for each in desk.requests() if each.content.kind == "party"]
        ordered = [
            event.request for event in desk.journal.events() if event.kind is EventKind.COMPLETED
        ]
    (departure,) = departures
    assert departure.state is RequestState.CERTIFIED
    found = {each: checked(trio, "left", each).receipt for each in ordered}
    first, second = (found[each] for each in ordered)
    assert first is not None
    assert second is not None
    assert second.prev_receipt_hash == first.digest
    train(trio)


def test_new_weights_with_the_same_columns_need_no_receipt(
    trio: KeptTrio, monkeypatch: pytest.MonkeyPatch
) -> None:
    drop(trio, monkeypatch)
    trio.carry_out()
    assert views(trio) == []
    train(trio)


def test_the_owner_trains_only_after_the_receipt(
    trio: KeptTrio, monkeypatch: pytest.MonkeyPatch
) -> None:
    drop(trio, monkeypatch, left="y z")
    with pytest.raises(PolicyError, match="first one without 2 columns of left, and the receipt"):
        train(trio)
    trio.carry_out()
    train(trio)
    trio.carry_out()
    assert len(views(trio)) == 1  # columns leave once


@pytest.mark.slow
@pytest.mark.parametrize("events", [2, 8, 12])
def test_a_crash_of_the_active_party_changes_nothing(without_z: KeptTrio, events: int) -> None:
    """After some messages of the first session that follows the training."""
    without_z.carry_out(crash=events)
    without_z.carry_out()
    (view,) = views(without_z)
    assert view.state is RequestState.CERTIFIED
    assert (receipts(without_z).version_before, len(receipts(without_z).requests)) == (1, 1)


def test_a_start_finds_the_request_of_a_crashed_one(
    trio: KeptTrio, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The owner and the active party crash after each of their own events."""
    drop(trio, monkeypatch, hub="x", left="z")
    for name in ("left", "left", "hub", "hub"):
        us = trio.party(name)
        with closing(trio.desk(name)) as desk:
            request_columns(us, party_models(us), desk)
    hub = trio.party("hub")
    with closing(trio.desk("hub")) as desk:
        assert not Departures(hub, party_models(hub), desk).record()
    first = {each.id for name in ("hub", "left") for each in views(trio, name)}
    assert len(first) == 2
    trio.carry_out()
    assert {each.id for each in views(trio)} == first
    again = trio.party("left", serves=False, replays=min(first))
    with (
        closing(trio.desk("left")) as desk,
        pytest.raises(PolicyError, match=r"says that columns of (hub|left) left: it was carried"),
    ):
        plan_replay(again, desk)


def test_other_requests_wait_and_follow(without_z: KeptTrio) -> None:
    """A batch would erase the version of the columns' receipt."""
    made = newest(without_z)
    asked = without_z.request("right", list(kept_rows(without_z.models()["right"]).values())[:2])
    without_z.carry_out()
    assert receipts(without_z).version_after == made
    view = without_z.view("left", asked)
    assert (view.state, view.version_before) == (RequestState.CERTIFIED, made)
    train(without_z)


def test_a_later_version_keeps_what_proves_that_columns_left(
    without_z: KeptTrio, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if a batch had started first: the version of the columns' receipt is erased."""
    made = newest(without_z)
    without_z.request("left", list(kept_rows(without_z.models()["left"]).values())[:2])
    with monkeypatch.context() as patched:
        patched.setattr(Departures, "record", lambda _: True)
        without_z.carry_out()
    assert min(each.number for each in without_z.models()["right"].files()) > made
    without_z.carry_out()
    assert receipts(without_z).version_after == made
    train(without_z)


def test_no_party_approves_columns_of_a_version_that_used_the_one_before(trio: KeptTrio) -> None:
    """The training went on from the parameters, which depend on all columns."""
    train(trio)
    trio.request("left", kind="columns", columns=1, version=newest(trio), subjects_root=None)
    trio.carry_out()
    (view,) = views(trio, "right")
    assert view.state is RequestState.REJECTED
    assert "used no parameter of an earlier version" in view.reason


def test_two_requests_about_columns_of_one_party_are_not_signed_together(
    without_z: KeptTrio,
) -> None:
    """A dishonest active party starts both in one batch."""
    number = newest(without_z)
    content = {"kind": "columns", "version": number, "rows": (), "subjects_root": None}
    batch = tuple(without_z.request("left", columns=each, **content) for each in (1, 2))
    with ExitStack() as stack:
        desks = {name: stack.enter_context(closing(without_z.desk(name))) for name in PARTIES}
        meet(desks)
        for request in batch:
            started = StartedBody(batch=batch, version=number - 1, method=COLUMNS_METHOD)
            desks["hub"].append(EventKind.STARTED, request, started)
            verified = VerifiedBody(version=number, guarantee="exact")
            desks["hub"].append(EventKind.VERIFIED, request, verified)
            for name in PARTIES:
                stated = StatedBody(
                    version=number, before=NO_MODEL, after=NO_MODEL, destroyed=(), remains=(),
                    transcript=NO_MODEL, profile={},
                )  # fmt: skip
                desks[name].append(EventKind.STATED, request, stated)
        right, hub = desks["right"], desks["hub"].journal
        right.merge(desks["left"].journal.since(right.journal.counts()), {}, attends=False)
        with pytest.raises(IntegrityError, match="several requests about columns of left"):
            right.merge(hub.since(right.journal.counts()), hub.counts())
        signed = [each.kind for each in right.journal.events() if each.origin == "right"]
    assert EventKind.SIGNED not in signed


def meet(desks: Mapping[str, RequestDesk]) -> None:
    """Let all desks exchange events with the hub, until each has approved what it knows."""
    hub = desks["hub"]
    for _ in range(3):
        for name in ("left", "right"):
            theirs = desks[name]
            hub.merge(theirs.journal.since(hub.journal.counts()), theirs.journal.counts())
            theirs.merge(hub.journal.since(theirs.journal.counts()), hub.journal.counts())


def test_a_lost_receipt_is_written_again_from_the_journal(without_z: KeptTrio) -> None:
    without_z.carry_out()
    (view,) = views(without_z)
    path = folder_of(without_z, "right") / f"{view.id}.json"
    content = path.read_bytes()
    path.unlink()
    us = without_z.party("right")
    with local_desk_of(us, open_desk(us, us.agreement), POLICY):
        assert path.read_bytes() == content
    path.unlink()
    without_z.plan = {**without_z.plan, "training": TRAINING}  # another agreement
    us = without_z.party("right")
    with local_desk_of(us, open_desk(us, us.agreement), POLICY) as local:
        assert local.desk.lacks_receipt(view)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_columns_of_a_process_leave_in_spite_of_kills(tmp_path: Path) -> None:
    whole, out = write_trio(tmp_path), tmp_path / "out"
    whole.train(out)
    fewer = whole.changed(
        'settings.left.data.numeric=["x", "y"]', "training.continued.new_weights=true"
    )
    fewer.train(out, more=["--from", "newest"])
    shutil.copytree(out, tmp_path / "trained")
    for name, kill_at in (("left", 3), ("left", 12), ("hub", 12), ("hub", 24), ("right", 20)):
        shutil.rmtree(out)
        shutil.copytree(tmp_path / "trained", out)
        watches = {name: Watch(tmp_path / f"{name}-{kill_at}.log", kill_at)}
        with fewer.serve(out, watches) as service:
            service.running[name].join(120)
            assert service.running[name].exitcode == -9
            service.start(name)
            fewer.wait_certified(service, '"kind":"columns"')
        found = fewer.receipts(out, '"kind":"columns"')
        assert len({path.read_bytes() for path in found.values()}) == 1
        with fewer.desk("right", out) as desk:
            (view,) = [each for each in desk.requests() if each.content.kind == "columns"]
        assert (view.origin, view.starts, view.content.columns) == ("left", 1, 1)
        path = found["hub"]
        checked = verify(path.read_bytes(), read_trust(path.with_name(TRUST).read_bytes()))
        assert checked.findings == []
