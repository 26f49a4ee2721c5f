"""Tests of the report: one document as canonical JSON, as a page and as tables."""

import io
import json
import math
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from parties.comparison import METHODS
from parties.report import page, table, write_metrics, write_page
from tests.parties.sample_metrics import sample

HOSTILE = "<script>alert('1')</script><img src=x onerror=a> & \"$\\frac{$ [red]x[/red] {{ 7*7 }}"
REQUEST_PARTS = (
    *("classes", "fraction", "dropped", "canaries", "threshold", "iterations", "stopped"),
    *("entropy", "label_attack", "canary_audit", "purged", "kept"),
)
METHOD_PARTS = ("accuracy", "membership", "divergence", "cost")
RUN_PARTS = ("parties", "rows", "seconds", "software", "guarantee", "seed", "session", "agreement")


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
        return [value for found, value in self.attributes if found == name]


def printed(metrics: dict[str, Any], width: int = 100) -> str:
    console = Console(width=width, file=io.StringIO(), record=True)
    console.print(table(metrics))
    return console.export_text()


def without(metrics: dict[str, Any], parts: dict[str, tuple[str, ...] | list[str]]) -> Any:
    """Null the named parts of the run, of every request and of every method."""
    metrics["run"].update(dict.fromkeys(parts.get("run", ())))
    for request in metrics["requests"]:
        request.update(dict.fromkeys(parts.get("request", ())))
        for method in request["methods"]:
            method.update(dict.fromkeys(parts.get("method", ())))
    metrics.update(dict.fromkeys(parts.get("metrics", ())))
    return metrics


@pytest.fixture(scope="module")
def shown() -> str:
    return page(sample())


def test_every_method_has_its_line(shown: str) -> None:
    text = Reader(shown).text
    for name, meaning in METHODS.values():
        assert f"{name}{meaning}" in text.replace("\n", "")


@pytest.mark.parametrize(
    "said",
    [
        "digits: forgetting 104 rows",
        "clinic holds the labels; left and right hold features only.",
        "104 of the 1,064 training rows were to be forgotten: 50\u202f% of classes 3 and 8.",
        "1.3 times as far from a Retrain as another Retrain is (original: 4.1)",
        "test accuracy 0.4 points below Retrain; 18\u202f% of Retrain's rows exchanged.",
        "refitted by Retrain",
        "sha256:8d3b0f6f2a9e4c1d7b5a60f3e8c2d194a7b6c5d4e3f2019a8b7c6d5e4f302112",
        "torch 2.13.0",
        "heuristic, audited",
    ],
)
def test_the_page_says_it_in_words(shown: str, said: str) -> None:
    assert said in " ".join(Reader(shown).text.split(" "))


def test_the_page_needs_nothing_else(shown: str) -> None:
    found = Reader(shown)
    assert not found.tags & {"script", "link", "img", "iframe", "object", "image", "foreignobject"}
    assert not re.search(r"https?://|@import|url\((?!#)|<!ENTITY", shown)
    assert not found.values("src") + found.values("srcset") + found.values("xlink:href")
    assert all(target.startswith("#") for target in found.values("href"))
    assert not [name for name, _ in found.attributes if name.startswith("on")]


def test_names_on_the_page_are_unique_and_found(shown: str) -> None:
    found = Reader(shown)
    names = found.values("id")
    assert len(names) == len(set(names))
    used = found.values("href") + re.findall(r"url\((#[^)]+)\)", shown)
    assert {target.removeprefix("#") for target in used} <= set(names)


def test_a_figure_is_read_aloud_and_a_heading_cell_knows_its_side(shown: str) -> None:
    figures = re.findall(r"<svg ([^>]*)>", shown)
    assert len(figures) == shown.count("<figure>") == 19
    assert all('role="img"' in figure and 'aria-label="' in figure for figure in figures)
    assert all("scope=" in heading for heading in re.findall(r"<th\b[^>]*>", shown))
    assert "Original 4.1" in shown


def test_one_document_gives_one_page(shown: str) -> None:
    assert page(sample()) == shown


