"""The page of a study follows from its record, its file and the chosen settings."""

from dataclasses import replace
from pathlib import Path

from parties.experiments.population.recorded import RecordedStudy
from parties.experiments.provenance import Provenance
from parties.experiments.study_pages.study_page import MIXED, study_page

ROOT = Path(__file__).parents[4]
CONFIGS = ROOT / "configs" / "bench"
RECORDED = RecordedStudy.read(ROOT / "docs" / "forgetting.json")
SEARCH = ROOT / "docs" / "forgetting-search.json"


def test_page_says_how_it_was_measured_and_what_is_missing() -> None:
    some = replace(RECORDED, populations={"digits": RECORDED.populations["digits"]})
    text = study_page(CONFIGS / "forgetting.toml", some, SEARCH)
    assert "Written by `vfl bench forgetting --seeds 5 --data DIR`" in text
    assert "over seeds 10 to 14" in text
    assert "**Not measured:** the populations Adult, canaries; " in text
    assert "; not searched: *FedORA*; *FedORA, dual off*" in text
    assert "![Leak against exchanged rows, for every method](forgetting.png)" in text


def test_page_says_how_each_row_differs_from_the_defaults() -> None:
    text = study_page(CONFIGS / "forgetting.toml", RECORDED, SEARCH)
    for line in (
        "| FedORA | `fedora` |  |",
        "| FedORA, dual off | `fedora` | `score = false` |",
        "| FedORA, ten requests | `fedora` | D_u in 10 requests, one after another |",
        "| FedORA, paper's form | `fedora` | the form of the paper; "
        "searched: `policy`, `primal_step`, `max_multiplier` |",
    ):
        assert line in text.splitlines()


def test_page_gives_the_seeds_of_each_population_if_they_differ() -> None:
    digits, breast = (RECORDED.populations[name] for name in ("digits", "breast"))
    fewer = [
        replace(row, auc={name: replace(auc, seeds=2) for name, auc in row.auc.items()})
        for row in breast.methods
    ]
    some = {"digits": digits, "breast": replace(breast, methods=fewer)}
    text = study_page(CONFIGS / "forgetting.toml", replace(RECORDED, populations=some), SEARCH)
    assert "means over seeds 10 to 14 (digits); seeds 10 to 11 (breast). The settings" in text


def test_page_of_another_study_has_its_own_command_and_picture() -> None:
    text = study_page(CONFIGS / "exact-methods.toml", RECORDED, SEARCH)
    assert "`vfl bench forgetting --study exact-methods.toml --seeds 5 --data DIR`" in text
    assert "The methods have their default settings." in text
    assert "(exact-methods.png)" in text
    assert "(forgetting.md)" not in text


def test_page_says_that_parts_come_from_different_code() -> None:
    for code in ("", "digest"):
        own = replace(RECORDED, measured=[Provenance("abc1234", "2 cores", code)])
        assert (MIXED in study_page(CONFIGS / "forgetting.toml", own, SEARCH)) == (not code)
