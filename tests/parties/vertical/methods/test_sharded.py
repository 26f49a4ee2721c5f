"""Shards: a retrained shard equals, bit for bit, that of a run without the rows."""

import json
from pathlib import Path

import numpy as np
import pytest
from prediction_parties import predict_rows
from safetensors.torch import load_file
from sharded_runs import PLAN, digests, run_with_and_without_rows
from test_resume import assert_equal_metrics, prepare, run_parties
from three_parties import agreement
from whole_run import run

from configs.config_file import validate_table
from parties.common.json_files import canonical_json
from parties.report.pages.scientist import report_page
from parties.vertical.engine.rows import split_rows
from parties.vertical.methods.registry import AGREEMENT

FORGET = ({"name": "request", "classes": ["a"], "fraction": 0.02},)


def test_retrained_shard_equals_a_shard_without_the_rows(tmp_path: Path) -> None:
    saw, never = run_with_and_without_rows(tmp_path)
    before, after, clean = (
        digests(saw, "before"), digests(saw, "after"), digests(never, "before")
    )  # fmt: skip
    touched = saw["requests"][0]["methods"][1]["details"]["sharding"]["touched"]
    assert 0 < len(touched) < 3
    assert saw["requests"][0]["rows"]["forgotten"] > 0
    for shard in range(3):
        assert after[shard] == clean[shard]
        assert set(after[shard]) == {"hub", "left", "right"}
        assert (after[shard] == before[shard]) is (shard not in touched)
    assert saw["run"]["guarantee"] == "exact"
    assert "exact" in report_page(json.loads(canonical_json(saw)))


def test_shard_members_predict_as_in_the_test(tmp_path: Path) -> None:
    plan = {key: value for key, value in PLAN.items() if key != "unlearn"}
    metrics = run(tmp_path, **plan)
    own = [line.split(",")[0] for line in (tmp_path / "hub.csv").read_text().splitlines()[1:]]
    truth = [line.split(",")[-1] for line in (tmp_path / "hub.csv").read_text().splitlines()[1:]]
    rows = load_file(tmp_path / "runs" / "trio" / "hub" / "rows.safetensors")["rows"].numpy()
    ids = [own[row].encode() for row in rows]
    agreed = validate_table(AGREEMENT, agreement(**plan), tmp_path, "")
    test = [own[rows[at]] for at in split_rows(agreed, ids, np.zeros(len(ids), bool)).test]
    predictions = predict_rows(tmp_path, test, agreement(**plan))
    label = dict(zip(own, truth, strict=True))
    right = [name == label[text] for text, name, _ in predictions.rows()]
    assert np.mean(right) == metrics["run"]["test_accuracy"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("hub", 330),
        pytest.param("left", 60, marks=pytest.mark.slow),
        pytest.param("right", 240, marks=pytest.mark.slow),
    ],
)
def test_sharded_run_after_a_crash_has_the_same_result(
    tmp_path: Path, name: str, message: int
) -> None:
    changes = PLAN | {"unlearn": FORGET}
    for folder in ("whole", "crashed"):
        (tmp_path / folder).mkdir()
        prepare(tmp_path / folder)
    uninterrupted = run_parties(tmp_path / "whole", **changes)
    run_parties(tmp_path / "crashed", (name, message), **changes)
    result = run_parties(tmp_path / "crashed", **changes)
    assert any(note.startswith("resumed checkpoint") for note in result.notes)
    assert result.files == uninterrupted.files
    assert_equal_metrics(result.metrics, uninterrupted.metrics)
