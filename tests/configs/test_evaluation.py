"""Settings of the evaluation: invalid combinations are refused."""

import pytest
from pydantic import ValidationError

from configs.evaluation import (
    BackdoorSettings,
    EvaluationSettings,
    RelearnSettings,
    check_backdoors,
)


def test_defaults_cost_nothing_extra() -> None:
    plan = EvaluationSettings()
    assert (plan.shadows, plan.relearn, plan.classifier_permutations) == (0, None, 0)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_fewer_than_four_shadow_models_are_refused(count: int) -> None:
    with pytest.raises(ValidationError, match="4 or more shadow models"):
        EvaluationSettings(shadows=count)


def test_fewer_than_three_orders_are_refused() -> None:
    with pytest.raises(ValidationError, match="greater than or equal to 3"):
        RelearnSettings(orders=2)


def test_one_column_twice_is_no_trigger() -> None:
    with pytest.raises(ValidationError, match="two different columns"):
        BackdoorSettings(party="shop", target="a", columns=("x", "x"))


def test_a_backdoor_of_a_stranger_is_refused() -> None:
    with pytest.raises(ValueError, match="not 'bank'; the passive parties are shop"):
        check_backdoors([BackdoorSettings(party="bank", target="a")], ["shop"], ["a", "b"])
