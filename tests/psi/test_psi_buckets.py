"""Buckets: equal declared sizes, separate keys, and single use."""

import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from psi_run import SESSION, Leader, Member, fixed_entropy, parties, run_base_ot

from psi.buckets import bucket_capacity, bucket_count, split_into_buckets
from psi.errors import PsiError, UsedTwice
from psi.ids import bind_to_session, fingerprint_ids
from psi.leader import PsiLeader
from psi.member import PsiMember
from psi.shared_types import Bytes
from psi.tags import find_tags

IDS = [b"ada", b"bob", b"cyd"]
NAMES = ("shop", "bank")


@pytest.mark.parametrize(
    ("sizes", "buckets"),
    [([1, 1], 1), ([1 << 18, 3], 1), ([(1 << 18) + 1, 3], 2), ([3, 1_000_000], 7),
     ([10_000_000, 10], 76)],
)  # fmt: skip
def test_number_of_buckets_follows_the_largest_set(sizes: list[int], buckets: int) -> None:
    assert bucket_count(sizes) == buckets
    if buckets > 1:
        assert 1 << 17 <= max(sizes) / buckets < 1 << 18


def test_shipped_buckets_have_eight_standard_deviations_to_spare() -> None:
    for size, buckets in ((1_000_000, 7), (10_000_000, 76)):
        mean = size / buckets
        assert (bucket_capacity(size, buckets) - mean) / math.sqrt(mean) == pytest.approx(
            8, abs=0.4
        )
    assert bucket_capacity(100, 1) == 100
    assert bucket_capacity(3, 50) == 3


@pytest.mark.parametrize(("size", "buckets"), [(40, 20), (2000, 20), (100_000, 7)])
def test_a_bucket_overflows_with_probability_below_two_to_the_minus_forty(
    size: int, buckets: int
) -> None:
    """The exact binomial tail, by a union over the buckets."""
    most, p = bucket_capacity(size, buckets), 1 / buckets
    parameters = [
        math.lgamma(size + 1) - math.lgamma(k + 1) - math.lgamma(size - k + 1)
        + k * math.log(p) + (size - k) * math.log1p(-p)
        for k in range(most + 1, min(size, most + 2000) + 1)
    ]  # fmt: skip
    assert buckets * math.fsum(map(math.exp, parameters)) < 2**-40


@given(st.integers(1, 300), st.integers(1, 40))
def test_every_row_falls_into_one_bucket(count: int, buckets: int) -> None:
    (prints,) = fingerprint_ids(b"%d" % number for number in range(count))
    parts = dict(split_into_buckets(prints, buckets))
    assert sorted(parts) == list(range(buckets))
    assert sorted(np.concatenate(list(parts.values())).tolist()) == list(range(count))
    assert all((np.diff(places) > 0).all() for places in parts.values())


def test_buckets_are_about_equally_full() -> None:
    prints = np.concatenate(list(fingerprint_ids(b"%d" % number for number in range(70_000))))
    sizes = [len(places) for _, places in split_into_buckets(prints, 7)]
    assert max(abs(size - 10_000) for size in sizes) < 6 * math.sqrt(10_000)


def in_buckets(ids: list[bytes], buckets: int) -> list[tuple[list[int], Bytes]]:
    """Row numbers and h(x) [n, 16] of every bucket."""
    prints = np.concatenate(list(fingerprint_ids(ids)))
    return [
        (rows.tolist(), bind_to_session(prints[rows], SESSION))
        for _, rows in split_into_buckets(prints, buckets)
    ]


def opened(
    sets: dict[str, list[bytes]], buckets: int, seed: str
) -> tuple[PsiLeader, dict[str, PsiMember]]:
    """The leader and the members of a run in several buckets, after the base OT."""
    sizes = {name: len(ids) for name, ids in sets.items()}
    size, entropy = sizes.pop("leader"), fixed_entropy(seed)
    leader = PsiLeader(size=size, sizes=sizes, session=SESSION, buckets=buckets, entropy=entropy)
    members = {
        name: PsiMember(name=name, members=NAMES, session=SESSION, entropy=entropy)
        for name in NAMES
    }
    shares = {name: member.start() for name, member in members.items()}
    for name, member in members.items():
        parameters = {"size": sizes[name], "leader_size": size, "buckets": buckets}
        member.receive_answer(leader.answer_offer(name, member.make_offer(shares, **parameters)))
    return leader, members


