"""Buckets: equally full to the eye, separated from each other, and each used once."""

import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from psi_run import SESSION, Leader, Member, accepted, parties, stream

import psi.leader
import psi.member
from psi.buckets import bucket_count, capacity, cut
from psi.errors import PsiError, UsedTwice
from psi.ids import bound, fingerprints
from psi.shared_types import Bytes
from psi.tags import find

IDS = [b"ada", b"bob", b"cyd"]
NAMES = ("shop", "bank")


@pytest.mark.parametrize(
    ("sizes", "buckets"),
    [([1, 1], 1), ([1 << 18, 3], 1), ([(1 << 18) + 1, 3], 2), ([3, 1_000_000], 7),
     ([10_000_000, 10], 76)],
)  # fmt: skip
def test_large_sets_are_cut_by_the_largest(sizes: list[int], buckets: int) -> None:
    assert bucket_count(sizes) == buckets
    if buckets > 1:
        assert 1 << 17 <= max(sizes) / buckets < 1 << 18


def test_shipped_buckets_have_eight_standard_deviations_to_spare() -> None:
    for size, buckets in ((1_000_000, 7), (10_000_000, 76)):
        mean = size / buckets
        assert (capacity(size, buckets) - mean) / math.sqrt(mean) == pytest.approx(8, abs=0.4)
    assert capacity(100, 1) == 100
    assert capacity(3, 50) == 3


@pytest.mark.parametrize(("size", "buckets"), [(40, 20), (2000, 20), (100_000, 7)])
def test_a_bucket_overflows_with_probability_below_two_to_the_minus_forty(
    size: int, buckets: int
) -> None:
    """The exact binomial tail, by a union over the buckets."""
    most, p = capacity(size, buckets), 1 / buckets
    terms = [
        math.lgamma(size + 1) - math.lgamma(k + 1) - math.lgamma(size - k + 1)
        + k * math.log(p) + (size - k) * math.log1p(-p)
        for k in range(most + 1, min(size, most + 2000) + 1)
    ]  # fmt: skip
    assert buckets * math.fsum(map(math.exp, terms)) < 2**-40


@given(st.integers(1, 300), st.integers(1, 40))
def test_every_row_falls_into_one_bucket(count: int, buckets: int) -> None:
    (prints,) = fingerprints(b"%d" % number for number in range(count))
    parts = dict(cut(prints, buckets))
    assert sorted(parts) == list(range(buckets))
    assert sorted(np.concatenate(list(parts.values())).tolist()) == list(range(count))
    assert all((np.diff(places) > 0).all() for places in parts.values())


def test_buckets_are_about_equally_full() -> None:
    prints = np.concatenate(list(fingerprints(b"%d" % number for number in range(70_000))))
    sizes = [len(places) for _, places in cut(prints, 7)]
    assert max(abs(size - 10_000) for size in sizes) < 6 * math.sqrt(10_000)


def in_buckets(ids: list[bytes], buckets: int) -> list[tuple[list[int], Bytes]]:
    """Row numbers and h(x) of every bucket."""
    prints = np.concatenate(list(fingerprints(ids)))
    return [(rows.tolist(), bound(prints[rows], SESSION)) for _, rows in cut(prints, buckets)]


def opened(
    sets: dict[str, list[bytes]], buckets: int, seed: str
) -> tuple[psi.leader.Leader, dict[str, psi.member.Member]]:
    """All sides of a run in several buckets, with the base OT behind them."""
    sizes = {name: len(ids) for name, ids in sets.items()}
    size, entropy = sizes.pop("leader"), stream(seed)
    leader = psi.leader.Leader(
        size=size, sizes=sizes, session=SESSION, buckets=buckets, entropy=entropy
    )
    members = {
        name: psi.member.Member(name=name, members=NAMES, session=SESSION, entropy=entropy)
        for name in NAMES
    }
    shares = {name: member.start() for name, member in members.items()}
    for name, member in members.items():
        terms = {"size": sizes[name], "leader_size": size, "buckets": buckets}
        member.accept(leader.answer(name, member.offer(shares, **terms)))
    return leader, members


