"""Tests of the study file: methods with their own settings, and unsupported settings."""

from typing import Any

import pytest
from pydantic import ValidationError
from three_parties import agreement

from configs.errors import ConfigError
from parties.common.errors import PolicyError
from parties.experiments.population.methods import require_supported
from parties.experiments.population.plan import Study, StudyMethod
from parties.vertical.methods.fedora import FedoraSettings
from parties.vertical.methods.registry import AGREEMENT

AGREED = AGREEMENT.model_validate(
    agreement(
        unlearning={"fedora": {"iterations": 7, "retain_share": 0.3}},
        training={"learning_rate": 0.02},
    ),
    strict=False,
)


def test_baseline_of_equal_length_has_fedora_s_epochs_and_the_learning_rate_of_training() -> None:
    row = StudyMethod(name="long", way="fine-tune", as_long=True)
    plan = row.agreement(AGREED).unlearning
    assert (plan.fine_tune.epochs, plan.fine_tune.learning_rate) == (3, 0.02)
    assert plan.relabel == AGREED.unlearning.relabel


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


def test_row_of_one_population_is_left_out_of_the_others() -> None:
    rows = [{"name": name, "way": "fine-tune"} for name in ("all", "kept")]
    places = [
        {"name": name, "config": "some.toml", "runs": 32, "rows_of": rows_of}
        for name, rows_of in (("one", []), ("votes", ["kept"]))
    ]
    study = Study.model_validate({"population": places, "row": rows}, strict=False)
    (one,) = study.chosen(("one",))
    assert [row.name for row in study.rows(one)] == ["all"]
    assert [each.name for each in study.chosen(())] == ["one", "votes"]
    with pytest.raises(ConfigError, match="no population 'two'"):
        study.chosen(("two",))


def test_population_may_exclude_rows() -> None:
    place = {"name": "one", "config": "some.toml", "runs": 32, "without": ["long"]}
    rows = [{"name": name, "way": "fine-tune"} for name in ("short", "long")]
    study = Study.model_validate({"population": [place], "row": rows}, strict=False)
    assert [row.name for row in study.rows(study.population[0])] == ["short"]
    unknown = place | {"without": ["unknown"]}
    with pytest.raises(
        ValidationError, match="names the row 'unknown', but no such row is defined"
    ):
        Study.model_validate({"population": [unknown], "row": rows}, strict=False)
