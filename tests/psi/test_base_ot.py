"""The base oblivious transfer: the receiver gets the chosen key of each pair, and no other key."""

import numpy as np
import pytest
from psi_run import fixed_entropy

from psi.base_ot import answer_ot_offer, derive_chosen_keys, make_ot_offer
from psi.domain import labelled_digest
from psi.errors import PsiError
from psi.group import multiply_generator, multiply_point, read_points, scalar_from_uniform

CONTEXT = labelled_digest("test")
WIDTH = 64


def test_receiver_gets_exactly_the_chosen_keys() -> None:
    choice = make_ot_offer(CONTEXT, WIDTH, fixed_entropy("receiver"))
    pairs = answer_ot_offer(CONTEXT, WIDTH, choice.offer, fixed_entropy("sender"), "shop")
    keys = derive_chosen_keys(CONTEXT, choice, pairs.answer)
    for bit, key, pair in zip(choice.bits.tolist(), keys, pairs.keys, strict=True):
        assert key == pair[bit]
        assert key != pair[1 - bit]
    assert 0 < choice.bits.sum() < WIDTH
    assert len({key for pair in pairs.keys for key in pair}) == 2 * WIDTH


def test_another_context_gives_other_keys() -> None:
    choice = make_ot_offer(CONTEXT, WIDTH, fixed_entropy("receiver"))
    pairs = answer_ot_offer(
        labelled_digest("other"), WIDTH, choice.offer, fixed_entropy("sender"), "shop"
    )
    keys = derive_chosen_keys(CONTEXT, choice, pairs.answer)
    assert not set(keys) & {key for pair in pairs.keys for key in pair}


def test_a_swapped_pair_gives_no_key() -> None:
    choice = make_ot_offer(CONTEXT, 8, fixed_entropy("receiver"))
    swapped = choice.offer[32:64] + choice.offer[:32] + choice.offer[64:]
    pairs = answer_ot_offer(CONTEXT, 8, swapped, fixed_entropy("sender"), "shop")
    keys = derive_chosen_keys(CONTEXT, choice, pairs.answer)
    assert keys[0] not in pairs.keys[0]
    assert keys[1:] == [pair[bit] for pair, bit in zip(pairs.keys, choice.bits, strict=True)][1:]


def test_every_answer_has_its_own_scalar() -> None:
    choice = make_ot_offer(CONTEXT, WIDTH, fixed_entropy("receiver"))
    sent = answer_ot_offer(CONTEXT, WIDTH, choice.offer, fixed_entropy("sender"), "shop").answer
    assert len(set(read_points(sent, 2 * WIDTH, "answer"))) == 2 * WIDTH


def test_choice_bits_look_fair() -> None:
    bits = make_ot_offer(CONTEXT, 1024, fixed_entropy("fair")).bits
    assert abs(int(bits.sum()) - 512) < 5 * 16
    assert set(np.unique(bits).tolist()) == {0, 1}


def test_multiplication_of_a_non_canonical_point() -> None:
    with pytest.raises(PsiError, match="not canonically encoded"):
        multiply_point(scalar_from_uniform(bytes(range(64))), b"\xff" * 32)


def test_the_group_commutes() -> None:
    a, b = scalar_from_uniform(bytes(range(64))), scalar_from_uniform(bytes(range(1, 65)))
    assert multiply_point(a, multiply_generator(b)) == multiply_point(b, multiply_generator(a))


def test_uniform_bytes_of_a_wrong_length() -> None:
    with pytest.raises(ValueError, match="length 64"):
        scalar_from_uniform(bytes(63))
