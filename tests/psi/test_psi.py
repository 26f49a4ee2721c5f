"""Semi-honest runs of 2 to 6 parties: results, hidden information, and declared sizes."""

import pytest
from psi_run import (
    SESSION,
    Member,
    intersect,
    parties,
    random_case,
    residual,
    run_base_ot,
    run_matrix,
    run_until_stores,
)


def people(*numbers: int) -> list[bytes]:
    return [f"person {number}".encode() for number in numbers]


@pytest.mark.parametrize("seed", range(50))
def test_random_cases_agree_with_sets(seed: int) -> None:
    random_case(seed)


def test_rows_are_positions_in_the_own_list() -> None:
    rows = intersect(people(5, 3, 9), {"shop": people(9, 1, 5, 2), "bank": people(9, 8, 7, 5)})
    assert rows == {"leader": [0, 2], "shop": [0, 2], "bank": [0, 3]}


def test_an_empty_intersection_is_a_result() -> None:
    rows = intersect(people(1, 2), {"shop": people(3), "bank": people(1, 2)})
    assert rows == {"leader": [], "shop": [], "bank": []}


def test_one_id_each() -> None:
    assert intersect(people(7), {"shop": people(7)}) == {"leader": [0], "shop": [0]}


def test_unequal_sizes() -> None:
    many = people(*range(6000))
    assert intersect(people(5999), {"shop": many}) == {"leader": [5999 - 5999], "shop": [5999]}
    assert intersect(many, {"shop": people(5999)}) == {"leader": [5999], "shop": [0]}


def test_a_leader_above_a_million_ids_would_test_96_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("psi.parameters.SHORT_CHECK_LIMIT", 2)
    leader, members = parties(people(1, 2, 3), {"shop": people(3, 4)})
    run_until_stores(leader, members)
    store = members["shop"].make_store()
    assert store.shape[1] == 12
    leader.receive_store("shop", store)
    assert leader.finish().rows.tolist() == [2]


def residual_zeros(member_ids: dict[str, list[bytes]], leader_ids: list[bytes]) -> int:
    """The number of the leader's rows that seem common, by the store of the first member only."""
    leader, members = parties(leader_ids, member_ids)
    run_until_stores(leader, members)
    leader_residual = residual(leader, "first", members["first"].make_store())
    return int((~leader_residual.any(axis=1)).sum())


def test_no_pairwise_residual_with_three_parties() -> None:
    shared = people(*range(3000))
    others = people(*range(3000, 6000))
    assert residual_zeros({"first": shared}, shared) == 3000
    assert residual_zeros({"first": shared, "second": others}, shared) == 0
    assert residual_zeros({"first": shared, "second": shared}, shared) == 0


def test_the_size_of_a_small_set_does_not_show_in_the_store() -> None:
    stores = []
    for count in (1, 4000):
        leader, members = parties(people(1), {"shop": people(*range(count))})
        run_until_stores(leader, members)
        stores.append(members["shop"].make_store().shape)
    assert stores[0] == stores[1]


def test_tags_are_sent_in_ascending_order() -> None:
    ids = people(*range(100))
    leader, members = parties(ids, {"shop": ids})
    run_until_stores(leader, members)
    leader.receive_store("shop", members["shop"].make_store())
    tags = [bytes(tag) for tag in leader.finish().tags["shop"]]
    assert tags == sorted(tags)
    assert len(set(tags)) == 100


def test_blocks_stay_short_and_a_narrower_matrix_ends_early() -> None:
    leader, members = parties(
        people(*range(40_000)), {"small": people(1), "large": people(*range(60_000))}
    )
    columns = {"small": 0, "large": 0}
    shares = {name: member.start() for name, member in members.items()}
    for name, member in members.items():
        leader.answer_offer(name, member.make_offer(shares))
    for blocks in leader.matrix_blocks():
        for name, block in blocks.items():
            assert block.nbytes <= 1 << 20
            columns[name] += len(block)
    assert columns["small"] < columns["large"]


def test_default_entropy_makes_two_runs_differ() -> None:
    offers = []
    for _ in range(2):
        member = Member(people(1), name="shop", members=["shop"], session=SESSION, leader_size=1)
        offers.append(member.make_offer({"shop": member.start()}))
    assert offers[0] != offers[1]


def test_another_session_matches_nothing() -> None:
    ids = people(*range(50))
    leader, _ = parties(ids, {"shop": ids})
    _, members = parties(ids, {"shop": ids}, session=b"another session!")
    run_until_stores(leader, members)
    leader.receive_store("shop", members["shop"].make_store())
    assert leader.finish().rows.size == 0


def test_the_answer_for_another_member_matches_nothing() -> None:
    ids = people(*range(50))
    leader, members = parties(ids, {"shop": ids, "bank": ids})
    shares = {name: member.start() for name, member in members.items()}
    offers = {name: member.make_offer(shares) for name, member in members.items()}
    members["bank"].receive_answer(leader.answer_offer("shop", offers["bank"]))
    members["shop"].receive_answer(leader.answer_offer("bank", offers["shop"]))
    for blocks in leader.matrix_blocks():
        members["bank"].receive_block(blocks["shop"])
        members["shop"].receive_block(blocks["bank"])
    leader.receive_store("shop", members["bank"].make_store())
    leader.receive_store("bank", members["shop"].make_store())
    assert leader.finish().rows.size == 0


def test_nothing_secret_in_repr() -> None:
    ids = people(*range(20))
    leader, members = parties(ids, {"shop": ids})
    run_base_ot(leader, members)
    choice = repr(members["shop"].run._receiver)
    assert choice.count("b'") == 1  # the offer, which is public
    run_matrix(leader, members)
    leader.receive_store("shop", members["shop"].make_store())
    matches = leader.finish()
    sides = (leader.run, leader.bucket, members["shop"].run, members["shop"].bucket)
    for thing in (*sides, matches, leader._pairs["shop"]):
        assert "b'" not in repr(thing)
        assert "array" not in repr(thing)


def test_set_sizes_that_fill_one_row_more() -> None:
    for size in (4096, 4097):
        ids = people(*range(size))
        rows = intersect(ids, {"shop": ids[::-1]})
        assert rows["leader"] == list(range(size))


def test_keys_are_dropped_once_used() -> None:
    leader, members = parties(people(1), {"shop": people(1)})
    run_until_stores(leader, members)
    members["shop"].make_store()
    sides = (members["shop"].run, members["shop"].bucket, leader._pairs["shop"])
    kept = {name for side in sides for name in vars(side)}
    assert not kept & {"_keys", "_pair_keys", "_receiver", "_key_exchange", "_secrets"}
    assert leader.run._keys == {}
