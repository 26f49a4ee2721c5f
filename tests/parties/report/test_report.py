"""Tests of the report of a run, as an HTML page and as terminal tables."""

import io
import re
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser
from typing import Any

import pytest
from rich.console import Console
from sample_metrics import sample

from parties.report.pages.scientist import report_page
from parties.report.record import read_record
from parties.report.terminal import report_tables

HOSTILE = "<script>alert('1')</script><img src=x onerror=a> & \"$\\frac{$ [red]x[/red] {{ 7*7 }}"
Parts = dict[str, Any]  # parts of the record, with the value that stands for "not measured"
REQUEST_PARTS: Parts = {"threshold": None, "audits": None, "purged": {}, "kept": [], "remains": {}}
METHOD_PARTS: Parts = {
    **dict.fromkeys(("accuracy", "membership", "divergence", "cost", "stopped")),
    **{"figures": [], "steps": []},
}
AUDITS = ("entropy", "label_attack", "canaries", "completeness", "parameters", "relearn")
RUN_PARTS: Parts = {
    **dict.fromkeys(("rows", "guarantee", "psi", "privacy", "overlap", "test_accuracy")),
    **{"parties": [], "software": {}},
}
RECORD_PARTS: Parts = {"training": None, "model": None, "traffic": [], "peers": []}


