"""Methods beside Retrains if the labels are a number, or several binary labels."""

import csv
from base64 import b64decode
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import torch
from kept_trio import train_trio
from other_labels import LABELS, NUMBER, write_diabetes, write_multilabel
from rich.console import Console
from test_methods_of_other_labels import some_ids
from three_parties import forget_some, open_split_model
from whole_run import run

import vfl
from configs.agreement import RowRequest
from parties.report.columns import DIFFERENCE_RATIOS, JS_RATIOS, visible_columns
from parties.report.comparison import ComparisonResult, comparison_result
from parties.report.method_names import is_independent_retrain
from parties.report.method_table import method_table
from parties.report.pages.officer import officer_page
from parties.report.pages.run_pair import request_pairs
from parties.report.pages.scientist import report_page
from parties.report.pages.table_csv import csv_link, methods_csv
from parties.report.record import Figure, MethodRecord, Request, read_record
from parties.report.terminal import report_tables
from parties.report.verdict import attack_sentence, request_verdict
from parties.requests.driver import Cost, carry_out
from parties.requests.receipts import read_receipt
from parties.vertical.evaluation.metrics import CLASSES_ONLY
from parties.vertical.evaluation.model_outputs import ratio_to_retrains
from parties.vertical.evaluation.outcomes import Comparison, MethodOutcome
from parties.vertical.methods.network_run import NetworkRun
from parties.vertical.methods.retrain import RetrainMethod
from protocol import vfl_pb2
from unlearning.audit.divergence import label_distance, number_distance

TRAINED = {"learning_rate": 0.02, "batch": 32, "epochs": 30}
COMPARED = {"method": "fine-tune", "compare": ["shrink-perturb"], "retrains": 3}
NAMES = [
    "original", "fine-tune", "shrink-perturb", "retrain", "retrain-2", "retrain-3",
    "retrain-paired",
]  # fmt: skip


SETTINGS = ("training", "preprocessing", "sharding")


def compared(folder: Path, labels: dict[str, Any], **keys: Any) -> dict[str, Any]:
    """The metrics of a run that forgets 40 rows; ``keys`` are of [unlearning], or SETTINGS."""
    changes = {name: each for name, each in keys.items() if name in SETTINGS}
    unlearning = {name: each for name, each in keys.items() if name not in SETTINGS}
    write = write_diabetes if labels is NUMBER else write_multilabel
    write(folder)
    return run(
        folder,
        before=write,
        ids={"some": some_ids(folder)},
        unlearn=[{"name": "some"}],
        labels=labels,
        unlearning=unlearning,
        **{"training": TRAINED, **changes},
    )


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The metrics of a run on the diabetes data."""
    return compared(tmp_path_factory.mktemp("numbers"), NUMBER, **COMPARED)


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The metrics of a run with three binary labels."""
    return compared(tmp_path_factory.mktemp("labels"), LABELS, **COMPARED)


def request_of(metrics: dict[str, Any]) -> Request:
    """The only request of a run."""
    (request,) = read_record(metrics).requests
    return request


def figure(method: MethodRecord, name: str) -> Figure:
    """A figure of a model."""
    return next(each for each in method.figures if each.name == name)


# --- the record -----------------------------------------------------------------------------------


def test_every_model_stands_beside_the_retrains(numbers: dict[str, Any]) -> None:
    request = request_of(numbers)
    assert [each.name for each in request.methods] == NAMES
    assert request.audit_level == "full"
    for method in request.methods:
        assert method.accuracy is None
        assert method.membership is None
        assert method.divergence is not None
        assert list(method.divergence) == ["forgotten", "retained", "test"]
        for part, found in method.divergence.items():
            assert found.js is None
            assert found.rms is not None
            assert found.rms > 0
            assert figure(method, f"rms_{part}").value == found.rms
        assert 0 <= (figure(method, "loss_auc").value or -1) <= 1
        assert (figure(method, "retained_mae").value or 0) > 0
    cost = request.methods[1].cost
    assert cost is not None
    assert cost.rows_of_retrain is not None
    assert cost.rows_of_retrain < 0.2


