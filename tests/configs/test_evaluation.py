"""Settings of the evaluation: invalid combinations are refused."""

import pytest
from pydantic import ValidationError

from configs.agreement import TrainingSettings
from configs.evaluation import (
    BackdoorSettings,
    EvaluationSettings,
    RelearnSettings,
    check_backdoors,
)


def test_default_evaluation_runs_no_expensive_audit() -> None:
    plan = EvaluationSettings()
    assert (plan.shadows, plan.relearn, plan.classifier_permutations) == (0, None, 0)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_fewer_than_four_shadow_models_are_refused(count: int) -> None:
    with pytest.raises(ValidationError, match="'shadows' must be at least 4"):
        EvaluationSettings(shadows=count)


def test_fewer_than_three_orders_are_refused() -> None:
    with pytest.raises(ValidationError, match="greater than or equal to 3"):
        RelearnSettings(orders=2)


def test_trigger_with_one_column_twice_is_refused() -> None:
    with pytest.raises(ValidationError, match="two different columns"):
        BackdoorSettings(party="shop", target="a", columns=("x", "x"))


def test_backdoor_of_an_unknown_party_is_refused() -> None:
    with pytest.raises(ValueError, match="the passive parties are shop"):
        check_backdoors([BackdoorSettings(party="bank", target="a")], ["shop"], ["a", "b"])


def test_auc_is_watched_only_with_early_stopping() -> None:
    assert TrainingSettings(monitor="auc", patience=2).monitor == "auc"
    with pytest.raises(ValidationError, match="set 'patience'"):
        TrainingSettings(monitor="auc")


def test_unset_monitor_is_no_part_of_the_digest() -> None:
    assert "monitor" not in TrainingSettings(patience=2).canonical()
    assert TrainingSettings(monitor="auc", patience=2).canonical()["monitor"] == "auc"
