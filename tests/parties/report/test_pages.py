"""The officer's page, the comparison of two runs, the CSV of a table, and privacy in words."""

import base64
import csv
import io
import re
from pathlib import Path
from typing import Any

import pytest
from sample_metrics import sample, two_class_model
from test_verdict import horizontal, method, with_methods

from parties.common.errors import DataError
from parties.report.method_table import method_table
from parties.report.pages.officer import not_shown, officer_page
from parties.report.pages.privacy_words import label_leak, privacy_lines
from parties.report.pages.run_pair import (
    model_differences,
    request_pairs,
    run_pair_page,
    setting_differences,
)
from parties.report.pages.scientist import report_page
from parties.report.pages.table_csv import csv_link, methods_csv, plain_cell
from parties.report.pages.write import write_pages
from parties.report.record import RunRecord, read_record

HOSTILE = "<script>alert('1')</script>"
SETTINGS = {"seed": 1, "training": {"epochs": 20, "rate": 0.1}}


def record(**settings: Any) -> dict[str, Any]:
    metrics = sample()
    metrics["run"]["settings"] = SETTINGS | settings
    return metrics


def pair(first: dict[str, Any], second: dict[str, Any]) -> tuple[RunRecord, RunRecord]:
    return read_record(first), read_record(second)


# --- the officer's page ---------------------------------------------------------------------------


def test_the_pages_of_a_run_are_linked_to_each_other(tmp_path: Path) -> None:
    scientist, officer = write_pages(tmp_path, sample())
    assert f'href="{officer.name}"' in scientist.read_text()
    assert f'href="{scientist.name}"' in officer.read_text()


def test_the_pages_of_a_failed_run_replace_no_page(tmp_path: Path) -> None:
    pages = write_pages(tmp_path, sample() | {"failure": "right: closed the connection"})
    assert [each.name for each in pages] == ["partial.html", "partial-officer.html"]
    assert 'href="partial-officer.html"' in pages[0].read_text()
    assert "Unfinished" in pages[1].read_text()


def test_the_officers_page_is_short_and_has_all_four_parts() -> None:
    page, long = officer_page(sample()), report_page(sample())
    assert len(page) < len(long) / 5
    parts = ("For a person whose rows", "Evidence", "What was not shown", "Who can learn what")
    places = [page.index(each) for each in parts]
    assert places == sorted(places)
    assert "<svg" not in page


def test_what_was_not_shown_follows_from_the_record() -> None:
    metrics = sample()
    request = read_record(metrics).requests[0]
    assert any("no theorem bounds" in each for each in not_shown(request))
    assert any("rest on 3 Retrains" in each for each in not_shown(request))
    assert any("balanced accuracy" in each for each in not_shown(request))
    assert not any("No party searched" in each for each in not_shown(request))
    metrics["requests"][0] |= {"remains": {"left": ["a checkpoint"]}, "audits": None}
    request = read_record(metrics).requests[0]
    assert "After the purge a search still found forgotten rows at left." in not_shown(request)
    assert any(each.startswith("Not run: the label attack") for each in not_shown(request))
    metrics["requests"][0]["remains"] = {}
    assert any("No party searched" in each for each in not_shown(read_record(metrics).requests[0]))


def test_an_exact_method_is_not_called_unproven() -> None:
    metrics = sample()
    method(metrics, "fedora")["guarantee"] = "exact"
    request = read_record(metrics).requests[0]
    assert not any("no theorem" in each for each in not_shown(request))


def test_the_officers_page_of_a_run_without_requests_has_no_verdict() -> None:
    page = officer_page({**sample(), "requests": []})
    assert "there is no verdict" in page
    assert "What was not shown" not in page


def test_html_in_names_is_escaped_on_every_page() -> None:
    metrics = record(name=HOSTILE)
    metrics["run"].update(federation=HOSTILE, session=HOSTILE)
    metrics["requests"][0] |= {"name": HOSTILE, "kept": [HOSTILE], "purged": {HOSTILE: [HOSTILE]}}
    method(metrics, "fedora")["title"] = HOSTILE
    for page in (officer_page(metrics), run_pair_page(metrics, record(), (HOSTILE, "b"))):
        assert page.count("<script") == 1
        assert "&lt;script&gt;alert" in page


# --- comparison of two runs -----------------------------------------------------------------------


def test_settings_that_differ_are_listed_by_their_keys() -> None:
    found = setting_differences(*pair(record(), record(training={"epochs": 5, "rate": 0.1})))
    assert [(each.name, each.first, each.second) for each in found] == [
        ("training.epochs", "20", "5")
    ]


def test_equal_runs_differ_in_nothing() -> None:
    both = pair(record(), record())
    assert setting_differences(*both) == []
    figures = [*model_differences(*both), *request_pairs(*both)[0].figures]
    assert len(figures) > 20
    assert not any(each.interval.startswith("outside") for each in figures)
    assert "both runs have the same agreement" in run_pair_page(record(), record(), ("a", "b"))


def test_records_without_settings_are_compared_by_what_they_state() -> None:
    second = sample()
    second["run"]["seed"] = 7
    assert [each.name for each in setting_differences(*pair(sample(), second))] == ["seed"]
    assert "has no settings" in run_pair_page(sample(), second, ("a", "b"))


def test_differences_are_judged_by_the_spread_over_seeds() -> None:
    second = record()
    method(second, "fedora")["accuracy"]["test"] = 0.6
    figures = {each.name: each for each in request_pairs(*pair(record(), second))[0].figures}
    changed = figures["Accuracy, test rows, after the request"]
    assert changed.difference == "−36.5\u202fpoints"
    assert changed.interval.startswith("outside ±")
    assert figures["Accuracy, test rows, before the request"].interval.startswith("within ±")