@pytest.mark.parametrize("seed", range(12))
def test_all_buckets_together_agree_with_sets(seed: int) -> None:
    generator = random.Random(seed)
    universe = [f"person {number}".encode() for number in range(generator.choice([30, 500, 5000]))]
    buckets = generator.choice([2, 3, 9])
    sets = {
        name: generator.sample(universe, max(1, int(len(universe) * generator.uniform(0.3, 1))))
        for name in ("leader", *NAMES)
    }
    leader, members = opened(sets, buckets, str(seed))
    parts = {name: in_buckets(ids, buckets) for name, ids in sets.items()}
    common_places: dict[str, list[int]] = {name: [] for name in sets}
    for number in range(buckets):
        bucket = leader.open_bucket(number, parts["leader"][number][1])
        theirs = {name: members[name].open_bucket(number, parts[name][number][1]) for name in NAMES}
        for blocks in bucket.matrix_blocks():
            for name, block in blocks.items():
                theirs[name].receive_block(block)
        for name in NAMES:
            bucket.receive_store(name, theirs[name].make_store())
        matches = bucket.finish()
        common_places["leader"] += [parts["leader"][number][0][place] for place in matches.rows]
        for name in NAMES:
            places = find_tags(theirs[name].tags, matches.tags[name], name)
            common_places[name] += [parts[name][number][0][place] for place in places]
    common = set.intersection(*map(set, sets.values()))
    for name, ids in sets.items():
        assert {ids[row] for row in common_places[name]} == common
        assert len(common_places[name]) == len(common)


def test_no_bucket_uses_a_pad_position_or_tag_of_another() -> None:
    same = next(fingerprint_ids(b"%d" % number for number in range(50)))
    sets = {name: [b"%d" % number for number in range(500)] for name in ("leader", *NAMES)}
    leader, members = opened(sets, 3, "separate")
    seen = []
    for number in range(2):
        bucket = leader.open_bucket(number, bind_to_session(same, SESSION))
        own = members["shop"].open_bucket(number, bind_to_session(same, SESSION))
        blocks = [each["shop"] for each in bucket.matrix_blocks()]
        for block in blocks:
            own.receive_block(block)
        store = own.make_store()
        seen.append((np.concatenate(blocks), bucket._position_key, own.tags, store))
    assert not (seen[0][0] == seen[1][0]).all(axis=1).any()
    assert seen[0][1] != seen[1][1]
    assert not set(map(bytes, seen[0][2])) & set(map(bytes, seen[1][2]))
    assert np.mean(seen[0][3] == seen[1][3]) < 0.01


def test_an_empty_bucket_matches_nothing() -> None:
    leader, members = opened({"leader": [b"1"], "shop": [b"1"], "bank": [b"1"]}, 2, "empty")
    nothing = np.empty((0, 16), np.uint8)
    bucket = leader.open_bucket(1, nothing)
    theirs = {name: members[name].open_bucket(1, nothing) for name in NAMES}
    for blocks in bucket.matrix_blocks():
        for name, block in blocks.items():
            theirs[name].receive_block(block)
    for name in NAMES:
        bucket.receive_store(name, theirs[name].make_store())
    matches = bucket.finish()
    assert matches.rows.shape == (0,)
    assert matches.tags["shop"].shape == theirs["shop"].tags.shape == (0, 12)


def test_members_of_equal_size_have_equal_store_layouts() -> None:
    many = [b"%d" % number for number in range(5000)]
    leader, members = parties(IDS, {"shop": IDS, "bank": IDS[:2], "lab": many})
    run_base_ot(leader, members)
    layouts = {name: leader._pairs[name].layout for name in members}
    assert layouts["shop"] == layouts["bank"] != layouts["lab"]


def test_message_shapes_depend_on_the_declared_size_only() -> None:
    declared = 6000
    shapes = set()
    for count in (1, 5999):
        leader = Leader(
            [b"%d" % n for n in range(count)], sizes={"shop": declared}, session=SESSION,
            size=declared,
        )  # fmt: skip
        member = Member(
            [b"%d" % n for n in range(count)], name="shop", members=["shop"], session=SESSION,
            leader_size=declared, size=declared,
        )  # fmt: skip
        run_base_ot(leader, {"shop": member})
        blocks = [each["shop"] for each in leader.matrix_blocks()]
        for block in blocks:
            member.receive_block(block)
        store = member.make_store()
        leader.receive_store("shop", store)
        assert leader.finish().rows.tolist() == list(range(count))
        shapes.add((*(block.shape for block in blocks), store.shape))
    assert len(shapes) == 1


def test_bucket_opened_twice_or_out_of_order_is_refused() -> None:
    leader, members = parties(IDS, {"shop": IDS})
    member = members["shop"]
    run_base_ot(leader, {"shop": member})
    for side, who in ((leader, "leader"), (member, "shop")):
        side.run.open_bucket(0, side.hashes)
        with pytest.raises(UsedTwice, match=f"{who}: bucket 0 was opened a second time"):
            side.run.open_bucket(0, side.hashes)
        with pytest.raises(PsiError, match=f"{who}: bucket 1 does not exist, expected 0 to 0"):
            side.run.open_bucket(1, side.hashes)


def test_more_rows_than_declared() -> None:
    leader = Leader(IDS, sizes={"shop": 2}, session=SESSION, size=2)
    member = Member(IDS, name="shop", members=["shop"], session=SESSION, leader_size=2, size=2)
    run_base_ot(leader, {"shop": member})
    for side, who in ((leader, "leader"), (member, "shop")):
        with pytest.raises(PsiError, match=f"{who}: a bucket holds 3 IDs, but at most 2 "):
            side.run.open_bucket(0, side.hashes)
