"""A request while a passive party is absent: a fallback model, and the same version afterwards."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from shutil import copytree, rmtree
from time import monotonic, sleep
from typing import Any

import numpy as np
import pytest
from absence import live_through_absence
from kept_trio import SECONDS, KeptTrio, NoPredictions, train_trio
from request_federation import write_trio
from three_parties import agreement, party

from configs.errors import ConfigError
from parties.requests.events import DecisionBody, EventKind
from parties.requests.lifecycle import RequestState, RequestView
from parties.requests.receipts import read_receipt
from parties.session.checkpoint import CheckpointContent
from parties.session.memory_port import MemoryPort
from parties.vertical.engine.party import VerticalParty
from parties.vertical.engine.split_model import SplitModel
from parties.vertical.kept_model import kept_ids, state_digest
from parties.vertical.methods.fallback import fit_fallback_top, kept_embeddings
from parties.vertical.service import fallback
from parties.vertical.service.active import serve_active
from parties.vertical.service.desk import open_desk
from parties.vertical.service.fallback import FallbackModel
from parties.vertical.service.passive import serve_passive
from parties.web.kept_model_queue import KeptModelPredictions
from protocol.hub import Hub
from protocol.line import Line

PLAN = {"requests": {"absent": "fallback"}}


class Serving:
    """Parties that serve in threads, and the active party's predictions."""

    def __init__(self, trio: KeptTrio, pool: ThreadPoolExecutor) -> None:
        self._trio, self._pool, self._port = trio, pool, MemoryPort()
        self._desks = {name: trio.desk(name) for name in trio.names}
        self.runs: list[Future[None]] = []
        self.lines: dict[str, Line] = {}  # the newest line of each passive party
        self.predictions = KeptModelPredictions(trio.party("hub"))

    def start(self, *names: str) -> None:
        """Let parties serve until nothing is left to do."""
        for name in names:
            self.runs.append(self._pool.submit(self._serve, self._trio.party(name)))

    def view(self, name: str, request: str) -> RequestView | None:
        """A request as one party sees it; None if the party does not know it."""
        views = self._desks[name].requests()
        return next((each for each in views if each.id == request), None)

    def withheld(self, ids: Sequence[bytes]) -> list[int] | None:
        """The rows without a prediction; None if nobody predicts."""
        if not self.predictions.health()["fallback"]:
            return None
        return np.flatnonzero(np.isnan(self.predictions.answer(ids)[0]).any(axis=1)).tolist()

    def close(self) -> None:
        """Wait until all parties have ended."""
        for run in self.runs:
            run.result(SECONDS)
        for desk in self._desks.values():
            desk.close()

    def _serve(self, us: VerticalParty) -> None:
        with closing(open_desk(us, us.agreement)) as desk:
            if us.name == "hub":
                serve_active(us, self._port, desk, self.predictions, once=True)
            else:
                serve_passive(us, lambda: self._connect(us.name), desk, once=True)

    def _connect(self, name: str) -> Line:
        self.lines[name] = self._port.connect(name)
        return self.lines[name]


@contextmanager
def serving(trio: KeptTrio) -> Iterator[Serving]:
    pool = ThreadPoolExecutor(3)
    try:
        found = Serving(trio, pool)
        yield found
        found.close()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def wait_for(parties: Serving, holds: Callable[[], Any], what: str) -> None:
    end = monotonic() + 30
    while not holds():
        for each in parties.runs:
            if each.done():
                each.result()
        assert monotonic() < end, what
        sleep(0.1)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fallback, "PATIENCE", 0.0)


def training_rows(trio: KeptTrio) -> list[int]:
    """Common indices of the training rows."""
    return newest(trio).tensors["rows"]["train"].tolist()


def newest(trio: KeptTrio) -> CheckpointContent:
    """What the active party's newest version contains."""
    store = trio.models()["hub"]
    return store.read(store.newest_version().number)


def digests(trio: KeptTrio) -> dict[str, str]:
    """The digest of each party's part of the newest version."""
    return {
        name: each.newest_version().version.own["after"] for name, each in trio.models().items()
    }


