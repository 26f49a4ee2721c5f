"""Wrong labels by hand, and that they are wrong whatever is drawn."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from unlearning.relabelling import wrong_labels


def words(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.uint64)


def test_by_hand() -> None:
    # The shift is 1 + word mod 2: of classes 0, 1, 2 by 1, 2, 1 and 2.
    found = wrong_labels(torch.tensor([0, 0, 2, 1]), words(4, 7, 0, 2**64 - 1), 3)
    assert found.tolist() == [1, 2, 0, 0]


def test_with_two_classes_it_is_the_other() -> None:
    assert wrong_labels(torch.tensor([0, 1]), words(5, 6), 2).tolist() == [1, 0]


@given(st.integers(2, 9), st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=20))
def test_no_label_stays_and_all_are_classes(classes: int, drawn: list[int]) -> None:
    labels = torch.arange(len(drawn)) % classes
    found = wrong_labels(labels, words(*drawn), classes)
    assert (found != labels).all()
    assert ((found >= 0) & (found < classes)).all()


def test_one_class_is_refused() -> None:
    with pytest.raises(ValueError, match="2 classes"):
        wrong_labels(torch.tensor([0]), words(1), 1)
