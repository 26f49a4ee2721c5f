"""Batches of texts: choice of rows and padding."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parties.common.errors import PolicyError
from parties.common.shared_randomness import Index, derive_key
from parties.language.texts.batches import (
    bucketed_batches,
    forget_retain_batches,
    prompt_batch,
    training_batch,
)
from parties.language.texts.encoding import EncodedText

PAD = 9


def padding(lengths: Sequence[int], batches: Sequence[Index]) -> float:
    """Fraction of the computed tokens that is padding."""
    sizes = np.asarray(lengths, np.int64)
    computed = sum(len(batch) * int(sizes[batch].max()) for batch in batches)
    return 1.0 - int(sizes.sum()) / computed


def test_training_rows_are_padded_on_the_right() -> None:
    batch = training_batch(
        [EncodedText(np.array([1, 2, 3]), 2), EncodedText(np.array([4, 5]), 1)], PAD
    )
    assert batch.ids.tolist() == [[1, 2, 3], [4, 5, PAD]]
    assert batch.mask.tolist() == [[1, 1, 1], [1, 1, 0]]
    assert batch.labels.tolist() == [[-100, -100, 3], [-100, 5, -100]]


def test_an_end_token_that_equals_the_padding_has_a_label() -> None:
    """Llama's end token is often the padding token: padding depends on the length, not the id."""
    batch = training_batch(
        [EncodedText(np.array([1, PAD]), 1), EncodedText(np.array([1, 2, PAD]), 1)], PAD
    )
    assert batch.labels.tolist() == [[-100, PAD, -100], [-100, 2, PAD]]
    assert batch.mask.tolist() == [[1, 1, 0], [1, 1, 1]]


def test_prompts_are_padded_on_the_left() -> None:
    batch = prompt_batch([np.array([1, 2, 3]), np.array([4])], PAD)
    assert batch.ids.tolist() == [[1, 2, 3], [PAD, PAD, 4]]
    assert batch.mask.tolist() == [[1, 1, 1], [0, 0, 1]]


@given(st.lists(st.integers(1, 99), max_size=80), st.integers(1, 9), st.integers(1, 5))
def test_every_row_is_in_one_batch(lengths: list[int], size: int, pool: int) -> None:
    batches = bucketed_batches(lengths, size, b"order", pool)
    assert sorted(row for batch in batches for row in batch.tolist()) == list(range(len(lengths)))
    short = [len(batch) for batch in batches if len(batch) != size]
    assert short == ([len(lengths) % size] if len(lengths) % size else [])


def test_batches_have_rows_of_similar_length() -> None:
    lengths = [10, 90] * 64
    assert padding(lengths, bucketed_batches(lengths, 8, b"order", pool=16)) == 0.0
    assert padding(lengths, bucketed_batches(lengths, 8, b"order", pool=1)) > 0.3


def test_batches_are_not_sorted_by_length() -> None:
    batches = bucketed_batches(range(64), 8, b"order", pool=8)
    firsts = [int(batch[0]) for batch in batches]
    assert sorted(firsts) == list(range(0, 64, 8))
    assert firsts not in (sorted(firsts), sorted(firsts)[::-1])


def test_an_epoch_has_its_own_order() -> None:
    lengths = list(range(64))
    first, again, other = (
        [
            batch.tolist()
            for batch in bucketed_batches(lengths, 4, derive_key(0, "epoch", epoch), pool=4)
        ]
        for epoch in (1, 1, 2)
    )
    assert first == again
    assert first != other
    assert {tuple(batch) for batch in first} != {tuple(batch) for batch in other}


@given(st.integers(1, 40), st.integers(1, 30), st.integers(1, 8))
def test_rows_to_retain_are_cycled(forget: int, retain: int, size: int) -> None:
    pairs = forget_retain_batches([5] * forget, retain, size, b"order")
    assert [len(left) for left, _ in pairs] == [len(right) for _, right in pairs]
    assert sorted(row for left, _ in pairs for row in left.tolist()) == list(range(forget))
    times = np.bincount(np.concatenate([right for _, right in pairs]), minlength=retain)
    assert times.max() - times.min() <= 1
    assert times.sum() == forget


def test_batches_without_rows_to_retain_are_refused() -> None:
    with pytest.raises(PolicyError, match="needs rows to retain"):
        forget_retain_batches([5], 0, 1, b"order")