@pytest.mark.parametrize("seed", range(12))
def test_all_buckets_together_agree_with_sets(seed: int) -> None:
    draw = random.Random(seed)
    universe = [f"person {number}".encode() for number in range(draw.choice([30, 500, 5000]))]
    buckets = draw.choice([2, 3, 9])
    sets = {
        name: draw.sample(universe, max(1, int(len(universe) * draw.uniform(0.3, 1))))
        for name in ("leader", *NAMES)
    }
    leader, members = opened(sets, buckets, str(seed))
    parts = {name: in_buckets(ids, buckets) for name, ids in sets.items()}
    found: dict[str, list[int]] = {name: [] for name in sets}
    for number in range(buckets):
        bucket = leader.bucket(number, parts["leader"][number][1])
        theirs = {name: members[name].bucket(number, parts[name][number][1]) for name in NAMES}
        for blocks in bucket.matrix():
            for name, block in blocks.items():
                theirs[name].absorb(block)
        for name in NAMES:
            bucket.store(name, theirs[name].store())
        matches = bucket.finish()
        found["leader"] += [parts["leader"][number][0][place] for place in matches.rows]
        for name in NAMES:
            places = find(theirs[name].tags, matches.tags[name], name)
            found[name] += [parts[name][number][0][place] for place in places]
    common = set.intersection(*map(set, sets.values()))
    for name, ids in sets.items():
        assert {ids[row] for row in found[name]} == common
        assert len(found[name]) == len(common)


def test_no_bucket_uses_a_pad_position_or_tag_of_another() -> None:
    same = next(fingerprints(b"%d" % number for number in range(50)))
    sets = {name: [b"%d" % number for number in range(500)] for name in ("leader", *NAMES)}
    leader, members = opened(sets, 3, "separate")
    seen = []
    for number in range(2):
        bucket = leader.bucket(number, bound(same, SESSION))
        own = members["shop"].bucket(number, bound(same, SESSION))
        blocks = [each["shop"] for each in bucket.matrix()]
        for block in blocks:
            own.absorb(block)
        store = own.store()
        seen.append((np.concatenate(blocks), bucket._position_key, own.tags, store))
    assert not (seen[0][0] == seen[1][0]).all(axis=1).any()
    assert seen[0][1] != seen[1][1]
    assert not set(map(bytes, seen[0][2])) & set(map(bytes, seen[1][2]))
    assert np.mean(seen[0][3] == seen[1][3]) < 0.01


def test_an_empty_bucket_matches_nothing() -> None:
    leader, members = opened({"leader": [b"1"], "shop": [b"1"], "bank": [b"1"]}, 2, "empty")
    nothing = np.empty((0, 16), np.uint8)
    bucket = leader.bucket(1, nothing)
    theirs = {name: members[name].bucket(1, nothing) for name in NAMES}
    for blocks in bucket.matrix():
        for name, block in blocks.items():
            theirs[name].absorb(block)
    for name in NAMES:
        bucket.store(name, theirs[name].store())
    matches = bucket.finish()
    assert matches.rows.shape == (0,)
    assert matches.tags["shop"].shape == theirs["shop"].tags.shape == (0, 12)


def test_members_of_one_size_share_the_places_of_their_stores() -> None:
    many = [b"%d" % number for number in range(5000)]
    leader, members = parties(IDS, {"shop": IDS, "bank": IDS[:2], "lab": many})
    accepted(leader, members)
    layouts = {name: leader._pairings[name].layout for name in members}
    assert layouts["shop"] == layouts["bank"] != layouts["lab"]


def test_only_the_declared_size_shows() -> None:
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
        accepted(leader, {"shop": member})
        blocks = [each["shop"] for each in leader.matrix()]
        for block in blocks:
            member.absorb(block)
        store = member.store()
        leader.store("shop", store)
        assert leader.finish().rows.tolist() == list(range(count))
        shapes.add((*(block.shape for block in blocks), store.shape))
    assert len(shapes) == 1


def test_a_bucket_opened_twice_or_out_of_order() -> None:
    leader, members = parties(IDS, {"shop": IDS})
    member = members["shop"]
    accepted(leader, {"shop": member})
    for side, who in ((leader, "leader"), (member, "shop")):
        side.run.bucket(0, side.hashes)
        with pytest.raises(UsedTwice, match=f"{who}: bucket 0 was opened a second time"):
            side.run.bucket(0, side.hashes)
        with pytest.raises(PsiError, match=f"{who}: no bucket 1, legal are 0 to 0"):
            side.run.bucket(1, side.hashes)


def test_more_rows_than_declared() -> None:
    leader = Leader(IDS, sizes={"shop": 2}, session=SESSION, size=2)
    member = Member(IDS, name="shop", members=["shop"], session=SESSION, leader_size=2, size=2)
    accepted(leader, {"shop": member})
    for side, who in ((leader, "leader"), (member, "shop")):
        with pytest.raises(PsiError, match=f"{who}: a bucket of 3 IDs, 2 were declared"):
            side.run.bucket(0, side.hashes)
