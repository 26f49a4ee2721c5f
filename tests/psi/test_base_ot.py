"""The base oblivious transfer: the chosen key of each pair, and no other."""

import numpy as np
import pytest
from psi_run import stream

from psi.base_ot import answer, choose, chosen_keys
from psi.domain import digest
from psi.errors import PsiError
from psi.group import generated, multiplied, random_scalar, read_points

CONTEXT = digest("test")
WIDTH = 64


def test_exactly_the_chosen_message() -> None:
    choice = choose(CONTEXT, WIDTH, stream("receiver"))
    pairs = answer(CONTEXT, WIDTH, choice.offer, stream("sender"), "shop")
    keys = chosen_keys(CONTEXT, choice, pairs.answer)
    for bit, key, pair in zip(choice.bits.tolist(), keys, pairs.keys, strict=True):
        assert key == pair[bit]
        assert key != pair[1 - bit]
    assert 0 < choice.bits.sum() < WIDTH
    assert len({key for pair in pairs.keys for key in pair}) == 2 * WIDTH


def test_another_context_gives_other_keys() -> None:
    choice = choose(CONTEXT, WIDTH, stream("receiver"))
    pairs = answer(digest("other"), WIDTH, choice.offer, stream("sender"), "shop")
    keys = chosen_keys(CONTEXT, choice, pairs.answer)
    assert not set(keys) & {key for pair in pairs.keys for key in pair}


def test_a_swapped_pair_gives_no_key() -> None:
    choice = choose(CONTEXT, 8, stream("receiver"))
    swapped = choice.offer[32:64] + choice.offer[:32] + choice.offer[64:]
    pairs = answer(CONTEXT, 8, swapped, stream("sender"), "shop")
    keys = chosen_keys(CONTEXT, choice, pairs.answer)
    assert keys[0] not in pairs.keys[0]
    assert keys[1:] == [pair[bit] for pair, bit in zip(pairs.keys, choice.bits, strict=True)][1:]


def test_every_answer_has_its_own_scalar() -> None:
    choice = choose(CONTEXT, WIDTH, stream("receiver"))
    sent = answer(CONTEXT, WIDTH, choice.offer, stream("sender"), "shop").answer
    assert len(set(read_points(sent, 2 * WIDTH, "answer"))) == 2 * WIDTH


def test_choice_bits_look_fair() -> None:
    bits = choose(CONTEXT, 1024, stream("fair")).bits
    assert abs(int(bits.sum()) - 512) < 5 * 16
    assert set(np.unique(bits).tolist()) == {0, 1}


def test_multiplication_of_a_non_canonical_point() -> None:
    with pytest.raises(PsiError, match="left the group"):
        multiplied(random_scalar(bytes(range(64))), b"\xff" * 32)


def test_the_group_commutes() -> None:
    a, b = random_scalar(bytes(range(64))), random_scalar(bytes(range(1, 65)))
    assert multiplied(a, generated(b)) == multiplied(b, generated(a))


def test_uniform_bytes_of_a_wrong_length() -> None:
    with pytest.raises(ValueError, match="length 64"):
        random_scalar(bytes(63))