def test_distances_between_retrains_are_the_unit(numbers: dict[str, Any]) -> None:
    retrains = [each for each in request_of(numbers).methods if is_independent_retrain(each.name)]
    for part in ("forgotten", "retained", "test"):
        found = [each.divergence[part] for each in retrains if each.divergence]
        assert sum(each.ratio or 0 for each in found) == pytest.approx(3)  # the mean is the unit
        unit = sum(each.rms or 0 for each in found) / 3
        assert [each.ratio for each in found] == pytest.approx(
            [(each.rms or 0) / unit for each in found]
        )


def test_original_is_farther_than_what_forgot(numbers: dict[str, Any]) -> None:
    original, tuned, perturbed, *retrains = request_of(numbers).methods
    distances = [figure(each, "rms_forgotten").value for each in (original, tuned, perturbed)]
    assert distances == sorted(distances, key=lambda each: -(each or 0))
    assert (figure(original, "rms_forgotten").gap_in_sd or 0) > 2
    # The original learned the rows: its errors on them are smaller than those of every Retrain.
    errors = [figure(each, "forgotten_mae").value or 0 for each in retrains]
    assert (figure(original, "forgotten_mae").value or 0) < 0.8 * min(errors)
    attacks = [figure(each, "loss_auc").value or 0 for each in retrains]
    assert (figure(original, "loss_auc").value or 0) > max(attacks)


def test_audits_of_classes_are_left_out_by_name(numbers: dict[str, Any]) -> None:
    request = request_of(numbers)
    for name in ("mia_auc", "streisand", "update_auc_unseen", "agreement_forgotten", "c2st_p"):
        found = figure(request.methods[1], name)
        assert (found.value, found.status, found.note) == (None, "not_run", CLASSES_ONLY)
    assert request.threshold is None
    assert request.audits is not None
    assert (request.audits.entropy, request.audits.canaries) == (None, None)
    assert set(request.audits.parameters or {}) == {"hub", "left", "right"}


def test_several_labels_have_divergences_of_their_probabilities(several: dict[str, Any]) -> None:
    request = request_of(several)
    assert [each.name for each in request.methods] == NAMES
    for method in request.methods:
        assert method.divergence is not None
        for found in method.divergence.values():
            assert found.rms is None
            assert 0 < (found.js or 0) < 0.6931472
        assert 0 <= (figure(method, "forgotten_hamming_loss").value or 0) <= 1
        assert figure(method, "js_test").value == method.divergence["test"].js
    assert visible_columns(request)[-3:] == [*JS_RATIOS]


def test_two_retrains_show_a_distance_but_no_result(tmp_path: Path) -> None:
    """The diabetes data of scikit-learn, in one process, with a request of a party's file."""
    data = {"kind": "sklearn", "name": "diabetes"}
    (tmp_path / "left.txt").write_text("".join(f"diabetes:{row}\n" for row in range(60)))
    plan = {
        "federation": "diabetes",
        "labels": {"task": "regression"},
        "parties": {
            "clinic": {"role": "active", "width": 4, "bottom": {"kind": "mlp", "hidden": [8]}},
            "lab": {"role": "passive", "width": 4, "bottom": {"kind": "mlp", "hidden": [8]}},
        },
        "psi": {"minimum": 100},
        "top": {"kind": "mlp", "hidden": [8]},
        "training": {"optimiser": "adam", "learning_rate": 0.01, "batch": 64, "epochs": 3},
        "unlearn": [{"name": "left"}],
        "unlearning": {"retrains": 2, "compare": ["fine-tune"]},
        "settings": {
            "clinic": {
                "data": data | {"columns": [0, 1, 2, 3], "label": True},
                "unlearn": {"left": str(tmp_path / "left.txt")},
            },
            "lab": {"data": data | {"columns": [4, 5, 6, 7, 8, 9]}},
        },
    }
    found = vfl.simulate(plan, out=tmp_path / "runs", progress=False)
    (request,) = found.metrics.requests
    names = [each.name for each in request.methods]
    assert names == [
        "original", "retrain-local", "fine-tune", "retrain", "retrain-2", "retrain-paired"
    ]  # fmt: skip
    first, second = (each.divergence for each in request.methods[3:5])
    assert first is not None
    assert first == second  # each is as far from the other
    assert first["forgotten"].ratio == 1
    assert comparison_result(request) is ComparisonResult.GUARANTEED  # retrain-local is exact
    measured = request.model_copy(update={"chosen": "fine-tune"})
    assert comparison_result(measured) is ComparisonResult.UNDECIDED
    assert "Ratio of differences to Retrain" in found.report().read_text()


