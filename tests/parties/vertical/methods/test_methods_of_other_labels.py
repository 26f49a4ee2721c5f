"""Requests to forget rows whose label is a number, or several binary labels."""

from pathlib import Path
from typing import Any

import pytest
from other_labels import LABELS, NUMBER, write_diabetes, write_multilabel
from three_parties import PARTIES, agreement
from whole_run import run

from configs.config_file import validate_table
from configs.errors import ConfigError
from parties.report.pages.scientist import report_page
from parties.vertical.evaluation.metrics import CLASSES_ONLY
from parties.vertical.methods.registry import AGREEMENT, METHODS

TRAINED = {"learning_rate": 0.02, "batch": 32, "epochs": 4}
WRITES = {"regression": write_diabetes, "multilabel": write_multilabel}
SOUND = [name for name, each in METHODS.items() if not each.only_classes and name != "sharded"]
REQUEST = [{"name": "some"}]


def some_ids(folder: Path, count: int = 40) -> str:
    """IDs that all parties have."""
    held = []
    for name in PARTIES:
        lines = (folder / f"{name}.csv").read_text().splitlines()[1:]
        held.append({line.split(",")[0] for line in lines})
    return "\n".join(sorted(set.intersection(*held))[:count])


def carried_out(folder: Path, labels: dict[str, Any], method: str) -> dict[str, Any]:
    """The request of a run whose method is ``method``."""
    WRITES[labels["task"]](folder)
    plan = {"labels": labels, "training": TRAINED, "unlearning": {"method": method}}
    metrics = run(
        folder,
        before=WRITES[labels["task"]],
        ids={"some": some_ids(folder)},
        unlearn=REQUEST,
        **plan,
    )
    assert f"Request <b>{metrics['requests'][0]['name']}</b>" in report_page(metrics)
    request: dict[str, Any] = metrics["requests"][0]
    return request


@pytest.mark.parametrize("method", SOUND)
def test_sound_method_is_carried_out_on_a_number(tmp_path: Path, method: str) -> None:
    request = carried_out(tmp_path, NUMBER, method)
    assert request["remains"] == {name: [] for name in PARTIES}
    assert request["rows"]["forgotten"] > 10
    original, unlearned = request["methods"]
    assert unlearned["name"] == request["chosen"] == method
    assert unlearned["stopped"] is None
    figures = {each["name"]: each for each in unlearned["figures"]}
    before = {each["name"]: each for each in original["figures"]}
    assert figures["test_mae"]["value"] > 0
    assert figures["test_mae"]["value"] != before["test_mae"]["value"]
    assert 0 <= figures["loss_auc"]["value"] <= 1
    assert figures["forgotten_mae"]["n"] == request["rows"]["forgotten"]
    assert (figures["mia_auc"]["value"], figures["mia_auc"]["note"]) == (None, CLASSES_ONLY)


def test_exact_method_is_carried_out_on_several_labels(tmp_path: Path) -> None:
    request = carried_out(tmp_path, LABELS, "retrain-local")
    assert request["remains"] == {name: [] for name in PARTIES}
    figures = {each["name"]: each["value"] for each in request["methods"][1]["figures"]}
    assert 0 <= figures["forgotten_hamming_loss"] <= 1
    assert figures["test_auc_macro"] > 0.5


def agreed(**changes: Any) -> Any:
    """The agreement with these changes of that of the three parties."""
    return validate_table(AGREEMENT, agreement(labels=NUMBER, **changes), Path("plan.toml"), "")


def test_default_method_holds_for_a_number() -> None:
    plan = agreed().unlearning
    assert (plan.method, plan.compare, plan.retrains) == ("retrain-local", (), 0)
    fixed = agreed(
        parties={
            name: each | {"width": 1, "bottom": {"kind": "mlp", "hidden": []}}
            for name, each in agreement()["parties"].items()
        },
        top={"kind": "sum"},
    )
    assert fixed.unlearning.method == "retrain-paired"


@pytest.mark.parametrize("task", [NUMBER, LABELS])
@pytest.mark.parametrize(
    ("asked", "retrains", "names"),
    [
        ({"retrains": 2}, 2, ("fine-tune", "top-only", "shrink-perturb", "ico-like",
                              "short-retrain")),
        ({"compare": ["fine-tune"]}, 3, ("fine-tune",)),
        ({"retrains": 4, "compare": ["fine-tune", "top-only"]}, 4, ("fine-tune", "top-only")),
        ({"retrains": 0, "compare": []}, 0, ()),
        ({"compare": []}, 0, ()),
    ],
)  # fmt: skip
def test_methods_are_compared_if_a_key_asks_for_it(
    task: dict[str, Any], asked: dict[str, Any], retrains: int, names: tuple[str, ...]
) -> None:
    plan = agreement(labels=task, unlearning=asked)
    found = validate_table(AGREEMENT, plan, Path("plan.toml"), "").unlearning
    assert (found.method, found.retrains, found.compare) == ("retrain-local", retrains, names)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        *(
            ({"unlearning": {"method": name}}, f"{name!r} cannot be used with labels.task")
            for name, each in METHODS.items()
            if each.only_classes and name not in ("newton-cg", "cvfu")
        ),
        ({"unlearning": {"compare": ["fine-tune", "relabel"]}}, "'relabel' cannot be used"),
        ({"unlearning": {"retrains": 3, "compare": ["top-only"]}}, "must contain fine-tune, beca"),
        ({"unlearning": {"retrains": 1}}, "'retrains' must not be 1"),
        ({"unlearning": {"retrains": 0, "compare": ["fine-tune"]}}, "'compare' must be empty"),
        ({"training": TRAINED | {"monitor": "auc", "patience": 1}}, "training.monitor = 'auc'"),
        ({"unlearn": [{"name": "some", "canaries": 3}]}, "unlearn.canaries"),
        ({"unlearn": [{"name": "some", "corrects": True}]}, "unlearn.corrects"),
        ({"unlearn": [{"name": "some", "classes": ["a"]}]}, "unlearn.classes"),
        ({"privacy": {"label_dp": {"epsilon": 1.0}}}, "privacy.label_dp"),
        ({"evaluation": {"shadows": 4}}, "evaluation.shadows"),
        ({"evaluation": {"relearn": {}}}, "evaluation.relearn"),
        ({"requests": {"audit": "full"}}, "but unlearning.retrains is 0"),
    ],
)  # fmt: skip
def test_setting_that_needs_classes_is_refused_by_name(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        agreed(**changes)


@pytest.mark.parametrize(
    ("labels", "named"),
    [
        (NUMBER | {"classes": ["a", "b"]}, "a number has no classes"),
        ({"task": "multilabel"}, "needs the key 'classes'"),
        ({"classes": ["a"]}, "at least two names"),
        ({"classes": ["a", "b"], "loss": "absolute"}, "the key 'loss' is for task = 'regression'"),
        ({"task": "ranking", "classes": ["a", "b"]}, "task"),
    ],
)
def test_labels_that_do_not_fit_the_task_are_refused(labels: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        validate_table(AGREEMENT, agreement(labels=labels), Path("plan.toml"), "")


def test_agreement_with_classes_keeps_its_canonical_form() -> None:
    plan = validate_table(AGREEMENT, agreement(), Path("plan.toml"), "")
    assert plan.labels.canonical() == {"classes": ["a", "b", "c"]}
    assert plan.architecture["labels"] == {"classes": ["a", "b", "c"]}
    assert agreed().labels.canonical() == {"classes": [], "task": "regression"}
