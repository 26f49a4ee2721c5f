"""Unlearning requests, from the selection of rows to the resulting model."""

from io import StringIO
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file
from three_parties import PARTIES, agreement, inputs, open_split_model, party_settings, write_data
from whole_run import run

from configs.config_file import validate_table
from configs.errors import ConfigError
from parties.common.errors import DataError, PolicyError
from parties.report.pages.scientist import report_page
from parties.report.terminal import report_tables
from parties.vertical.engine.requests import select_request_rows
from parties.vertical.engine.rows import split_rows
from parties.vertical.methods.registry import AGREEMENT
from parties.vertical.purge import purge_request
from protocol import vfl_pb2


def request(**fields) -> tuple[dict, ...]:
    return ({"name": "request", **fields},)


def only_request(metrics: dict) -> dict:
    return metrics["requests"][0]


def test_request_for_half_of_a_class(tmp_path: Path) -> None:
    metrics = run(tmp_path, unlearn=request(classes=["a"], fraction=0.5))
    request_result = only_request(metrics)
    rows, learned = request_result["rows"], metrics["run"]["rows"]["learn"]
    assert 0 < rows["forgotten"] < learned / 3
    assert rows["forgotten"] + rows["retained"] == learned
    names = [method["name"] for method in request_result["methods"]]
    assert names == [
        "original", "fedora", "fine-tune", "gradient-ascent", "relabel", "retrain",
        "retrain-2", "retrain-paired",
    ]  # fmt: skip
    assert set(request_result["purged"]) == {"hub", "left", "right"}
    for gone in request_result["purged"].values():
        assert "optimiser state of train" in gone
        assert "copy 'original' of the model" in gone


def test_all_of_a_class_reports_the_remaining_classes(tmp_path: Path) -> None:
    request_result = only_request(run(tmp_path, unlearn=request(classes=["a"])))
    retrain = next(each for each in request_result["methods"] if each["name"] == "retrain")
    assert retrain["accuracy"]["forgotten"] == 0.0  # never saw the class
    assert retrain["accuracy"]["test_remaining_classes"] > retrain["accuracy"]["test"]


def test_request_for_one_row_of_a_file(tmp_path: Path) -> None:
    metrics = run(tmp_path, unlearn=request(), ids={"request": training_ids(tmp_path, 1)})
    assert only_request(metrics)["rows"]["forgotten"] == 1


def test_a_repeated_id_counts_once(tmp_path: Path) -> None:
    ids = training_ids(tmp_path, 3)
    metrics = run(tmp_path, unlearn=request(), ids={"request": ids + ids})
    assert only_request(metrics)["rows"]["forgotten"] == 3


def test_rows_outside_training_are_dropped_and_reported(tmp_path: Path) -> None:
    everyone = common_ids(tmp_path)
    ids = "\n".join(everyone[:60]) + "\n"
    request_result = only_request(run(tmp_path, unlearn=request(), ids={"request": ids}))
    assert request_result["rows"]["dropped"]["test"] > 0
    assert (
        request_result["rows"]["forgotten"] + sum(request_result["rows"]["dropped"].values()) == 60
    )


def test_no_row_in_training_is_a_no_op_that_still_drops_and_reports(tmp_path: Path) -> None:
    learned = set(training_ids(tmp_path, 10_000).split())
    outside = [name for name in common_ids(tmp_path) if name not in learned][:5]
    metrics = run(tmp_path, unlearn=request(), ids={"request": "\n".join(outside)})
    request_result = only_request(metrics)
    assert request_result["rows"]["forgotten"] == 0
    assert "nothing to forget" in request_result["skipped"]
    assert sum(request_result["rows"]["dropped"].values()) == 5
    assert all("row map" in " ".join(gone) for gone in request_result["purged"].values())
    assert erased_rows(tmp_path) == [5, 5, 5]
    assert "Nothing was to be forgotten" in report_page(metrics)
    Console(file=StringIO()).print(report_tables(metrics))


def erased_rows(folder: Path) -> list[int]:
    """Number of rows that each party erased from its row map."""
    files = [folder / "runs" / "trio" / name / "rows.safetensors" for name in PARTIES]
    return [int((load_file(file)["rows"] == -1).sum()) for file in files]


def test_unknown_ids_are_refused_by_line_without_naming_them(tmp_path: Path) -> None:
    ids = training_ids(tmp_path, 1) + "stranger-77\n"
    with pytest.raises(
        DataError, match=r"1 IDs are not among the common rows \(lines 2\)"
    ) as raised:
        run(tmp_path, unlearn=request(), ids={"request": ids})
    assert "stranger" not in str(raised.value)


