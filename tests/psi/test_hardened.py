"""Hardened runs of 2 to 5 parties: results, hidden information, and golden bytes of messages."""

import hashlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hardened_run import intersect, parties, random_case, run_until_evaluation, run_until_stores
from psi_run import SESSION
from psi_run import intersect as semi_honest

from psi.hardened_leader import HardenedLeader
from psi.hardened_member import HardenedMember
from psi.ids import session_hashes
from psi.parallel import BLOCK_POINTS, CHUNK_POINTS, serial_map
from psi.parameters import PsiParameters
from psi.tags import find_tags


def people(*numbers: int) -> list[bytes]:
    return [f"person {number}".encode() for number in numbers]


@pytest.mark.parametrize("seed", range(50))
def test_random_cases_agree_with_sets(seed: int) -> None:
    random_case(seed)


def test_both_modes_agree() -> None:
    sets = {"shop": people(9, 1, 5, 2), "bank": people(9, 8, 7, 5)}
    expected = {"leader": [0, 2], "shop": [0, 2], "bank": [0, 3]}
    assert intersect(people(5, 3, 9), sets) == semi_honest(people(5, 3, 9), sets) == expected


def test_an_empty_intersection_is_a_result() -> None:
    rows = intersect(people(1, 2), {"shop": people(3), "bank": people(1, 2)})
    assert rows == {"leader": [], "shop": [], "bank": []}


def test_one_id_each() -> None:
    assert intersect(people(7), {"shop": people(7)}) == {"leader": [0], "shop": [0]}


@pytest.mark.parametrize("size", [CHUNK_POINTS, CHUNK_POINTS + 1, BLOCK_POINTS + 1])
def test_lists_longer_than_a_piece_and_a_block(size: int) -> None:
    rows = intersect(people(*range(size)), {"shop": people(*range(size - 1, size + 9))})
    assert rows == {"leader": [size - 1], "shop": [0]}


def residual_zeros(member_ids: dict[str, list[bytes]], leader_ids: list[bytes]) -> int:
    """The number of the leader's rows that seem common, by the store of the first member only."""
    leader, members = parties(leader_ids, member_ids)
    run_until_stores(leader, members)
    leader.receive_store("first", members["first"].make_store())
    return int((~leader._residual.any(axis=1)).sum())


def test_no_pairwise_residual_with_three_parties() -> None:
    shared, others = people(*range(500)), people(*range(500, 1000))
    assert residual_zeros({"first": shared}, shared) == 500
    assert residual_zeros({"first": shared, "second": others}, shared) == 0
    assert residual_zeros({"first": shared, "second": shared}, shared) == 0


def test_blinded_ids_do_not_depend_on_the_ids() -> None:
    """Equal IDs are blinded differently in every session, and evaluated with another key."""
    messages = []
    for seed in ("one", "two"):
        leader, members = parties(people(1, 2, 3), {"shop": people(1)}, seed=seed)
        shares = {"shop": members["shop"].start()}
        (block,) = leader.blind()
        members["shop"].receive_blinded(block)
        messages.append(np.concatenate([block, *members["shop"].evaluate(shares)]))
    points = {bytes(point) for each in messages for point in each}
    assert len(points) == 12


def test_results_do_not_depend_on_the_number_of_workers() -> None:
    ids = people(*range(2 * CHUNK_POINTS + 5))
    with ThreadPoolExecutor(3) as pool:
        transcripts = [transcript(ids, parallel_map) for parallel_map in (serial_map, pool.map)]
    assert transcripts[0] == transcripts[1]


def test_keys_are_dropped_once_used() -> None:
    leader, members = parties(people(1), {"shop": people(1)})
    run_until_stores(leader, members)
    members["shop"].make_store()
    assert not vars(members["shop"]).keys() & {"_key", "_pair_keys", "_key_exchange", "_blinded"}


def test_nothing_secret_in_repr() -> None:
    leader, members = parties(people(1, 2), {"shop": people(2)})
    run_until_stores(leader, members)
    for thing in (leader, members["shop"], leader._pairs["shop"]):
        assert "b'" not in repr(thing)


# Golden bytes: with fixed entropy every message is fixed; a change here breaks every peer.

GOLDEN = {
    "blinded IDs": "7edb74e0babf5eb26fe8b9e85689047b1e61dc378a89a621cc7d6e6a711727ad",
    "evaluated IDs": "437f55e7f4a68140ddae7c160f8406cb8a74e77f2445533b19d3db08631d9e76",
    "commitment": "a2c05afc0d90401fa42df24aca115b2405996772d66a7bc574030c0f4b820626",
    "proof": "464aab19bdf05a40873f38ee2aba7e8be7654eef1394661fd588f076b35b04ec",
    "store": "d0aafb86f8c6f2c1c94142079bf19bb545b7414a5237d4214628cdd68736f96d",
    "tags": "240a8a9373a73404e68d8d2d6dc2d1d9f8ebed60b83a7df1c0c4c864f9b6c955",
}


def transcript(ids: list[bytes], parallel_map=serial_map) -> dict[str, str]:
    """Messages of the leader and the shop: hexadecimal up to 32 bytes, longer ones as SHA-256."""
    leader, members = parties(
        ids, {"shop": [*ids, b"dan"], "bank": ids[::-1]}, seed="golden", parallel_map=parallel_map
    )
    shares = run_until_evaluation(leader, members)
    messages = {"blinded IDs": bytes(leader._blinded)}
    for name, member in members.items():
        evaluated = list(member.evaluate(shares))
        for block in evaluated:
            leader.receive_evaluated(name, block)
        claim = member.prove()
        leader.verify_proof(name, *claim)
        store = member.make_store()
        leader.receive_store(name, store)
        if name == "shop":
            messages["evaluated IDs"] = b"".join(map(bytes, evaluated))
            messages["commitment"] = claim[0]
            messages |= {"proof": claim[1], "store": store.tobytes()}
    messages["tags"] = leader.finish().tags["shop"].tobytes()
    return {
        kind: message.hex() if len(message) <= 32 else hashlib.sha256(message).hexdigest()
        for kind, message in messages.items()
    }


def test_messages_are_golden() -> None:
    assert transcript([b"ada", b"bob", b"cyd"]) == GOLDEN


# Declared sizes


def declared(size: int, **sizes: int) -> tuple[HardenedLeader, dict[str, HardenedMember]]:
    """A leader and members that hold two IDs each and declare more."""
    ids = people(1, 2)
    hashes = session_hashes(ids, SESSION)
    parameters = {
        name: PsiParameters(session=SESSION, member=name, leader_size=size, member_size=theirs)
        for name, theirs in sizes.items()
    }
    members = {
        name: HardenedMember(ids, hashes, parameters=each, members=tuple(parameters))
        for name, each in parameters.items()
    }
    return HardenedLeader(ids, hashes, parameters=list(parameters.values())), members


def test_padding_changes_no_result_and_hides_the_true_sizes() -> None:
    leader, members = declared(BLOCK_POINTS + 9, shop=5000, bank=6000)
    sizes = []
    blind = leader.blind
    leader.blind = lambda: (sizes.append(len(block)) or block for block in blind())  # type: ignore
    run_until_stores(leader, members)
    assert sizes == [BLOCK_POINTS, 9]
    for name, member in members.items():
        store = member.make_store()
        assert len(store) == leader.slots(name) > 1.3 * 5000
        leader.receive_store(name, store)
    matches = leader.finish()
    assert matches.rows.tolist() == [0, 1]
    for name, tags in matches.tags.items():
        assert find_tags(members[name].tags, tags, name).tolist() == [0, 1]
