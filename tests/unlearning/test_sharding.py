"""Tests of the shards' arithmetic."""

import numpy as np
import torch

from unlearning.sharding import shard_of, touched, vote


def test_the_shard_is_the_word_modulo_the_number_of_shards() -> None:
    words = np.array([0, 1, 5, 2**64 - 1], np.uint64)
    assert shard_of(words, 4).tolist() == [0, 1, 1, 3]
    assert shard_of(words, 1).tolist() == [0, 0, 0, 0]


def test_only_shards_that_learned_from_a_row_are_touched() -> None:
    of = np.array([2, 0, 1, 2, 3])
    assert touched(of, np.array([0, 3])) == [2]
    assert touched(of, np.array([4, 1])) == [0, 3]
    assert touched(of, np.empty(0, np.int64)) == []


def test_the_vote_is_the_mean_of_the_outputs() -> None:
    first, second = torch.tensor([[1.0, 3.0]]), torch.tensor([[5.0, 1.0]])
    assert vote([first, second]).tolist() == [[3.0, 2.0]]
