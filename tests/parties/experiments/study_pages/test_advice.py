"""The generated parts of the page for practitioners: a table, and sentences with figures."""

from dataclasses import replace
from pathlib import Path

import pytest

from parties.experiments.population.audit import U_LIRA
from parties.experiments.population.recorded import RecordedStudy
from parties.experiments.population.summary import NULL, MethodSummary, PopulationSummary, Spread
from parties.experiments.study_pages.advice import (
    PARTS,
    SHOWN,
    VOTES,
    Cell,
    accuracy_cell,
    advice_table,
    changed_sentence,
    exact_sentence,
    leak_cell,
    local_sentence,
    rival_list,
    rows_cell,
    trigger_cell,
)

ROOT = Path(__file__).parents[4]
RECORDED = RecordedStudy.read(ROOT / "docs" / "forgetting.json").populations
DIGITS = RECORDED["digits"]


def row(
    name: str, way: str, leak: float, rows: float, gap: float = 0.0, changed: float = 1.0
) -> MethodSummary:
    """A row of the record with these figures."""
    fine_tune = DIGITS.method("fine-tune").auc[U_LIRA]
    auc = replace(fine_tune, value=leak, low=leak, high=leak, estimate=leak)
    return replace(
        DIGITS.method("fine-tune"), name=name, way=way, auc={U_LIRA: auc}, rows=rows,
        gap=Spread(gap, 0.1), changed=Spread(changed, 0.1), triggered=Spread(-0.4, 0.1),
    )  # fmt: skip


FEDORA = row("FedORA", "fedora", 0.56, 0.3, changed=2.0)
LOCAL = row("local Retrain", "retrain-local", 0.5, 0.07, gap=-0.94, changed=3.0)


def place(*rows: MethodSummary, name: str = "data") -> PopulationSummary:
    return replace(DIGITS, name=name, methods=list(rows))


@pytest.mark.parametrize("part", ["leak", "accuracy", "rows"])
def test_table_has_a_row_for_every_data_set_and_the_same_columns(part: str) -> None:
    head, _, *lines = [
        line.strip("| ").split(" | ") for line in PARTS[part](list(RECORDED.values())).splitlines()
    ]
    assert head[1:] == list(SHOWN.values())
    assert [line[0] for line in lines] == [each for each in RECORDED if not each.endswith(VOTES)]
    assert {len(line) for line in lines} == {len(head)}


@pytest.mark.parametrize(
    ("cell", "shown"),
    [(leak_cell, "0.56"), (accuracy_cell, "−0.5"), (trigger_cell, "0.0 %"), (rows_cell, "0.30")],
)
def test_table_shows_a_figure_of_each_method_and_which_are_not_measured(
    cell: Cell, shown: str
) -> None:
    (line,) = advice_table(cell, [place(replace(FEDORA, gap=Spread(-0.46, 0.1)))]).splitlines()[2:]
    cells = line.strip("| ").split(" | ")[1:]
    assert dict(zip(SHOWN, cells, strict=True)) == dict.fromkeys(SHOWN, "not measured") | {
        "FedORA": shown
    }


def test_table_of_triggers_leaves_out_data_sets_without_one() -> None:
    without = place(replace(FEDORA, triggered=None), name="without")
    text = advice_table(trigger_cell, [place(FEDORA), without])
    assert "| data |" in text
    assert "without" not in text


def test_sentence_on_exact_methods_gives_the_extreme_leaks_and_the_median_interval() -> None:
    exact = [row(NULL, "retrain", 0.48, 1.0), row("short Retrain", "short-retrain", 0.55, 0.1)]
    other = row("20 epochs in place of 30", "retrain", 0.9, 1.0)
    wide = replace(LOCAL.auc[U_LIRA], low=0.44, high=0.56)
    local = replace(LOCAL, auc={U_LIRA: wide})
    text = exact_sentence([place(*exact, other, local)])
    assert "leaks of 0.48 to 0.55 show" in text
    assert text.endswith(
        "are wider than 0.00, and 1 of the 3 intervals of these methods contain 0.5."
    )
    assert exact_sentence([place(local)]).endswith(
        "are wider than 0.12, and 1 of the 1 intervals of these methods contain 0.5."
    )
    assert exact_sentence([place(FEDORA)]) == "No exact method is measured."


def test_sentence_on_the_local_retrain_names_data_sets_with_a_larger_loss() -> None:
    near, far = place(LOCAL, name="near"), place(replace(LOCAL, gap=Spread(-1.2, 0.1)), name="far")
    assert local_sentence([near]) == "It loses at most one point of accuracy against Retrain."
    assert local_sentence([near, far]).endswith("against Retrain except on far (−1.2).")
    assert local_sentence([place(FEDORA)]) == "`retrain-local` is not measured."


@pytest.mark.parametrize(
    ("changed", "verdict"),
    [(2.0, "FedORA changes fewer on every data set"), (3.5, "FedORA does not change fewer")],
)
def test_sentence_on_changed_predictions_compares_both_methods(
    changed: float, verdict: str
) -> None:
    own = replace(FEDORA, changed=Spread(changed, 0.1))
    assert changed_sentence([place(own, LOCAL)]) == (
        f"{verdict}: {changed} % on average, and `retrain-local` 3.0 %."
    )
    more = place(replace(FEDORA, changed=Spread(9.0, 0.1)), LOCAL, name="more")
    assert changed_sentence([place(FEDORA, LOCAL), more]).startswith(
        "FedORA changes fewer on data only: 5.5 % on average"
    )
    assert changed_sentence([place(FEDORA)]) == "FedORA is not measured."


def test_rivals_leak_less_and_lose_little_accuracy() -> None:
    rows = [
        FEDORA, LOCAL,
        row("cheap", "fine-tune", 0.55, 0.3), row("dear", "shrink-perturb", 0.51, 0.6, gap=-1.0),
        row("equal", "scrub", 0.556, 0.1), row("useless", "relabel", 0.5, 0.1, gap=-1.1),
        row("FedORA, another form", "fedora", 0.5, 0.1),
    ]  # fmt: skip
    other = place(FEDORA, row("cheap", "fine-tune", 0.57, 0.3), name="other")
    assert rival_list([place(*rows), other, place(LOCAL, name="without FedORA")]) == (
        "* *cheap*, on 1 of 2 data sets: data (0.55 for 0.30).\n"
        "* *dear*, on 1 of 1 data set: data (0.51 for 0.60)."
    )
    late = row("late", "scrub", 0.5, 0.1)
    late = replace(late, auc={U_LIRA: replace(late.auc[U_LIRA], estimate=0.57)})
    assert "late" not in rival_list([place(*rows, late)])  # lower by its correction alone
    assert rival_list([place(FEDORA)]) == (
        "No other approximate method that is measured leaks less."
    )


def test_page_uses_every_part() -> None:
    text = (ROOT / "docs" / "forgetting.md").read_text()
    assert all(f"<!-- forgetting: {name} -->" in text for name in PARTS)
