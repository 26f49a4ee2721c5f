"""The requirements of a study follow from its record, and are judged where they mean something."""

from dataclasses import replace
from pathlib import Path

import pytest

from parties.experiments.population.audit import U_LIRA
from parties.experiments.population.recorded import RecordedStudy
from parties.experiments.population.summary import PopulationSummary
from parties.experiments.study_pages.checks import StudyCheck, shows_forgetting, study_checks

ROOT = Path(__file__).parents[4]
RECORDED = RecordedStudy.read(ROOT / "docs" / "forgetting.json").populations
DIGITS = RECORDED["digits"]


def checks_of(found: PopulationSummary) -> dict[str, StudyCheck]:
    return {each.name.partition(": ")[2]: each for each in study_checks([found])}


def with_leak(name: str, value: float, low: float) -> PopulationSummary:
    """The digits whose row ``name`` has this leak."""
    methods = [
        replace(own, auc=own.auc | {U_LIRA: replace(own.auc[U_LIRA], value=value, low=low)})
        if own.name == name
        else own
        for own in DIGITS.methods
    ]
    return replace(DIGITS, methods=methods)


def test_what_the_dual_removes_is_a_part_of_the_corrected_leak() -> None:
    own, off, trained = (
        DIGITS.method(name).auc[U_LIRA].value for name in ("FedORA", "FedORA, dual off", "original")
    )
    found = checks_of(DIGITS)["FedORA: leak that the dual removes, of the original's excess"]
    assert found.value == pytest.approx((off - own) / (trained - 0.5))
    assert found.unit.startswith("AUC before the correction lower by 0.03")
    assert found.ok


@pytest.mark.parametrize(("value", "low"), [(0.64, 0.49), (0.5, 0.5001)])
def test_without_a_leak_of_the_trained_models_nothing_is_said_about_it(
    value: float, low: float
) -> None:
    """Its excess is chance: FedORA's part of it could have any value and any sign."""
    found = with_leak("original", value, low)
    assert shows_forgetting(DIGITS)
    assert not shows_forgetting(found)
    left = set(checks_of(DIGITS)) - set(checks_of(found))
    assert left == {
        "FedORA: part of the original's excess leak that remains",
        "FedORA: leak that the dual removes, of the original's excess",
        "FedORA, the better start: part of the excess that remains",
    }


def test_pneumonia_cannot_show_forgetting() -> None:
    assert [name for name, each in RECORDED.items() if not shows_forgetting(each)] == [
        "PneumoniaMNIST"
    ]
