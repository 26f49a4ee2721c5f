"""The settings of the evaluation: what cannot be is refused at the door."""

import pytest
from pydantic import ValidationError

from configs.evaluation import Backdoor, Evaluation, Relearn, refuse_misplaced


def test_defaults_cost_nothing_extra() -> None:
    plan = Evaluation()
    assert (plan.shadows, plan.relearn, plan.classifier_permutations) == (0, None, 0)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_fewer_than_four_shadow_models_are_refused(count: int) -> None:
    with pytest.raises(ValidationError, match="4 or more shadow models"):
        Evaluation(shadows=count)


def test_fewer_than_three_orders_are_refused() -> None:
    with pytest.raises(ValidationError, match="greater than or equal to 3"):
        Relearn(orders=2)


def test_one_column_twice_is_no_trigger() -> None:
    with pytest.raises(ValidationError, match="two different columns"):
        Backdoor(party="shop", target="a", columns=("x", "x"))


def test_a_backdoor_of_a_stranger_is_refused() -> None:
    with pytest.raises(ValueError, match="not 'bank'; they are shop"):
        refuse_misplaced([Backdoor(party="bank", target="a")], ["shop"], ["a", "b"])
