"""Tests of the study file: methods with their own settings, and unsupported settings."""

from typing import Any

import pytest
from pydantic import ValidationError
from three_parties import agreement

from configs.errors import ConfigError
from parties.cli.commands.forgetting import STUDY
from parties.common.errors import PolicyError
from parties.experiments.population.plan import SearchRange, Study, StudyMethod, read_study
from parties.experiments.population.run import require_supported
from parties.vertical.methods.fedora_settings import FedoraSettings
from parties.vertical.methods.registry import AGREEMENT

AGREED = AGREEMENT.model_validate(
    agreement(
        unlearning={"fedora": {"iterations": 7, "retain_share": 0.3}},
        training={"learning_rate": 0.02},
    ),
    strict=False,
)


def test_baseline_has_the_settings_of_its_row() -> None:
    row = StudyMethod(name="strong", way="gradient-ascent", settings={"steps": 21})
    ascent = row.agreement(AGREED).unlearning.gradient_ascent
    assert (ascent.steps, ascent.clip) == (21, AGREED.unlearning.gradient_ascent.clip)


def test_row_without_settings_keeps_the_agreement() -> None:
    assert StudyMethod(name="plain", way="fine-tune").agreement(AGREED) is AGREED


def test_invalid_setting_is_refused_and_its_row_named() -> None:
    row = StudyMethod(name="strong", way="gradient-ascent", settings={"step": 21})
    with pytest.raises(ConfigError, match="row 'strong'"):
        row.agreement(AGREED)


@pytest.mark.parametrize("form", [{"dual": "literal"}, {"adaptive": {}, "anneal": None}])
def test_variant_that_a_population_cannot_run_is_refused(form: dict[str, Any]) -> None:
    with pytest.raises(PolicyError, match="does not support these settings of FedORA"):
        require_supported(FedoraSettings.model_validate(form))


RIVALS: list[dict[str, Any]] = [
    {"name": "short", "way": "short-retrain"},
    {"name": "local", "way": "retrain-local"},
    {"name": "early", "way": "fine-tune", "settings": {"start": "rewind"}},
]
PLACE = {"name": "one", "config": "some.toml", "runs": 32}


def study_of(rows: list[dict[str, Any]], **place: Any) -> Study:
    return Study.model_validate({"population": [PLACE | place], "row": rows}, strict=False)


def test_population_names_its_rows_or_leaves_rows_out() -> None:
    rows = [*RIVALS, {"name": "fine-tune", "way": "fine-tune"}]
    study = study_of(rows, without=["fine-tune"])
    assert [row.name for row in study.rows(study.population[0])] == ["short", "local", "early"]
    study = study_of(rows, rows_of=["fine-tune", "short", "local", "early"])
    assert len(study.rows(study.population[0])) == 4
    with pytest.raises(ValidationError, match="names the row 'no', but no such row is defined"):
        study_of(rows, without=["no"])
    with pytest.raises(ConfigError, match="no population 'two'"):
        study.chosen(("two",))


@pytest.mark.parametrize("missing", range(3))
def test_table_without_a_cheap_exact_rival_is_refused(missing: int) -> None:
    rows = [row for place, row in enumerate(RIVALS) if place != missing]
    with pytest.raises(ValidationError, match=f"way = '{RIVALS[missing]['way']}'"):
        study_of(rows)


def test_sum_of_votes_needs_no_local_start() -> None:
    changes = ['top={kind="sum"}']
    assert study_of([RIVALS[0], RIVALS[2]], changes=changes).population


def test_primal_dual_method_needs_a_row_with_its_dual_off() -> None:
    fedora = {"name": "FedORA", "way": "fedora"}
    with pytest.raises(ValidationError, match="FedORA with its dual off"):
        study_of([*RIVALS, fedora])
    off = {"name": "off", "way": "fedora", "settings": {"score": False}, "dual_off_of": "FedORA"}
    assert study_of([*RIVALS, fedora, off]).row
    with pytest.raises(ValidationError, match="like the row 'other'"):
        study_of([*RIVALS, fedora, off | {"dual_off_of": "other"}, off])


def test_ablation_names_its_row_and_needs_no_row_with_its_dual_off() -> None:
    fedora = {"name": "FedORA", "way": "fedora"}
    off = {"name": "off", "way": "fedora", "settings": {"score": False}, "dual_off_of": "FedORA"}
    ten = {"name": "ten", "way": "fedora", "requests": 10, "ablation_of": "FedORA"}
    assert study_of([*RIVALS, fedora, off, ten]).row
    with pytest.raises(ValidationError, match="like the row 'other'"):
        study_of([*RIVALS, fedora, off, ten | {"ablation_of": "other"}])


def test_values_of_a_range_lie_on_a_logarithmic_scale() -> None:
    whole = SearchRange(low=1, high=16, whole=True)
    assert [whole.value(at, 0.5) for at in (0.0, 0.5, 1.0)] == [1, 4, 16]
    rate = SearchRange(low=0.1, high=10.0, of_training_rate=True)
    assert [rate.value(at, 0.5) for at in (0.0, 0.5, 1.0)] == [0.05, 0.5, 5.0]
    names = SearchRange(any=("keep", "fresh"))
    assert [names.value(at, 0.5) for at in (0.0, 0.49, 0.5, 1.0)] == [
        "keep", "keep", "fresh", "fresh",
    ]  # fmt: skip


def test_training_with_other_settings_is_a_row() -> None:
    row = StudyMethod(name="long", way="training", settings={"epochs": 40})
    assert row.agreement(AGREED).training.epochs == 40
    assert row.agreement(AGREED).training.learning_rate == AGREED.training.learning_rate


def test_shipped_study_is_valid() -> None:
    study = read_study(STUDY)
    assert {each.name for each in study.population} >= {"digits", "Adult, canaries"}
    for population in study.population:
        for row in study.rows(population):
            assert set(row.search) & {"start", "score"} == set()