class Reader(HTMLParser):
    """Collects a page's tags, attributes and text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.text += data

    def values(self, name: str) -> list[str]:
        return [value for key, value in self.attributes if key == name]


def printed(metrics: dict[str, Any], width: int = 100) -> str:
    console = Console(width=width, file=io.StringIO(), record=True)
    console.print(report_tables(metrics))
    return console.export_text()


def without(
    metrics: dict[str, Any],
    *,
    run: Parts | None = None,
    request: Parts | None = None,
    method: Parts | None = None,
) -> Any:
    """Replace parts of the run, of every request and of every method."""
    metrics["run"].update(run or {})
    for each in metrics["requests"]:
        each.update(request or {})
        for one in each["methods"]:
            one.update(method or {})
    return metrics


@pytest.fixture(scope="module")
def shown() -> str:
    return report_page(sample())


def test_every_method_has_its_line(shown: str) -> None:
    text = re.sub(r"\n+", "\n", Reader(shown).text)
    for method in read_record(sample()).requests[0].methods:
        name, meaning = method.title, method.meaning
        assert name
        assert meaning
        assert f"{name}\n{meaning}" in text or f"{name}\nthis request, {meaning}" in text


@pytest.mark.parametrize(
    "sentence",
    [
        "digits: forgetting 104 rows",
        "clinic holds the labels; left and right hold features only.",
        "104 of the 1,064 training rows were to be forgotten: 50\u202f% of classes 3 and 8.",
        "as another Retrain is (a further Retrain: up to 1.7; original: 4.1)",
        "test accuracy 0.4 points below Retrain; 18\u202f% of Retrain's rows exchanged.",
        "Audit level “full”: the model was compared with 3 independent Retrains by",
        "refitted by Retrain",
        "sha256:8d3b0f6f2a9e4c1d7b5a60f3e8c2d194a7b6c5d4e3f2019a8b7c6d5e4f302112",
        "torch 2.13.0",
        "heuristic",
    ],
)
def test_the_page_has_the_sentence(shown: str, sentence: str) -> None:
    assert sentence in " ".join(Reader(shown).text.split(" "))


def test_the_page_loads_no_other_file(shown: str) -> None:
    parsed = Reader(shown)
    assert not parsed.tags & {"link", "img", "iframe", "object", "image", "foreignobject"}
    assert not re.search(r"https?://|@import|url\((?!#)|<!ENTITY", shown)
    assert not parsed.values("src") + parsed.values("srcset") + parsed.values("xlink:href")
    links = {target for target in parsed.values("href") if target[0] != "#"}
    assert {each.partition(",")[0] for each in links} == {
        "officer.html",
        "data:text/csv;charset=utf-8;base64",
    }
    assert not [name for name, _ in parsed.attributes if name.startswith("on")]


def test_the_page_runs_its_own_script_alone(shown: str) -> None:
    scripts = re.findall(r"<script>(.*?)</script>", shown, re.DOTALL)
    digest = b64encode(sha256(scripts[0].encode()).digest()).decode()
    assert shown.count("<script") == len(scripts) == 1
    policy = next(each for each in Reader(shown).values("content") if "script-src" in each)
    assert policy.split("; ") == [
        "default-src 'none'",
        "style-src 'unsafe-inline'",
        f"script-src 'sha256-{digest}'",
    ]


def test_ids_on_the_page_are_unique_and_resolve(shown: str) -> None:
    parsed = Reader(shown)
    names = parsed.values("id")
    assert len(names) == len(set(names))
    links = [each for each in parsed.values("href") if each.startswith("#")]
    used = links + re.findall(r"url\((#[^)]+)\)", shown)
    assert {target.removeprefix("#") for target in used} <= set(names)


def test_figures_have_descriptions_and_heading_cells_a_scope(shown: str) -> None:
    figures = re.findall(r"<svg ([^>]*)>", shown)
    assert len(figures) == shown.count("<figure>") == 19
    assert all('role="img"' in figure and 'aria-label="' in figure for figure in figures)
    assert all("scope=" in heading for heading in re.findall(r"<th\b[^>]*>", shown))
    assert "Original 4.1" in shown


def test_equal_metrics_give_equal_pages(shown: str) -> None:
    assert report_page(sample()) == shown


def test_html_in_names_is_escaped() -> None:
    metrics = sample()
    metrics["run"].update(federation=HOSTILE, session=HOSTILE, agreement=HOSTILE, guarantee=HOSTILE)
    metrics["run"]["parties"][0].update(name=HOSTILE, role=HOSTILE)
    metrics["run"]["software"] = {HOSTILE: HOSTILE}
    request = metrics["requests"][0]
    request.update(name=HOSTILE, kept=[HOSTILE])
    request["rows"]["classes"] = [HOSTILE]
    request["methods"][1]["stopped"] = HOSTILE
    request["purged"] = {HOSTILE: [HOSTILE]}
    request["threshold"]["policy"] = request["audits"]["canaries"]["result"] = HOSTILE
    request["methods"][2]["name"] = metrics["traffic"][0]["phase"] = HOSTILE
    metrics["peers"][0]["peer"] = HOSTILE
    page = report_page(metrics)
    parsed = Reader(page)
    assert page.count("<script") == 1
    assert "img" not in parsed.tags
    assert not {"onerror", "src"} & {name for name, _ in parsed.attributes}
    assert parsed.text.count(HOSTILE) >= 16
    assert "[red]x[/red]" in printed(metrics, width=1000)


@pytest.mark.parametrize("part", [*RUN_PARTS, *RECORD_PARTS])
def test_missing_part_of_the_run_is_left_out(part: str) -> None:
    metrics = {**sample(), "requests": []}
    if part in RUN_PARTS:
        metrics = without(metrics, run={part: RUN_PARTS[part]})
    else:
        metrics[part] = RECORD_PARTS[part]
    assert "None" not in Reader(report_page(metrics)).text + printed(metrics)


@pytest.mark.parametrize("part", [*REQUEST_PARTS, *METHOD_PARTS])
def test_a_part_of_a_request_that_was_not_run_is_left_out(part: str) -> None:
    metrics = sample() | RECORD_PARTS
    if part in REQUEST_PARTS:
        metrics = without(metrics, request={part: REQUEST_PARTS[part]})
    else:
        metrics = without(metrics, method={part: METHOD_PARTS[part]})
    assert "None" not in Reader(report_page(metrics)).text + printed(metrics)


@pytest.mark.parametrize("audit", AUDITS)
def test_audit_that_was_not_run_is_left_out(audit: str) -> None:
    metrics = sample() | RECORD_PARTS
    metrics["requests"][0]["audits"][audit] = None
    assert "None" not in Reader(report_page(metrics)).text + printed(metrics)


def test_report_of_a_request_without_audits() -> None:
    metrics = without(sample(), run=RUN_PARTS, request=REQUEST_PARTS, method=METHOD_PARTS)
    metrics |= RECORD_PARTS
    parsed = Reader(report_page(metrics))
    assert "svg" not in parsed.tags
    assert "not run" in parsed.text
    assert "Not compared with a Retrain" in printed(metrics)


def test_degenerate_numbers_are_plotted() -> None:
    metrics = sample()
    request = metrics["requests"][0]
    metrics["training"]["steps"] = metrics["training"]["steps"][:1]
    chosen = request["methods"][1]
    chosen["steps"] = [dict.fromkeys(chosen["steps"][0], 0.0) | {"number": 0}]
    for counts in (
        request["audits"]["entropy"][name] for name in ("original", "fedora", "retrain")
    ):
        counts.update(forgotten=[0] * 20)
    for method in request["methods"]:
        for divergence in method["divergence"].values():
            divergence.update(js=0.0, ratio=1.0)
        method["membership"].update(auc=0.5, interval=[0.5, 0.5])
    for row in metrics["traffic"]:
        row.update(seconds=0.0, bytes=0)
    page = report_page(metrics)
    assert "Proves nothing here" in page
    assert "Nothing shown: even before the request" in page


def test_report_of_training_without_requests() -> None:
    metrics = {**sample(), "requests": []}
    text = Reader(report_page(metrics)).text
    assert "digits: one model, nothing forgotten" in text
    assert "\nTraining\n" in text
    assert "Membership" not in text
    assert "Traffic" in printed(metrics)


def test_two_requests_are_listed_first() -> None:
    metrics = sample()
    metrics["requests"].append({**sample()["requests"][0], "name": "all-of-7"})
    shown = report_page(metrics)
    assert "208 rows in 2 requests" in shown
    assert '<a href="#request-2">all-of-7</a>' in shown
    assert shown.count("No difference found to a model") == 2


def test_terminal_tables_fit_a_hundred_columns() -> None:
    metrics = sample()
    for method in metrics["requests"][0]["methods"]:
        method["accuracy"]["test_remaining_classes"] = 1.0
    text = printed(metrics, width=100)
    assert "…" not in text
    assert all(each.title in text for each in read_record(metrics).requests[0].methods)
    assert "18 % of Retrain's rows exchanged." in " ".join(text.split())
    wider = printed(metrics, width=500)
    assert all(line in wider for line in text.splitlines() if line.startswith(" Retrain"))


def test_report_without_ratios_is_complete() -> None:
    metrics = sample()
    for method in metrics["requests"][0]["methods"]:
        for part in (method["divergence"] or {}).values():
            part["ratio"] = None
    assert "FedORA" in report_page(metrics)
    report_tables(metrics)


def test_the_terminal_explains_the_columns_that_it_shows() -> None:
    text, star = " ".join(printed(sample()).split()), "*: the method of this request."
    assert f"{star} attack: tells forgotten rows" in text
    assert "JS: distance of the predictions from a Retrain's" in text


def unfinished(**changes: Any) -> dict[str, Any]:
    """The record of a run that ended early, before any request was carried out."""
    return sample() | {"failure": "right: closed the connection (train)", "requests": []} | changes


def test_page_of_a_run_without_a_model_claims_no_model() -> None:
    metrics = unfinished(training=None)
    page = Reader(report_page(metrics)).text
    assert "digits: unfinished run, no model trained, nothing forgotten" in page
    for text in (page, " ".join(printed(metrics).split())):
        assert "No model was trained." in text
        assert "trained one model" not in text
        assert "one model, nothing" not in text


def test_page_of_a_run_that_ended_after_training_has_its_model() -> None:
    page = Reader(report_page(unfinished())).text
    assert "digits: unfinished run, model trained, nothing forgotten" in page
    assert "trained one model" in page
    assert "No model was trained" not in page