def test_retrained_shards_are_the_paired_retrain(tmp_path: Path) -> None:
    metrics = compared(
        tmp_path,
        NUMBER,
        training=TRAINED | {"epochs": 3},
        preprocessing="declared",
        sharding={"shards": 2},
        method="sharded",
        compare=[],
        retrains=2,
    )
    _, sharded, *others = request_of(metrics).methods
    assert sharded.details["sharding"]["touched"] == [0, 1]
    assert [each.name for each in others] == ["retrain", "retrain-2", "retrain-paired"]
    assert sharded.divergence == others[-1].divergence
    assert figure(sharded, "forgotten_mae").value == figure(others[-1], "forgotten_mae").value


def test_retrain_with_an_equal_seed_is_at_distance_zero(tmp_path: Path) -> None:
    plan = {"labels": NUMBER, "training": TRAINED | {"epochs": 3}}
    with open_split_model(tmp_path, 442, write_diabetes, **plan) as (split_model, _):
        forget_some(split_model, 30)
        outputs = []
        for name, stream in (("retrain", "retrain"), ("again", "retrain"), ("other", "other")):
            carry_out(RetrainMethod(name, stream), NetworkRun(split_model))
            outputs.append(split_model.logits(vfl_pb2.FORGOTTEN))
    assert number_distance(outputs[0], outputs[1]) == 0
    assert number_distance(outputs[0], outputs[2]) > 0


def test_ratio_of_constant_predictions_by_hand() -> None:
    def outcome(name: str, value: float) -> MethodOutcome:
        return MethodOutcome(name, {"test": torch.full((4, 1), value)}, Cost(1.0, 1, 1))

    # The Retrains answer 10 and 14: 4 apart. An answer of 11 is 1 and 3 away: 2 in the mean.
    models = [outcome("original", 11.0), outcome("retrain", 10.0), outcome("retrain-2", 14.0)]
    comparison = Comparison(RowRequest(name="request"), "fine-tune", models)
    found = [ratio_to_retrains(each, comparison, "test", None, number_distance) for each in models]
    assert [each.to_retrain for each in found] == [2.0, 4.0, 4.0]
    assert [each.value for each in found] == [0.5, 1.0, 1.0]


# --- the report -----------------------------------------------------------------------------------


def shown(metrics: dict[str, Any]) -> str:
    """The tables of a run on a terminal."""
    console = Console(width=110, record=True, file=StringIO())
    console.print(report_tables(metrics, 110))
    return console.export_text()


def test_report_of_a_number_names_no_accuracy(numbers: dict[str, Any]) -> None:
    request = request_of(numbers)
    assert visible_columns(request)[-3:] == [*DIFFERENCE_RATIOS]
    page, text = report_page(numbers), shown(numbers)
    for each in (page, officer_page(numbers), text):
        assert "accuracy" not in each.lower().replace("prediction accuracy", "")
        assert "JS ratio" not in each
    assert "Root mean squared difference between the predictions" in page
    assert "Forgotten against test rows." in page
    assert "R² on test rows" in " ".join(text.split())
    assert "losses: takes rows with a small loss" in " ".join(text.split())
    assert "diff.: difference of the predictions" in " ".join(text.split())
    evidence = request_verdict(request).evidence
    assert "in differences of two Retrains" in evidence[0]


def test_report_of_several_labels_names_the_js_ratio(several: dict[str, Any]) -> None:
    page, text = report_page(several), shown(several)
    assert "each of which is 0 or 1" in page
    assert "Root mean squared difference" not in page
    assert "AUC, mean over labels on test rows" in " ".join(text.split())


