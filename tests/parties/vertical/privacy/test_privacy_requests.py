"""Requests to forget with noise: a crash charges nothing, and no released value remains."""

from pathlib import Path
from typing import Any

import pytest
import test_resume
import three_parties
from crash import Crash
from kept_trio import KeptTrio, train_trio
from privacy_wire import released
from safetensors.torch import load_file

from parties.requests.lifecycle import RequestState
from parties.vertical.engine import split_model
from parties.vertical.engine.split_model import SplitModel
from parties.vertical.kept_model import party_models

# Each budget is enough for one release of a row.
PRIVACY = {
    "embed_once": {"noise_multiplier": 4.0, "budget": 2.0},
    "label_dp": {"epsilon": 3.0, "budget": 3.0},
}
QUICK = {"method": "fine-tune", "compare": (), "retrains": 0, "fine_tune": {"epochs": 1}}
FORGET = ({"name": "request", "classes": ["a"], "fraction": 0.5},)
NEVER = 10**9  # messages after which a party crashes
CACHES = (("left", "embeddings"), ("right", "embeddings"), ("hub", "labels"))


def write(folder: Path, rows: int = 240) -> None:
    three_parties.write_data(folder, rows)
    three_parties.public_statistics(folder)


def cached(folder: Path) -> list[int]:
    """The number of rows of which each party still stores released values."""
    counts = []
    for name, file in CACHES:
        content = (folder / "runs" / "trio" / name / "privacy" / file).read_bytes()
        path = folder / f"{name}.safetensors"
        path.write_bytes(content[32:])
        counts.append(len(load_file(path)["tags"]))
    return counts


def spent(folder: Path) -> list[int]:
    """The largest number of releases of a row of each party."""
    kinds = {"embeddings": "once", "labels": "response"}
    return [released(folder, name, kinds[file]) for name, file in CACHES]


def crash_now(*_: object, **__: object) -> None:
    raise Crash


@pytest.mark.parametrize("moment", ["keep_version", "erase_before"])
def test_crash_between_purge_and_erasure_charges_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """Before or after the version is written; with the budget the request could not go on."""
    plan: dict[str, Any] = {"unlearning": QUICK, "requests": {"guard": 1.0}}
    trio = train_trio(tmp_path, write=write, privacy=PRIVACY, **plan)
    before, store = cached(tmp_path), party_models(trio.party("left"))
    newest = store.newest_version()
    assert newest is not None
    rows = store.read(newest.number).tensors["rows"]["train"].numpy()[:6].tolist()
    request = trio.request("left", rows)
    with monkeypatch.context() as patch:
        patch.setattr(SplitModel, moment, crash_now)
        trio.carry_out(crash=NEVER)
    assert cached(tmp_path) == before
    KeptTrio(tmp_path, trio.plan).carry_out()
    assert trio.view("hub", request).state is RequestState.CERTIFIED
    assert spent(tmp_path) == [1, 1, 1]
    assert cached(tmp_path) == [count - len(rows) for count in before]


@pytest.mark.parametrize("moment", ["checkpoint", "erasure"])
def test_crash_of_a_training_between_purge_and_erasure_charges_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    write(tmp_path)
    three_parties.certify(tmp_path)
    changes: dict[str, Any] = {"privacy": PRIVACY, "unlearn": FORGET, "unlearning": QUICK}
    with monkeypatch.context() as patch:
        if moment == "checkpoint":
            patch.setattr(SplitModel, "prune_checkpoints", crash_now)
        else:
            patch.setattr(split_model, "erase_forgotten_releases", crash_now)
        test_resume.run_parties(tmp_path, ("hub", NEVER), **changes)
    result = test_resume.run_parties(tmp_path, **changes)
    assert any("resumed checkpoint" in note for note in result.notes)
    assert spent(tmp_path) == [1, 1, 1]
    metrics = result.metrics
    assert metrics is not None
    [request] = metrics["requests"]
    assert request["remains"] == {"hub": [], "left": [], "right": []}
    left = metrics["run"]["common_rows"] - request["rows"]["forgotten"]
    used = sum(metrics["run"]["rows"][name] for name in ("learn", "validation"))
    assert cached(tmp_path) == [left, left, used - request["rows"]["forgotten"]]
