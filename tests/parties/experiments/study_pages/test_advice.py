"""The generated parts of the page for practitioners: a table, and sentences with figures."""

from dataclasses import replace
from pathlib import Path

import pytest

from parties.experiments.population.audit import U_LIRA
from parties.experiments.population.recorded import RecordedStudy
from parties.experiments.population.summary import MethodSummary, PopulationSummary, Spread
from parties.experiments.study_pages.advice import (
    COLUMNS,
    PARTS,
    SHOWN,
    VOTES,
    advice_table,
    changed_sentence,
    local_sentence,
    rival_list,
)

ROOT = Path(__file__).parents[4]
RECORDED = RecordedStudy.read(ROOT / "docs" / "forgetting.json").populations
DIGITS = RECORDED["digits"]


def row(
    name: str, way: str, leak: float, rows: float, gap: float = 0.0, changed: float = 1.0
) -> MethodSummary:
    """A row of the record with these figures."""
    auc = replace(DIGITS.method("fine-tune").auc[U_LIRA], value=leak, low=leak, high=leak)
    return replace(
        DIGITS.method("fine-tune"), name=name, way=way, auc={U_LIRA: auc}, rows=rows,
        gap=Spread(gap, 0.1), changed=Spread(changed, 0.1), triggered=Spread(-0.4, 0.1),
    )  # fmt: skip


FEDORA = row("FedORA", "fedora", 0.56, 0.3, changed=2.0)
LOCAL = row("local Retrain", "retrain-local", 0.5, 0.07, gap=-0.94, changed=3.0)


def place(*rows: MethodSummary, name: str = "data") -> PopulationSummary:
    return replace(DIGITS, name=name, methods=list(rows))


def test_table_has_the_same_rows_for_every_data_set() -> None:
    lines = [line.split(" | ") for line in advice_table(list(RECORDED.values())).splitlines()[2:]]
    names = [name for name in RECORDED if not name.endswith(VOTES)]
    assert [line[1] for line in lines] == list(SHOWN.values()) * len(names)
    assert [line[0] for line in lines[:: len(SHOWN)]] == [f"| **{name}**" for name in names]
    assert {len(line) for line in lines} == {len(COLUMNS)}


def test_table_shows_the_figures_of_a_row_and_that_a_row_is_missing() -> None:
    text = advice_table([place(FEDORA)])
    assert "| **FedORA** | 0.56 (0.56 to 0.56) | +0.0 | 0.0 % | 2.0 % | 0.30 |" in text
    assert "| fine-tune | not measured |  |  |  |  |" in text


def test_sentence_on_the_local_retrain_names_data_sets_with_a_larger_loss() -> None:
    near, far = place(LOCAL, name="near"), place(replace(LOCAL, gap=Spread(-1.2, 0.1)), name="far")
    assert local_sentence([near]) == (
        "Its accuracy minus Retrain's in points: near −0.9. So it loses no more than a point."
    )
    assert local_sentence([near, far]).endswith("So it loses more than a point on far.")
    assert local_sentence([place(FEDORA)]) == "`retrain-local` is not measured."


@pytest.mark.parametrize(
    ("changed", "verdict"),
    [
        (2.0, "FedORA changes fewer on every data set."),
        (3.5, "FedORA does not change fewer."),
    ],
)
def test_sentence_on_changed_predictions_compares_both_methods(
    changed: float, verdict: str
) -> None:
    own = replace(FEDORA, changed=Spread(changed, 0.1))
    text = changed_sentence([place(own, LOCAL)])
    assert f"data {changed} % and 3.0 %" in text
    assert text.endswith(verdict)
    more = place(replace(FEDORA, changed=Spread(9.0, 0.1)), LOCAL, name="more")
    both = changed_sentence([place(FEDORA, LOCAL), more])
    assert both.endswith("FedORA changes fewer on data only.")


def test_rivals_leak_less_at_equal_or_at_higher_cost() -> None:
    rows = [
        FEDORA, LOCAL,
        row("cheap", "fine-tune", 0.55, 0.3), row("dear", "shrink-perturb", 0.51, 0.6, gap=-1.0),
        row("equal", "scrub", 0.556, 0.1), row("useless", "relabel", 0.5, 0.1, gap=-1.1),
        row("FedORA, another form", "fedora", 0.5, 0.1),
    ]  # fmt: skip
    assert rival_list([place(*rows)]) == (
        "* **data**: FedORA leaks 0.56 for 0.30 of a Retrain's rows. With at most as many rows, "
        "*cheap* (0.55 for 0.30, accuracy +0.0) leaks less. With more rows: "
        "*dear* (0.51 for 0.60, accuracy −1.0)."
    )
    assert rival_list([place(FEDORA)]).endswith("With at most as many rows, no method leaks less.")
    assert rival_list([place(LOCAL)]) == "* **data**: FedORA is not measured."


def test_page_uses_every_part() -> None:
    text = (ROOT / "docs" / "forgetting.md").read_text()
    assert all(f"<!-- forgetting: {name} -->" in text for name in PARTS)