def test_hostile_names_stay_text() -> None:
    metrics = sample()
    metrics["run"].update(federation=HOSTILE, session=HOSTILE, agreement=HOSTILE, guarantee=HOSTILE)
    metrics["run"]["parties"][0].update(name=HOSTILE, role=HOSTILE)
    metrics["run"]["software"] = {HOSTILE: HOSTILE}
    request = metrics["requests"][0]
    request.update(name=HOSTILE, classes=[HOSTILE], stopped=HOSTILE, kept=[HOSTILE])
    request["purged"] = {HOSTILE: [HOSTILE]}
    request["threshold"]["policy"] = request["canary_audit"]["verdict"] = HOSTILE
    request["methods"][2]["name"] = metrics["traffic"][0]["phase"] = HOSTILE
    metrics["peers"][0]["peer"] = HOSTILE
    found = Reader(page(metrics))
    assert not found.tags & {"script", "img"}
    assert not {"onerror", "src"} & {name for name, _ in found.attributes}
    assert found.text.count(HOSTILE) >= 16
    assert "[red]x[/red]" in printed(metrics, width=1000)


@pytest.mark.parametrize(
    ("level", "part"),
    [
        *(("run", part) for part in RUN_PARTS),
        *(("request", part) for part in REQUEST_PARTS),
        *(("method", part) for part in METHOD_PARTS),
        *(("metrics", part) for part in ("training", "traffic", "peers", "requests")),
    ],
)
def test_a_part_that_was_not_run_is_left_out(level: str, part: str) -> None:
    metrics = without(sample(), {level: (part,)})
    assert "None" not in Reader(page(metrics)).text
    assert "None" not in printed(metrics)


def test_nothing_but_the_request_was_run() -> None:
    parts = {"run": RUN_PARTS, "request": REQUEST_PARTS, "method": METHOD_PARTS}
    metrics = without(sample(), {**parts, "metrics": ("training", "traffic", "peers")})
    found = Reader(page(metrics))
    assert "svg" not in found.tags
    assert "not run" in found.text
    assert "Not compared with a Retrain" in printed(metrics)


def test_a_training_without_requests() -> None:
    metrics = {**sample(), "requests": []}
    text = Reader(page(metrics)).text
    assert "digits: one model, nothing forgotten" in text
    assert "How the model was trained" in text
    assert "Membership" not in text
    assert "Traffic" in printed(metrics)


def test_two_requests_are_listed_first() -> None:
    metrics = sample()
    metrics["requests"].append({**sample()["requests"][0], "name": "all-of-7"})
    shown = page(metrics)
    assert "208 rows in 2 requests" in shown
    assert '<a href="#request-2">all-of-7</a>' in shown


def test_the_tables_fit_a_hundred_columns() -> None:
    metrics = sample()
    for method in metrics["requests"][0]["methods"]:
        method["accuracy"]["test_remaining_classes"] = 1.0
    text = printed(metrics, width=100)
    assert "…" not in text
    assert all(name in text for name, _ in METHODS.values())
    assert "18 % of Retrain's rows exchanged." in " ".join(text.split())
    assert text == printed(metrics, width=100)
    assert max(map(len, printed(metrics, width=500).split("\n\n")[0].splitlines())) <= 100


def test_canonical_json_is_sorted_compact_and_ends_in_a_newline(tmp_path: Path) -> None:
    write_metrics({"b": [1, 2.5, None], "a": {"é": True}}, tmp_path / "metrics.json")
    assert (
        tmp_path / "metrics.json"
    ).read_bytes() == '{"a":{"é":true},"b":[1,2.5,null]}\n'.encode()


def test_canonical_json_does_not_depend_on_the_order_of_keys(tmp_path: Path) -> None:
    metrics = sample()
    write_metrics(metrics, tmp_path / "one.json")
    write_metrics(dict(reversed(metrics.items())), tmp_path / "two.json")
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()
    assert json.loads((tmp_path / "one.json").read_text()) == metrics


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_not_finite_is_refused_by_its_place(tmp_path: Path, value: float) -> None:
    metrics = sample()
    metrics["requests"][0]["methods"][1]["accuracy"]["test"] = value
    with pytest.raises(ValueError, match=r"metrics\.requests\[0\]\.methods\[1\]\.accuracy\.test"):
        write_metrics(metrics, tmp_path / "metrics.json")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("write", [write_metrics, write_page])
def test_a_write_that_fails_leaves_the_old_file_and_no_half(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[Any, Path], None]
) -> None:
    target = tmp_path / "report"
    target.write_text("old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        write(sample(), target)
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]
