"""Tests of the figures of the trained model, on the page and on the terminal."""

import io
import re
from typing import Any

import pytest
from rich.console import Console
from sample_metrics import sample, two_class_model

from parties.report.model_table import alone_sentence, model_lines, model_sentence, model_summary
from parties.report.pages.scientist import report_page
from parties.report.record import ModelFigures
from parties.report.terminal import report_tables

HOSTILE = "<script>alert(1)</script>{auc}{0}"


def words(page: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))


def figures(**changes: Any) -> ModelFigures:
    return ModelFigures.model_validate(two_class_model() | changes)


def test_terminal_has_one_line_with_the_auc_first() -> None:
    assert model_summary(figures()).replace("\u202f", " ") == (
        "Model on 6,000 test rows: AUC 0.776, Gini 0.552, KS 0.431, average precision 0.532, "
        "log loss 0.437, accuracy 81.8 %, majority class 77.9 %."
    )
    console = Console(width=200, file=io.StringIO(), record=True)
    console.print(report_tables(sample() | {"model": two_class_model()}))
    assert model_summary(figures()) in console.export_text()


def test_page_begins_with_the_model() -> None:
    page = report_page(sample() | {"model": two_class_model()})
    assert page.index('id="model"') < page.index('id="request-1"')
    assert words(model_sentence(figures())) in words(page)
    alone = figures().alone
    assert alone is not None
    assert words(alone_sentence(alone)) in words(page)
    for line in model_lines(figures()):
        assert line.title in words(page)
    assert "“defaulted” from a probability of 0.234" in words(page)
    assert "3,717" in page


def test_several_classes_have_no_line_for_figures_of_two() -> None:
    titles = {each.title for each in model_lines(ModelFigures.model_validate(sample()["model"]))}
    assert "ROC AUC" in titles
    assert not {"KS", "Gini"} & titles


def test_sentence_compares_with_the_majority_class() -> None:
    assert model_sentence(figures()).replace("\u202f", " ") == (
        "On 6,000 test rows the model names the right class in 81.8 % of all cases; always "
        "answering “paid” would reach 77.9 %. Of a row of “defaulted” and a row of “paid”, it "
        "gives the first the higher score in 77.6 % of all pairs (AUC 0.776)."
    )


def test_absent_figure_is_shown_with_its_reason() -> None:
    reason = "only one of the classes has rows"
    names = ("auc", "average_precision", "ks", "gini")
    model = figures(**dict.fromkeys(names), absent=dict.fromkeys(names, reason))
    assert f"no AUC: {reason}" in model_summary(model)
    assert f"There is no AUC: {reason}" in model_sentence(model)
    lines = {each.title: each for each in model_lines(model)}
    assert (lines["KS"].value, lines["KS"].meaning) == ("–", f"not defined: {reason}")


def test_model_without_any_figure_is_shown() -> None:
    reason = "the outputs of the model are not finite"
    names = [
        name for name in ModelFigures.model_fields
        if name not in ("task", "rows", "majority_class", "majority_accuracy", "absent")
        and name != "label_auc"
    ]  # fmt: skip
    model = {**two_class_model(), **dict.fromkeys(names)}
    model["absent"] = dict.fromkeys(names, reason)
    assert reason in words(report_page(sample() | {"model": model}))


@pytest.mark.parametrize("count", [20, 21])
def test_large_confusion_matrix_is_left_to_the_record(count: int) -> None:
    confusion = {
        "classes": [f"class {number}" for number in range(count)],
        "rule": "most probable",
        "threshold": None,
        "counts": [[1] * count] * count,
    }
    page = report_page(sample() | {"model": two_class_model() | {"confusion": confusion}})
    assert ("is in metrics.json" in words(page)) is (count > 20)
    assert ("class 19" in page) is (count == 20)


def test_names_of_classes_are_text() -> None:
    model = two_class_model() | {"majority_class": HOSTILE}
    model["confusion"]["classes"] = [HOSTILE, HOSTILE]
    assert report_page(sample() | {"model": model}).count("<script") == 1


def test_what_joining_brings_has_its_intervals() -> None:
    alone = figures().alone
    assert alone is not None
    assert words(alone_sentence(alone)) == (
        "With its columns alone, bank reaches an AUC of 0.741 and an accuracy of 80.4 % (its own "
        "training, 2.50 s, no message). Joining brings +0.035 AUC (95 % interval +0.024 to +0.046) "
        "and +1.4 accuracy in points (95 % interval −0.1 to +2.1)."
    )
    bare = alone.model_copy(update={"columns": False})
    assert "bank has no columns: alone it can only answer" in alone_sentence(bare)
    none = alone.model_copy(update={"absent": "its training diverged"})
    assert alone_sentence(none) == (
        "There is no model of bank’s columns alone: its training diverged."
    )
