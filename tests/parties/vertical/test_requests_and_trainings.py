"""Requests around trainings: rows with other numbers, rows that are left, readmitted persons."""

import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import kept_trio
import numpy as np
import pytest
from crash import Crash
from kept_trio import KeptTrio, train_trio
from prediction_parties import predict_rows

from parties.cli.requests.asking import Asked, SubmittedRequest, submit_request
from parties.common.errors import PolicyError
from parties.requests.duties import MOVED, RequestDesk
from parties.requests.events import Event, EventBody, EventKind
from parties.requests.lifecycle import RequestState
from parties.requests.persons import RequestPolicy
from parties.requests.subjects import ForgottenList, SubjectStore
from parties.vertical.alignment.psi_input import PSI
from parties.vertical.kept_model import kept_ids, party_models
from parties.vertical.offline.local_desk import VerticalDesk
from parties.vertical.offline.rollback import roll_back
from parties.vertical.resume import CHECKPOINTS
from parties.vertical.service.active import LEAST_ROWS
from unlearning.receipts.keys import read_trust
from unlearning.receipts.verify import verify

FAST: dict[str, Any] = {
    "unlearning": {"method": "retrain-local", "retrains": 0, "compare": ()},
    "requests": {"guard": 1.0},
}
ASKED = Asked(
    ids=None, identities=(), label=None, fraction="1", seed=0, encoding="utf-8",
    ground="gdpr-17-1-b", received=None, identity_check="", requester="", requested_by="subject",
    key=None,
)  # fmt: skip


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> KeptTrio:
    """Three parties that have trained; tests work on copies."""
    return train_trio(tmp_path_factory.mktemp("trained"), **FAST)


@pytest.fixture
def trio(trained: KeptTrio, tmp_path: Path) -> KeptTrio:
    """A copy of the three parties."""
    shutil.copytree(trained.folder, tmp_path / "trio")
    return KeptTrio(tmp_path / "trio", trained.plan)


@contextmanager
def local_desk(trio: KeptTrio, name: str) -> Iterator[VerticalDesk]:
    """The open desk of one party, as its commands have it."""
    us = trio.party(name)
    with closing(trio.desk(name)) as desk:
        desk.attend()
        store = SubjectStore(desk.journal, us.keys)
        forgotten = ForgottenList(desk.journal.database, us.keys)
        yield VerticalDesk(us, desk, RequestPolicy(True, ()), store, forgotten)


def ask(trio: KeptTrio, name: str, ids: Sequence[str]) -> SubmittedRequest:
    """Request at a party that rows are forgotten."""
    with local_desk(trio, name) as local:
        return submit_request(local, Asked(**{**as_options(), "identities": tuple(ids)}))


def as_options() -> dict[str, Any]:
    return {name: getattr(ASKED, name) for name in ASKED.__dataclass_fields__}


def known_ids(trio: KeptTrio, name: str = "left") -> list[str]:
    """The IDs in the present model of a party, by common index; empty for erased rows."""
    store = party_models(trio.party(name))
    newest = store.newest_version()
    assert newest is not None
    return [each.decode() for each in kept_ids(store, newest.number)]


def add_rows(trio: KeptTrio, count: int = 60) -> None:
    """Add new customers to the tables of all parties."""
    random = np.random.default_rng(9)
    for name in trio.names:
        lines = [
            f"q{at},"
            + ",".join(f"{value:.6f}" for value in random.normal(size=3))
            + (",a" if name == "hub" else "")
            for at in range(count)
        ]
        with (trio.folder / f"{name}.csv").open("a") as file:
            file.write("\n".join(lines) + "\n")


