"""Tests of orders by ID: what is not there leaves no trace in them."""

import numpy as np

from parties.common.shared_randomness import id_words, in_order, key

IDS = [b"%d" % number for number in range(200)]
SECRET, OTHER = key(1, "words"), key(2, "words")


def test_a_word_is_of_its_id_and_the_key_alone() -> None:
    assert id_words(SECRET, IDS[5:9]).tolist() == id_words(SECRET, IDS).tolist()[5:9]
    assert id_words(SECRET, IDS).tolist() != id_words(OTHER, IDS).tolist()
    assert len(set(id_words(SECRET, IDS).tolist())) == len(IDS)
    assert id_words(SECRET, []).tolist() == []


def test_the_order_of_those_who_stay_does_not_tell_who_left() -> None:
    all_of_them = id_words(SECRET, IDS)
    stay = np.arange(200) % 3 > 0
    whole = [IDS[at] for at in in_order(OTHER, all_of_them)]
    rest = [np.array(IDS)[stay][at] for at in in_order(OTHER, all_of_them[stay])]
    left = set(np.array(IDS)[stay].tolist())
    assert rest == [each for each in whole if each in left]


def test_another_key_gives_another_order() -> None:
    drawn = id_words(SECRET, IDS)
    assert sorted(in_order(SECRET, drawn).tolist()) == list(range(200))
    assert in_order(SECRET, drawn).tolist() != in_order(OTHER, drawn).tolist()
    assert in_order(SECRET, drawn).tolist() == in_order(SECRET, drawn).tolist()


def test_equal_words_stay_as_they_came() -> None:
    drawn = np.array([7, 3] * 500, np.uint64)
    order = in_order(SECRET, drawn)
    first, second = np.split(order, 2)
    assert (np.diff(first) == 2).all()
    assert (np.diff(second) == 2).all()
