"""Replays of requests: the same model again, from the version before or from the new one."""

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from kept_trio import SECONDS, KeptTrio, train_trio
from three_parties import PARTIES

from parties.common.errors import IntegrityError, PolicyError, StorageError
from parties.requests.events import EventKind
from parties.session.memory_port import MemoryPort
from parties.vertical.service.desk import open_desk
from parties.vertical.service.replay import (
    ReplayResult,
    plan_replay,
    replay_active,
    replay_passive,
)
from unlearning.receipts.receipt import AUDIT_LIMITS, AuditLevel, Receipt, decode_receipt

WINDOW = {"replay_days": 7}
FEDORA = {
    "method": "fedora",
    "fedora": {"iterations": 4, "check_every": 2, "reference_epochs": 1},
    "compare": ("fine-tune", "relabel"),
    "retrains": 3,
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> KeptTrio:
    """Three parties that keep old versions for a week; tests work on copies."""
    folder = tmp_path_factory.mktemp("trained")
    return train_trio(folder, unlearning=FEDORA, requests=WINDOW | {"guard": 1.0})


@pytest.fixture
def trio(trained: KeptTrio, tmp_path: Path) -> KeptTrio:
    """A copy of the trained parties."""
    folder = tmp_path / "trio"
    shutil.copytree(trained.folder, folder)
    return KeptTrio(folder, trained.plan)


def replay(trio: KeptTrio, request: str, *, compares: bool = False) -> dict[str, ReplayResult]:
    """Replay a request at all parties."""
    port = MemoryPort()
    plans = {}
    for name in PARTIES:
        us = trio.party(name, serves=False, replays=request)
        with closing(open_desk(us, us.agreement)) as desk:
            plans[name] = plan_replay(us, desk)
    with ThreadPoolExecutor(3) as pool:
        runs = {"hub": pool.submit(replay_active, plans["hub"], port, compares=compares)}
        for name in ("left", "right"):
            connect = lambda name=name: port.connect(name)  # noqa: E731
            runs[name] = pool.submit(replay_passive, plans[name], connect)
        return {name: each.result(SECONDS) for name, each in runs.items()}


def receipt_of(trio: KeptTrio, request: str) -> Receipt:
    """The receipt of a request."""
    path = trio.folder / "runs" / "trio" / "hub" / "receipts" / f"{request}.json"
    return decode_receipt(path.read_bytes())


def contents(trio: KeptTrio) -> dict[Path, bytes]:
    """All files of kept models and saved models."""
    runs = trio.folder / "runs"
    return {
        path: path.read_bytes()
        for pattern in ("**/*.sealed", "**/model.safetensors", "**/keys.json")
        for path in runs.glob(pattern)
    }


def test_replay_from_the_version_before_makes_the_same_model(trio: KeptTrio) -> None:
    request = trio.request("left", [3, 5, 8, 21])
    trio.carry_out()
    before = contents(trio)
    results = replay(trio, request)
    assert results["hub"].equal == dict.fromkeys(PARTIES, True)
    assert all(all(each.equal.values()) for each in results.values())
    assert contents(trio) == before  # nothing is stored, and nothing is erased


def test_receipt_says_until_when_the_version_before_is_kept(trio: KeptTrio) -> None:
    request = trio.request("left", [3])
    trio.carry_out()
    until = (trio.party("hub").now() + timedelta(days=7)).date().isoformat()
    for statement in receipt_of(trio, request).statements:
        (kept,) = [each for each in statement.artefacts_retained if each.id.startswith("model-")]
        assert (kept.until, kept.reason.value) == (until, "replay-window")
        assert kept.id not in [each.id for each in statement.artefacts_destroyed]
    later = trio.request("right", [7])
    trio.carry_out()
    for statement in receipt_of(trio, later).statements:
        kept_now = [e.id for e in statement.artefacts_retained if e.id.startswith("model-")]
        assert len(kept_now) == 2  # both versions before know the row of the later request


def test_version_before_is_erased_when_its_days_are_over(
    trio: KeptTrio, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = trio.request("left", [3])
    trio.carry_out()
    kept = [each.id for each in receipt_of(trio, request).statements[0].artefacts_retained][-3]
    original = KeptTrio.party

    def later(self: KeptTrio, name: str, **options: Any) -> Any:
        found = original(self, name, **options)
        return replace(found, now=lambda: found.now() + timedelta(days=8))

    monkeypatch.setattr(KeptTrio, "party", later)
    trio.carry_out()
    for name in PARTIES:
        (left,) = trio.models()[name].files()
        assert kept.startswith("model-")
        assert f"model-{left.number}" != kept
        with closing(trio.desk(name)) as desk:
            erased = [each for each in desk.journal.events() if each.kind is EventKind.ERASED]
        assert {each.origin for each in erased} >= {name}
    with pytest.raises(PolicyError, match="keeps no version from which"):
        replay(trio, request)


def test_replay_tells_the_party_whose_receipt_does_not_fit(trio: KeptTrio) -> None:
    request = trio.request("left", [3, 5])
    trio.carry_out()
    folder = trio.folder / "runs" / "trio"
    for name in PARTIES:  # as if another model had been stated at one party
        path = folder / name / "receipts" / f"{request}.json"
        content = json.loads(path.read_text())
        (of_left,) = [each for each in content["statements"] if each["party"] == "left"]
        of_left["model_after"] = "0" * 64
        path.write_bytes(json.dumps(content, sort_keys=True, separators=(",", ":")).encode())
    results = replay(trio, request)
    assert results["hub"].equal == {"hub": True, "left": False, "right": True}
    assert results["left"].equal == {"left": False}


def test_replay_can_compare_with_retrains(trio: KeptTrio) -> None:
    request = trio.request("left", range(0, 40, 2))
    trio.carry_out()
    result = replay(trio, request, compares=True)["hub"]
    assert all(result.equal.values())
    assert result.page is not None
    (measured,) = json.loads(result.page.with_name("metrics.json").read_text())["requests"]
    names = [each["name"] for each in measured["methods"]]
    methods, retrains = names[:4], names[4:]
    assert methods == ["original", "fedora", "fine-tune", "relabel"]
    assert retrains == ["retrain", "retrain-2", "retrain-3", "retrain-paired"]


@pytest.mark.parametrize("method", ["retrain-local", "retrain-paired", "short-retrain"])
def test_fresh_method_is_replayed_from_its_own_version(tmp_path: Path, method: str) -> None:
    trio = train_trio(
        tmp_path, unlearning={"method": method, "compare": ("fine-tune", "relabel"), "retrains": 2},
        requests={"guard": 1.0},
    )  # fmt: skip
    request = trio.request("left", [3, 5, 8, 21])
    trio.carry_out()
    assert all(len(each.files()) == 1 for each in trio.models().values())
    assert replay(trio, request)["hub"].equal == dict.fromkeys(PARTIES, True)
    with pytest.raises(PolicyError, match="a comparison needs version"):
        replay(trio, request, compares=True)


def test_replay_needs_the_agreement_of_the_request(trio: KeptTrio) -> None:
    request = trio.request("left", [3])
    trio.carry_out()
    trio.plan["requests"] = WINDOW | {"guard": 0.5}
    with pytest.raises(PolicyError, match="the agreement is not the one"):
        replay(trio, request)


def test_replay_needs_a_request_with_a_receipt(trio: KeptTrio) -> None:
    with pytest.raises(StorageError, match="is unknown at hub"):
        replay(trio, "0" * 26)
    request = trio.request("left", [3])
    with pytest.raises(StorageError, match=r"the request \w+ is unknown at hub"):
        replay(trio, request)
    us = trio.party("left", serves=False, replays=request)
    with (
        closing(open_desk(us, us.agreement)) as desk,
        pytest.raises(StorageError, match="no receipt to replay"),
    ):
        plan_replay(us, desk)


def test_damaged_receipt_is_named(trio: KeptTrio) -> None:
    request = trio.request("left", [3])
    trio.carry_out()
    for name in PARTIES:
        path = trio.folder / "runs" / "trio" / name / "receipts" / f"{request}.json"
        path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(IntegrityError, match=rf"{request}\.json is not valid"):
        replay(trio, request)


def test_full_audit_compares_with_retrains_before_the_rows_are_erased(tmp_path: Path) -> None:
    requests = {"guard": 1.0, "audit": "full"}
    trio = train_trio(tmp_path, unlearning=FEDORA, requests=requests)
    request = trio.request("left", range(0, 40, 2))
    trio.carry_out()
    audit = receipt_of(trio, request).audit
    assert audit.level is AuditLevel.FULL
    assert audit.cannot_say == AUDIT_LIMITS[AuditLevel.FULL]
    found = {each.metric: each for each in audit.results}
    assert found["loss-of-test-accuracy-against-retrains"].n == 3
    assert "distance-from-retrains-on-forgotten-rows" in found
    page = trio.folder / "runs" / "trio" / "hub" / "comparisons" / request / "report.html"
    assert "Retrain" in page.read_text()