def test_absent_party_completes_its_part_when_it_returns(tmp_path: Path) -> None:
    (tmp_path / "absent").mkdir()
    trio = train_trio(tmp_path / "absent", **PLAN)
    copytree(tmp_path / "absent", tmp_path / "present")
    present = KeptTrio(tmp_path / "present", trio.plan)
    rows = training_rows(trio)[:20]
    ids = kept_ids(trio.models()["hub"], 1)
    request = trio.request("left", rows)
    with serving(trio) as parties:
        parties.start("hub", "left")
        wait_for(parties, lambda: parties.withheld(ids) == rows, "no fallback model")
        predicted, by_fallback = parties.predictions.answer(ids)
        health, view = parties.predictions.health(), parties.view("hub", request)
        parties.start("right")
    assert by_fallback
    assert np.flatnonzero(np.isnan(predicted).any(axis=1)).tolist() == rows
    assert health["fallback"]
    assert health["parties"] == {"hub": "here", "left": "here", "right": "absent"}
    # Another party may have later events of a journal that was restored from a backup.
    assert view is not None
    assert view.journaled == {"left"}
    view = trio.view("right", request)
    assert view.state is RequestState.CERTIFIED
    assert view.fallback is not None
    assert view.fallback.absent == ("right",)

    present.request("left", rows)
    present.carry_out()
    assert digests(present) == digests(trio)
    for each in trio.models().values():
        assert len(each.files()) == 1
    kept = newest(trio).tensors["embeddings"]["fallback"]
    assert not kept[rows].any()
    assert kept.any(dim=1).sum() == len(kept) - len(rows)
    receipt = read_receipt(trio.folder / "runs" / "trio" / "hub" / "receipts" / f"{request}.json")
    destroyed = {item.id for each in receipt.statements for item in each.artefacts_destroyed}
    assert "fallback-model-in-memory" in destroyed


def test_without_callers_no_fallback_is_fitted_but_requests_are_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trio = train_trio(tmp_path, **PLAN)
    monkeypatch.setattr(FallbackModel, "_fit", None)  # fails if it is called
    request = trio.request("left", training_rows(trio)[:20])
    with serving(trio) as parties:
        parties.predictions.asked = False
        parties.start("hub", "left")
        wait_for(parties, lambda: parties.view("hub", request), "the request did not arrive")
        sleep(1.0)
        parties.start("right")
    view = trio.view("right", request)
    assert view.state is RequestState.CERTIFIED
    assert view.fallback is None


def test_party_that_waits_may_be_lost_and_return(tmp_path: Path) -> None:
    trio = train_trio(tmp_path, **PLAN)
    rows, ids = training_rows(trio)[:5], kept_ids(trio.models()["hub"], 1)
    with serving(trio) as parties:
        parties.start("hub", "left")
        wait_for(parties, lambda: parties.predictions.health()["ready"], "no fallback model")
        parties.lines["left"].close()
        request = trio.request("left", rows)
        wait_for(parties, lambda: parties.withheld(ids) == rows, "left did not return")
        parties.start("right")
    assert trio.view("hub", request).state is RequestState.CERTIFIED


def test_fallback_model_does_not_depend_on_labels_of_requested_rows(tmp_path: Path) -> None:
    trio = train_trio(tmp_path, **PLAN)
    store, rows = trio.models()["hub"], np.array(training_rows(trio)[:20])
    found = []
    for changed in (rows[:0], rows):
        run = store.offer().run
        model = SplitModel.resume(trio.party("hub"), Hub({}), store, 1, run)
        model.forget(rows)
        model.labels[changed] = 1 - model.labels[changed]
        embeddings = kept_embeddings(model)
        assert embeddings is not None
        fit_fallback_top(model, embeddings)
        found.append(state_digest(model.state))
    assert found[0] == found[1]


def test_journal_gets_events_only_from_a_process_that_was_in_a_session(tmp_path: Path) -> None:
    """Before, another party may have later events of this party, whose journal was restored."""
    trio = train_trio(tmp_path, **PLAN)
    request = trio.request("hub", training_rows(trio)[:5])
    hub = trio.party("hub")
    with closing(open_desk(hub, hub.agreement)) as desk:
        model, before = FallbackModel(hub, desk, NoPredictions()), desk.journal.counts()
        model.attend({})
        assert model.renew()
        assert desk.journal.counts() == before
        model.synchronised()
        found = desk.request(request).fallback
        assert found is not None
        assert found.absent == ("left", "right")


def test_crash_while_embeddings_of_the_fallback_are_renewed(tmp_path: Path) -> None:
    """The saved and the kept model after the crash are those of a training without it."""
    found = []
    for name, crashes in (("quiet", False), ("crashed", True)):
        (tmp_path / name).mkdir()
        trio = train_trio(tmp_path / name, limits={"checkpoint_seconds": 0.0}, **PLAN)
        if crashes:
            rmtree(trio.folder / "runs")
            assert trio.train(crash=("hub", trio.messages - 40)) == {}
            trio.train()
        saved = trio.folder / "runs" / "trio" / "hub" / "model.safetensors"
        found.append((digests(trio), saved.read_bytes()))
    assert found[0] == found[1]