def receipt_of(trio: KeptTrio, request: str) -> dict[str, Any]:
    path = trio.party("hub").state / "receipts" / f"{request}.json"
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def test_a_request_during_a_training_forgets_nobody_else(
    trio: KeptTrio, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The training gives the rows other numbers, so the request is withdrawn, and made again."""
    add_rows(trio)
    person, run_active = known_ids(trio)[100], kept_trio.run_active
    made: list[SubmittedRequest] = []

    def train_meanwhile(*given: Any) -> Any:
        made.append(ask(trio, "left", [person]))
        return run_active(*given)

    with monkeypatch.context() as patch:
        patch.setattr(kept_trio, "run_active", train_meanwhile)
        trio.train()
    before = known_ids(trio)
    assert before[100] != person
    trio.carry_out()
    view = trio.view("left", str(made[0].request))
    assert (view.state, view.reason) == (RequestState.CANCELLED, MOVED)
    assert known_ids(trio) == before
    again = ask(trio, "left", [person])
    assert again.new
    trio.carry_out()
    assert [a for a, b in zip(before, known_ids(trio), strict=True) if a != b] == [person]


def test_no_rollback_to_a_version_that_numbers_the_rows_of_an_open_request_otherwise(
    trio: KeptTrio,
) -> None:
    add_rows(trio)
    trio.train()
    person = next(each for each in known_ids(trio) if each.startswith("q"))
    assert ask(trio, "left", [person]).request
    with local_desk(trio, "left") as local, pytest.raises(PolicyError, match="numbers its rows"):
        roll_back(local, 1)


def test_a_readmitted_person_is_forgotten_again(trio: KeptTrio) -> None:
    person = known_ids(trio)[3]
    first = ask(trio, "left", [person])
    trio.carry_out()
    for name in trio.names:
        with local_desk(trio, name) as local:
            local.forgotten.readmit(local.desk.journal, [person.encode()], "contract")
    trio.train()
    assert person in known_ids(trio)
    second = ask(trio, "left", [person])
    assert second.new
    assert second.request != first.request
    trio.carry_out()
    assert person not in known_ids(trio)


def test_a_request_that_leaves_too_few_rows_waits_and_blocks_no_other(trio: KeptTrio) -> None:
    store = party_models(trio.party("hub"))
    train = store.read(1).tensors["rows"]["train"].tolist()
    small = trio.request("right", train[:1])
    large = trio.request("left", train[LEAST_ROWS:])
    trio.carry_out()
    found = {name: trio.view("hub", name).state for name in (small, large)}
    assert found == {small: RequestState.CERTIFIED, large: RequestState.ALIGNED}


def test_a_request_that_waits_does_not_hide_a_correction(trio: KeptTrio) -> None:
    store = party_models(trio.party("hub"))
    train = store.read(1).tensors["rows"]["train"].tolist()
    large = trio.request("left", train[LEAST_ROWS - 1 :])
    correction = trio.request("hub", kind="correction")
    trio.carry_out()
    found = {name: trio.view("hub", name).state for name in (correction, large)}
    assert found == {correction: RequestState.CERTIFIED, large: RequestState.ALIGNED}


def test_a_request_for_a_row_beyond_the_model_is_rejected(trio: KeptTrio) -> None:
    rows = len(known_ids(trio))
    request = trio.request("left", [rows])
    trio.carry_out()
    view = trio.view("hub", request)
    assert view.state is RequestState.REJECTED
    assert f"the model has {rows} rows" in view.reason


def test_a_batch_starts_as_a_whole(trio: KeptTrio, monkeypatch: pytest.MonkeyPatch) -> None:
    requests = [trio.request("left", [3]), trio.request("right", [5])]
    append, starts = RequestDesk.append, list[str]()

    def dies(self: RequestDesk, kind: EventKind, request: str, body: EventBody) -> Event:
        if kind is EventKind.STARTED:
            starts.append(request)
            if len(starts) == 2:
                raise Crash
        return append(self, kind, request, body)

    with monkeypatch.context() as patch:
        patch.setattr(RequestDesk, "append", dies)
        trio.carry_out(crash=10**9)
    assert len(starts) == 2
    assert {trio.view("hub", each).starts for each in requests} == {0}
    trio.carry_out()
    assert {trio.view("hub", each).state for each in requests} == {RequestState.CERTIFIED}


def test_rows_that_were_removed_before_keep_the_weaker_guarantee(tmp_path: Path) -> None:
    """Two parties name one person, one after the other."""
    changes = {**FAST, "unlearning": {**FAST["unlearning"], "method": "fedora"}}
    trio = train_trio(tmp_path, **changes)
    for name in ("left", "hub"):
        request = trio.request(name, [100])
        trio.carry_out()
        assert receipt_of(trio, request)["guarantee"]["kind"] == "heuristic"


def test_validation_rows_that_chose_the_epoch_are_forgotten_heuristically(tmp_path: Path) -> None:
    training = {"learning_rate": 0.05, "batch": 16, "epochs": 6, "patience": 2}
    trio = train_trio(tmp_path, training=training, **FAST)
    rows = party_models(trio.party("hub")).read(1).tensors["rows"]["validation"].tolist()
    request = trio.request("left", rows[:3])
    trio.carry_out()
    assert receipt_of(trio, request)["guarantee"]["kind"] == "heuristic"


def test_a_request_erases_an_interrupted_training(trio: KeptTrio) -> None:
    add_rows(trio)
    assert trio.train(crash=("hub", 40)) == {}
    assert any((trio.party(each).state / CHECKPOINTS).is_dir() for each in trio.names)
    request = str(ask(trio, "left", [known_ids(trio)[3]]).request)
    trio.carry_out()
    for name in trio.names:
        state = trio.party(name).state
        assert not (state / CHECKPOINTS).exists()
        assert not (state / PSI).exists()
    destroyed = {
        item["id"]
        for each in receipt_of(trio, request)["statements"]
        for item in each["artefacts_destroyed"]
    }
    assert "unfinished-training" in destroyed


def test_an_earlier_receipt_verifies_after_a_party_has_a_new_key(trio: KeptTrio) -> None:
    first = trio.request("left", [3])
    trio.carry_out()
    trio.party("left").keys.destroy("signatures")
    second = trio.request("left", [7])
    trio.carry_out()
    folder = trio.party("hub").state / "receipts"
    trust = read_trust((folder / "trust.json").read_bytes())
    for request in (first, second):
        found = verify((folder / f"{request}.json").read_bytes(), trust)
        assert (found.exit_code, found.findings) == (0, [])


def test_rows_of_open_requests_are_not_predicted(trio: KeptTrio) -> None:
    person, other = known_ids(trio)[100:102]
    assert ask(trio, "left", [person]).request
    found = predict_rows(trio.folder, [person, other], trio.plan)
    assert list(found.held) == [False, True]


def test_predictions_need_no_keys_of_the_kept_model_without_requests(trio: KeptTrio) -> None:
    person = known_ids(trio)[100]
    for name in trio.names:
        (trio.party(name).state / "keys.json").write_text("damaged")
    assert list(predict_rows(trio.folder, [person], trio.plan).held) == [True]