def test_an_id_that_only_some_parties_hold_is_refused(tmp_path: Path) -> None:
    write_data(tmp_path)
    only_here = set(ids_of(tmp_path, "hub")) - set(common_ids(tmp_path))
    ids = f"{sorted(only_here)[0]}\n"
    with pytest.raises(DataError, match="not among the common rows"):
        run(tmp_path, unlearn=request(), ids={"request": ids})


def test_all_training_rows_are_refused(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="leave no training row"):
        run(tmp_path, unlearn=request(classes=["a", "b", "c"]))


def test_a_request_without_classes_or_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="names no classes, and the settings of hub name no file"):
        run(tmp_path, unlearn=request())


def test_a_second_request_starts_from_the_purged_state(tmp_path: Path) -> None:
    first = {"name": "first", "classes": ["a"], "fraction": 0.4}
    second = {"name": "second", "classes": ["a", "b"], "fraction": 0.5}
    one, two = run(tmp_path, unlearn=(first, second))["requests"]
    one, two = one["rows"], two["rows"]
    assert two["forgotten"] + two["retained"] == one["retained"]
    assert erased_rows(tmp_path) == [one["forgotten"] + two["forgotten"]] * 3


def test_features_of_forgotten_rows_are_erased_request_after_request(tmp_path: Path) -> None:
    with open_split_model(tmp_path) as (split_model, sessions):
        split_model.initialise("original", vfl_pb2.TRAIN_ROWS, vfl_pb2.TRAIN)
        gone = np.empty(0, np.int64)
        for _ in range(2):
            rows = np.sort(split_model.rows.train[:7])
            gone = np.concatenate([gone, rows])
            split_model.forget(rows)
            purge_request(split_model, "some")
        for values in inputs(split_model, sessions).values():
            assert (values[gone] == 0).all()
            assert (values != 0).any()


def test_canaries_of_two_requests_are_different_rows(tmp_path: Path) -> None:
    plan = [
        {"name": name, "classes": ["a", "b"], "fraction": 0.8, "canaries": 9}
        for name in ("first", "second")
    ]
    with open_split_model(tmp_path, unlearn=plan) as (split_model, _):
        ids = split_model.state.features.rows
        chosen = select_request_rows(split_model.party, ids, split_model.rows, split_model.labels)
        assert [len(each.canaries) for each in chosen] == [9, 9]
        assert not np.isin(chosen[0].canaries, chosen[1].canaries).any()


def test_a_request_that_is_all_canaries_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match=r"too few for \d+ canaries"):
        run(tmp_path, unlearn=request(classes=["a"], fraction=0.1, canaries=50))


def test_a_class_without_held_out_rows_is_refused_before_it_is_forgotten(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="contains rows of a class that has too few test rows"):
        run(
            tmp_path,
            split={"test": 0.01, "validation": 0.1},
            unlearn=request(classes=["a", "b", "c"], fraction=0.5),
        )


def test_canaries_learn_a_wrong_label(tmp_path: Path) -> None:
    request_result = only_request(
        run(tmp_path, unlearn=request(classes=["a", "b"], fraction=0.5, canaries=8))
    )
    assert request_result["audits"]["canaries"]["count"] == 8
    assert request_result["audits"]["canaries"]["result"]
    measured = {
        each["name"]: figure["value"]
        for each in request_result["methods"]
        for figure in each["figures"]
        if figure["name"] == "canary_auc"
    }
    assert set(measured) == {each["name"] for each in request_result["methods"]}
    assert request_result["audits"]["canaries"]["auc"].items() <= measured.items()


def ids_of(folder: Path, name: str) -> list[str]:
    return [line.split(",")[0] for line in (folder / f"{name}.csv").read_text().split()[1:]]


def common_ids(folder: Path) -> list[str]:
    write_data(folder)
    return sorted(set.intersection(*(set(ids_of(folder, name)) for name in party_settings(folder))))


def training_ids(folder: Path, count: int) -> str:
    """IDs of training rows, computed as a party computes them."""
    ids = common_ids(folder)
    plan = validate_table(AGREEMENT, agreement(), folder, "")
    encoded = [name.encode() for name in ids]
    rows = split_rows(plan, encoded, np.zeros(len(ids), bool))
    return "".join(f"{ids[row]}\n" for row in rows.train[:count])


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)
