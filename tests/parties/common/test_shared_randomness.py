"""Random orders by ID: absent rows do not change the order of the others."""

import numpy as np

from parties.common.shared_randomness import derive_key, keyed_order, random_id_words

IDS = [b"%d" % number for number in range(200)]
SECRET, OTHER = derive_key(1, "words"), derive_key(2, "words")


def test_random_word_depends_only_on_id_and_key() -> None:
    assert random_id_words(SECRET, IDS[5:9]).tolist() == random_id_words(SECRET, IDS).tolist()[5:9]
    assert random_id_words(SECRET, IDS).tolist() != random_id_words(OTHER, IDS).tolist()
    assert len(set(random_id_words(SECRET, IDS).tolist())) == len(IDS)
    assert random_id_words(SECRET, []).tolist() == []


def test_order_of_the_remaining_ids_does_not_depend_on_removed_ids() -> None:
    all_of_them = random_id_words(SECRET, IDS)
    stay = np.arange(200) % 3 > 0
    whole = [IDS[at] for at in keyed_order(OTHER, all_of_them)]
    rest = [np.array(IDS)[stay][at] for at in keyed_order(OTHER, all_of_them[stay])]
    left = set(np.array(IDS)[stay].tolist())
    assert rest == [each for each in whole if each in left]


def test_another_key_gives_another_order() -> None:
    drawn = random_id_words(SECRET, IDS)
    assert sorted(keyed_order(SECRET, drawn).tolist()) == list(range(200))
    assert keyed_order(SECRET, drawn).tolist() != keyed_order(OTHER, drawn).tolist()
    assert keyed_order(SECRET, drawn).tolist() == keyed_order(SECRET, drawn).tolist()


def test_equal_words_keep_their_order() -> None:
    drawn = np.array([7, 3] * 500, np.uint64)
    order = keyed_order(SECRET, drawn)
    first, second = np.split(order, 2)
    assert (np.diff(first) == 2).all()
    assert (np.diff(second) == 2).all()