def test_attack_on_losses_is_judged_by_the_retrains(numbers: dict[str, Any]) -> None:
    """Losses of forgotten and of test rows may differ without memory, so 0.5 says nothing."""
    request = request_of(numbers)
    retrains = [
        figure(each, "loss_auc").value or -1
        for each in request.methods
        if is_independent_retrain(each.name)
    ]
    mean = sum(retrains) / len(retrains)
    assert f"mean of the Retrains: {mean:.2f}" in attack_sentence(request)
    original = request.methods[0]
    at, chosen = figure(original, "loss_auc"), figure(request.methods[1], "loss_auc")
    for interval, words in (
        ((mean - 0.01, mean + 0.01), "contains the mean of models"),
        ((mean + 0.01, mean + 0.02), "does not contain the mean of models"),
    ):
        changed = [
            original.model_copy(update={"figures": (at.model_copy(update={"ci95": (0.0, 0.0)}),)}),
            request.methods[1].model_copy(
                update={"figures": (chosen.model_copy(update={"ci95": interval}),)}
            ),
            *request.methods[2:],
        ]
        assert words in attack_sentence(request.model_copy(update={"methods": tuple(changed)}))
    alone = request.model_copy(update={"methods": request.methods[:2]})
    assert "without Retrains it shows nothing" in attack_sentence(alone)
    few = chosen.model_copy(update={"status": "insufficient_n"})
    rare = request.methods[1].model_copy(update={"figures": (few,)})
    small = request.model_copy(update={"methods": (original, rare, *request.methods[2:])})
    assert "With so few rows it shows nothing." in attack_sentence(small)


def test_two_kinds_of_ratios_are_not_subtracted(
    numbers: dict[str, Any], several: dict[str, Any]
) -> None:
    (pair,) = request_pairs(read_record(numbers), read_record(several))
    ratios = [each for each in pair.figures if "two Retrains" in each.name]
    names = [each.name for each in ratios]
    assert len(names) == len({*names}) == 12
    assert all("–" in (each.first, each.second) for each in ratios)


def test_table_as_csv_has_the_figures_of_a_number(numbers: dict[str, Any]) -> None:
    request = request_of(numbers)
    written = methods_csv(method_table(request))
    assert csv_link(written).encode() in report_page(numbers).encode()
    assert b64decode(csv_link(written).partition(",")[2])[3:].decode() == written
    rows = list(csv.DictReader(StringIO(written)))
    assert [each["method"] for each in rows][3:5] == ["Retrain, mean", "Retrain"]
    assert float(rows[0]["Test rows: R²"]) == figure(request.methods[0], "test_r2").value
    ratio = (request.methods[0].divergence or {})["forgotten"].ratio
    assert float(rows[0]["Ratio of differences to Retrain: forgotten rows"]) == ratio


# --- a kept model ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "utility", "distance"),
    [
        (NUMBER, "loss-of-test-r2-against-retrains", number_distance),
        (LABELS, "loss-of-test-accuracy-against-retrains", label_distance),
    ],
)
def test_full_audit_of_a_later_request(
    tmp_path: Path, labels: dict[str, Any], utility: str, distance: Any
) -> None:
    number = distance is number_distance
    trio = train_trio(
        tmp_path,
        442 if number else 300,
        write_diabetes if number else write_multilabel,
        labels=labels,
        training=TRAINED | {"epochs": 4},
        unlearning={"method": "fine-tune", "compare": [], "retrains": 3},
        requests={"keep": "model", "audit": "full", "guard": 1.0},
    )
    request = trio.request("left", range(30))
    trio.carry_out()
    hub = trio.folder / "runs" / "trio" / "hub"
    audit = read_receipt(hub / "receipts" / f"{request}.json").audit
    assert audit.level == "full"
    found = {each.metric: each for each in audit.results}
    assert found[utility].n == 3
    kind = "difference" if number else "distance"
    assert float(found[f"{kind}-from-retrains-on-forgotten-rows"].value) > 0
    assert "Retrain, 3" in (hub / "comparisons" / request / "report.html").read_text()
    (figures,) = trio.journaled_figures("left", request)
    assert ("difference_ratio" if number else "js_ratio") in figures
