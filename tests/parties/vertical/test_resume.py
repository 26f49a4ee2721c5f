"""Resuming after a crash: at any moment of the crash, the run ends with the same result."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from crash import Crash, crash_after
from other_labels import LABELS, NUMBER, write_diabetes, write_multilabel
from row_weights import add_weights
from three_parties import LIMITS, PARTIES, agreement, certify, party, write_data
from whole_run import FEDORA, QUICK, TRAINING

from parties.session.memory_port import MemoryPort
from parties.vertical.active import run_active
from parties.vertical.engine.split_model import SplitModel
from parties.vertical.passive import run_passive
from protocol.errors import PeerSilent

REQUESTS = (
    {"name": "first", "classes": ["a"], "fraction": 0.5, "canaries": 5},
    {"name": "second", "classes": ["b"], "fraction": 0.4, "seed": 1},
)
CHANGES = {
    "training": {**TRAINING, "epochs": 2, "patience": 2},
    "unlearning": QUICK
    | {"compare": ("fine-tune", "relabel"), "fedora": FEDORA | {"iterations": 4}},
    "unlearn": REQUESTS,
}
MESSAGES = 670  # at least so many messages between the hub and each spoke


@dataclass
class RunResult:
    """The state at the end of a run."""

    files: dict[str, str]
    metrics: dict[str, Any] | None
    notes: list[str]


def run_parties(folder: Path, crash: tuple[str, int] | None = None, **changes: Any) -> RunResult:
    """Run all parties until they end; ``crash`` ends one of them at its n-th message."""
    plan, port = agreement(**{**CHANGES, **changes}), MemoryPort()
    events: list[Any] = []
    parties = {name: party(folder, name, plan, events) for name in PARTIES}
    if crash is not None:
        crash_after(parties[crash[0]], crash[1])
    recorded: list[dict[str, Any]] = []

    def run_party(name: str) -> None:
        try:
            if name == "hub":
                run_active(parties[name], port, recorded.append)
            else:
                run_passive(parties[name], lambda: port.connect(name))
        except (Crash, Exception):
            if crash is None:
                raise

    with ThreadPoolExecutor(3) as pool:
        for each in [pool.submit(run_party, name) for name in PARTIES]:
            each.result(200)
    notes = [event["text"] for event in events if event["event"] == "note"]
    return RunResult(digests(folder), recorded[-1] if recorded else None, notes)


def digests(folder: Path) -> dict[str, str]:
    """Digests of the final models and row maps of all parties."""
    files = sorted((folder / "runs" / "trio").glob("*/*.safetensors"))
    return {f"{f.parent.name}/{f.name}": sha256(f.read_bytes()).hexdigest() for f in files}


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> RunResult:
    folder = tmp_path_factory.mktemp("undisturbed")
    prepare(folder)
    result = run_parties(folder)
    assert len(result.files) == 6
    assert len(result.notes) == len(PARTIES)
    assert all("of the model is kept for requests to forget" in note for note in result.notes)
    return result


def prepare(folder: Path) -> None:
    write_data(folder)
    certify(folder)


@pytest.mark.parametrize("name", PARTIES)
@pytest.mark.parametrize("message", range(30, MESSAGES, 170))
def test_resumed_run_equals_an_uninterrupted_run(
    tmp_path: Path, uninterrupted: RunResult, name: str, message: int
) -> None:
    prepare(tmp_path)
    run_parties(tmp_path, (name, 2 * message if name == "hub" else message))
    result = run_parties(tmp_path)
    assert any(note.startswith("resumed checkpoint") for note in result.notes)
    assert result.files == uninterrupted.files
    assert_equal_metrics(result.metrics, uninterrupted.metrics)


def assert_equal_metrics(metrics: Any, expected_metrics: Any) -> None:
    """Check equality except for values of a clock, of a new session and of the crash."""
    for part in ("training", "requests"):
        assert without_costs(metrics[part]) == without_costs(expected_metrics[part])


def without_costs(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_costs(each) for key, each in value.items() if key != "cost"}
    return [without_costs(each) for each in value] if isinstance(value, list) else value


def test_run_after_several_crashes_equals_an_uninterrupted_run(
    tmp_path: Path, uninterrupted: RunResult
) -> None:
    prepare(tmp_path)
    for crash in (("left", 60), ("hub", 130), ("right", 90), ("hub", 40), ("left", 101)):
        run_parties(tmp_path, crash)
    assert run_parties(tmp_path).files == uninterrupted.files


@pytest.mark.parametrize("kind", ["class", "sample"])
def test_resumed_run_with_weights_equals_an_uninterrupted_run(tmp_path: Path, kind: str) -> None:
    key: dict[str, Any] = {"class_weights": "balanced", "sample_weights": kind == "sample"}
    weighted = {"training": CHANGES["training"] | key}  # type: ignore[operator]
    folders = [tmp_path / name for name in ("whole", "crashed")]
    for folder in folders:
        folder.mkdir()
        prepare(folder)
        if kind == "sample":
            add_weights(folder)
    whole = run_parties(folders[0], **weighted)
    for crash in (("left", 60), ("hub", 500)):
        run_parties(folders[1], crash, **weighted)
    resumed = run_parties(folders[1], **weighted)
    assert any(note.startswith("resumed checkpoint") for note in resumed.notes)
    assert resumed.files == whole.files
    assert_equal_metrics(resumed.metrics, whole.metrics)


@pytest.mark.parametrize(
    ("labels", "write"),
    [(NUMBER, write_diabetes), (LABELS, write_multilabel)],
    ids=["number", "labels"],
)
def test_resumed_training_of_other_labels_equals_an_uninterrupted_one(
    tmp_path: Path, labels: dict[str, Any], write: Callable[[Path], None]
) -> None:
    changes = {
        "labels": labels,
        "unlearn": (),
        "unlearning": {"method": "retrain-local", "compare": (), "retrains": 0},
        "evaluation": {"importance": 2},
    }
    folders = [tmp_path / name for name in ("whole", "crashed")]
    for folder in folders:
        folder.mkdir()
        write(folder)
        certify(folder)
    whole = run_parties(folders[0], **changes)
    crashed = run_parties(folders[1], ("left", 60), **changes)
    assert (crashed.metrics or {})["failure"]
    resumed = run_parties(folders[1], **changes)
    assert any(note.startswith("resumed checkpoint") for note in resumed.notes)
    assert resumed.files == whole.files
    assert_equal_metrics(resumed.metrics, whole.metrics)
    models = [{**(each.metrics or {})["model"], "alone": None} for each in (whole, resumed)]
    assert models[0] == models[1]  # but for the seconds of the active party's own model
    assert models[0]["importance"]["figures"]


def test_repeated_connection_loss_ends_the_run_and_counts_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After three losses in a row without progress the run ends and names the lost party."""
    prepare(tmp_path)
    tries: list[int] = []

    def lost(split_model: SplitModel, *_: object) -> None:
        tries.append(split_model.party.traffic.total("Embedding").rows)
        raise PeerSilent("left: says nothing")

    monkeypatch.setattr("parties.vertical.evaluation.compare._read", lost)
    with pytest.raises(PeerSilent, match="left: says nothing"):
        run_parties(tmp_path, limits=LIMITS | {"rejoin_seconds": 5.0})
    assert 3 <= len(tries) <= 5
    assert len(set(tries)) == 1


AUDITED = {
    "unlearn": (
        {
            "name": "first",
            "classes": ["a"],
            "fraction": 0.5,
            "backdoor": {"party": "right", "target": "c", "columns": ["x", "y"]},
        },
    ),
    "training": {**TRAINING, "epochs": 1},
    "evaluation": {"shadows": 4, "relearn": {"max_steps": 4}, "permutations": 19},
}


@pytest.mark.parametrize(("name", "message"), [("right", 40), ("left", 330), ("hub", 840)])
def test_audits_after_a_crash_equal_uninterrupted_audits(
    tmp_path: Path, audited: RunResult, name: str, message: int
) -> None:
    prepare(tmp_path)
    run_parties(tmp_path, (name, message), **AUDITED)
    result = run_parties(tmp_path, **AUDITED)
    assert any(note.startswith("resumed checkpoint") for note in result.notes)
    assert result.files == audited.files
    assert_equal_metrics(result.metrics, audited.metrics)


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> RunResult:
    folder = tmp_path_factory.mktemp("audited")
    prepare(folder)
    return run_parties(folder, **AUDITED)