def test_kept_embeddings_are_those_of_the_fallback(tmp_path: Path) -> None:
    local = {"codes": "fixed", "keep_embeddings": True}
    training = {"start": "local", "local": local, "batch": 16, "learning_rate": 0.01, "epochs": 2}
    unlearning = {"method": "retrain-local", "retrain_local": {"codes": "fixed"}}
    plan = {"training": training, "unlearning": unlearning, "preprocessing": "declared"}
    trio = train_trio(tmp_path, **plan, **PLAN)
    trio.request("hub", training_rows(trio)[:5])
    hub = trio.party("hub")
    with closing(open_desk(hub, hub.agreement)) as desk:
        model = FallbackModel(hub, desk, NoPredictions())
        assert model.renew()
        found = model.probabilities(kept_ids(trio.models()["hub"], 1))
    assert np.isnan(found).any(axis=1).sum() == 5


def test_request_for_all_training_rows_leaves_no_fallback_model(tmp_path: Path) -> None:
    trio = train_trio(tmp_path, **PLAN)
    hub = trio.party("hub")
    with closing(open_desk(hub, hub.agreement)) as desk:
        queue = KeptModelPredictions(hub)
        model = FallbackModel(hub, desk, queue)
        model.attend({})
        assert queue.health()["ready"]
        trio.request("hub", training_rows(trio))
        sleep(fallback.PERIOD)
        model.attend({})
        assert not queue.health()["ready"]


def test_fallback_model_stands_for_the_version_while_its_request_is_open(tmp_path: Path) -> None:
    trio = train_trio(tmp_path, **PLAN)
    request = trio.request("hub", training_rows(trio)[:5])
    hub = trio.party("hub")
    with closing(open_desk(hub, hub.agreement)) as desk:
        model = FallbackModel(hub, desk, NoPredictions())
        assert not model.stands_for(1)
        assert model.renew()
        assert model.stands_for(1)
        desk.append(EventKind.WITHDRAWN, request, DecisionBody())
        assert not model.stands_for(1)


def test_requests_by_label_are_left_out_before_they_are_aligned(tmp_path: Path) -> None:
    trio = train_trio(tmp_path, **PLAN)
    content = {"kind": "labels_part", "rows": None, "classes": ("b",), "fraction": "0.5"}
    trio.request("hub", **content)
    hub = trio.party("hub")
    ids = kept_ids(trio.models()["hub"], 1)
    with closing(open_desk(hub, hub.agreement)) as desk:
        model = FallbackModel(hub, desk, NoPredictions())
        model.renew()
        withheld = np.isnan(model.probabilities(ids)).any(axis=1)
    labels = newest(trio).tensors["labels"]["labels"].numpy()
    assert set(labels[withheld].tolist()) == {hub.agreement.labels.classes.index("b")}


def test_version_without_embeddings_has_no_fallback_model(tmp_path: Path) -> None:
    trio = train_trio(tmp_path)
    trio.plan = {**trio.plan, **PLAN}
    hub = trio.party("hub")
    with closing(open_desk(hub, hub.agreement)) as desk:
        assert not FallbackModel(hub, desk, NoPredictions()).renew()


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        (
            {"privacy": {"embed_once": {"clip": 1.0, "noise_multiplier": 1.0, "delta": 1e-5}}},
            "bottom models that a party may fit alone",
        ),
        ({"requests": {"absent": "fallback", "keep": "nothing"}}, "requests.keep = 'model'"),
        (
            {
                "sharding": {"shards": 2},
                "unlearning": {"method": "sharded", "compare": (), "retrains": 0},
            },
            "sharding.shards",
        ),
    ],
)
def test_agreements_without_a_fallback_model_are_refused(
    tmp_path: Path, changes: dict[str, Any], word: str
) -> None:
    with pytest.raises(ConfigError, match=word):
        party(tmp_path, "hub", agreement(**{**PLAN, **changes}), [])


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_processes_predict_without_the_rows_while_one_is_down(tmp_path: Path) -> None:
    federation = write_trio(tmp_path / "trio").changed('requests.absent="fallback"')
    found = live_through_absence(federation, "right", share=0.1)
    assert found.answered == 0
    assert found.equal
    assert 0 < found.leak_during < 1
    assert 0 < found.leak_after < 1