def test_without_retrains_a_difference_has_no_interval() -> None:
    alone = with_methods("original", "fedora")
    figures = request_pairs(*pair(alone, alone))[0].figures
    accuracy = next(each for each in figures if each.name.startswith("Accuracy, test"))
    assert accuracy.interval == "no interval"


def test_the_models_auc_has_an_interval_over_test_rows() -> None:
    second = sample() | {"model": two_class_model() | {"auc": 0.7, "accuracy": 0.815}}
    both = pair(sample() | {"model": two_class_model()}, second)
    figures = {each.name: each for each in model_differences(*both)}
    assert figures["ROC AUC"].difference == "−0.076"
    assert figures["ROC AUC"].interval.startswith("outside ±0.0")
    assert figures["Accuracy"].interval.startswith("within ±")
    assert figures["Log loss"].interval == "no interval"


def test_requests_of_one_run_are_named() -> None:
    second = sample()
    second["requests"].append({**sample()["requests"][0], "name": "all-of-7"})
    assert "Only one of the runs has the requests all-of-7" in run_pair_page(
        sample(), second, ("a", "b")
    )


def test_runs_of_two_modes_are_not_compared() -> None:
    other = horizontal()
    with pytest.raises(DataError, match="in the mode vertical, and b one in the mode horizontal"):
        run_pair_page(sample(), other, ("a", "b"))


# --- the table as CSV -----------------------------------------------------------------------------


def test_the_csv_has_every_number_of_the_table() -> None:
    metrics = sample()
    table = method_table(read_record(metrics).requests[0])
    rows = list(csv.DictReader(io.StringIO(methods_csv(table))))
    assert [each["method"] for each in rows] == [each.name for each in table.lines]
    chosen = next(each for each in rows if each["method"] == "FedORA")
    assert float(chosen["Accuracy: test rows"]) == method(metrics, "fedora")["accuracy"]["test"]
    assert float(chosen["Effort: bytes"]) == method(metrics, "fedora")["cost"]["size"]
    assert rows[0]["Effort: time"] == ""


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "  =1"])
def test_no_text_of_the_csv_is_a_formula(text: str) -> None:
    metrics = sample()
    found = method(metrics, "fine-tune")
    found["title"] = found["meaning"] = found["guarantee"] = text
    content = methods_csv(method_table(read_record(metrics).requests[0]))
    line = next(each for each in csv.reader(io.StringIO(content)) if text in each[0])
    assert line[:3] == [f"'{text}"] * 3
    assert plain_cell("FedORA") == "FedORA"


def test_the_link_of_the_page_holds_the_csv() -> None:
    content = methods_csv(method_table(read_record(sample()).requests[0]))
    link = re.search(
        r'<a download="half-of-3-and-8-methods.csv" href="([^"]+)"', report_page(sample())
    )
    assert link
    assert link[1] == csv_link(content)
    assert base64.b64decode(link[1].partition(",")[2]).decode("utf-8-sig") == content


# --- privacy in words -----------------------------------------------------------------------------


def lines_of(metrics: dict[str, Any]) -> dict[str, str]:
    known = read_record(metrics)
    return {each.name: each.text for each in privacy_lines(known.run, known.requests)}


def test_the_claimed_epsilon_is_in_the_head_and_never_rounded_down() -> None:
    metrics = sample()
    claims = [
        {"party": "left", "covers": "features", "epsilon": 1.98761, "delta": 1e-5, "text": "t"},
        {"party": "right", "covers": "features", "epsilon": None, "delta": None, "text": "u"},
        {"party": "clinic", "covers": "labels", "epsilon": None, "delta": None, "text": "v"},
    ]
    metrics["run"]["privacy"] = {"summary": "formal privacy", "claims": claims}
    found = lines_of(metrics)
    assert found["Privacy of the features of left"] == "(ε, δ) = (1.988, 1e-05)."
    unclaimed = "Privacy of the features of right and the labels of clinic"
    assert found[unclaimed] == "no formal privacy, no ε is claimed."
    head = report_page(metrics).split("<main>")[0]
    assert "(ε, δ) = (1.988, 1e-05)" in head


def test_federated_modes_claim_no_epsilon() -> None:
    assert lines_of(horizontal()) == {"Privacy": "no formal privacy; no ε is claimed."}


@pytest.mark.parametrize(
    ("auc", "word", "share", "distance"),
    [
        (0.993, "a strong leak", "99", "0.49"),
        (0.02, "a strong leak", "98", "0.48"),
        (0.7, "a clear leak", "70", "0.20"),
        (0.4, "a weak leak", "60", "0.10"),
        (0.51, "close to guessing", "51", "0.01"),
    ],
)
def test_the_worst_party_gives_the_leak_of_labels(
    auc: float, word: str, share: str, distance: str
) -> None:
    metrics = sample()
    even = {"cosine_auc": 0.5, "norm_auc": 0.5}
    attack = metrics["requests"][0]["audits"]["label_attack"]
    attack["parties"] = {"left": even, "right": even | {"cosine_auc": auc}}
    text = label_leak(read_record(metrics).requests[0])
    assert text.startswith(f"{word} to right, the worst party.")
    assert f"in {share}\u202f% of all pairs: {distance} from guessing" in text


def test_a_leak_that_was_not_measured_is_not_denied() -> None:
    metrics = sample()
    metrics["requests"][0]["audits"] = None
    assert "not measured" in lines_of(metrics)["Leak of labels"]
