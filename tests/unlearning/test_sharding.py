"""Tests of shards: assignment of rows, affected shards, and the mean of outputs."""

import numpy as np
import torch

from unlearning.sharding import affected_shards, mean_shard_logits, shard_of


def test_the_shard_is_the_word_modulo_the_number_of_shards() -> None:
    words = np.array([0, 1, 5, 2**64 - 1], np.uint64)
    assert shard_of(words, 4).tolist() == [0, 1, 1, 3]
    assert shard_of(words, 1).tolist() == [0, 0, 0, 0]


def test_only_shards_with_a_forgotten_row_are_affected() -> None:
    of = np.array([2, 0, 1, 2, 3])
    assert affected_shards(of, np.array([0, 3])) == [2]
    assert affected_shards(of, np.array([4, 1])) == [0, 3]
    assert affected_shards(of, np.empty(0, np.int64)) == []


def test_the_outputs_of_shards_are_averaged() -> None:
    first, second = torch.tensor([[1.0, 3.0]]), torch.tensor([[5.0, 1.0]])
    assert mean_shard_logits([first, second]).tolist() == [[3.0, 2.0]]
