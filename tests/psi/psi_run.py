"""All parties of one intersection in memory, step by step: driver of the tests and the bench."""

import hashlib
import os
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import psi.leader as session_level
import psi.member as session_level_member
from psi.ids import hashed
from psi.leader_bucket import LeaderBucket
from psi.member_bucket import MemberBucket
from psi.shared_types import Bytes, Positions
from psi.tags import find

SESSION = b"a session of tests"

Entropy = Callable[[int], bytes]


def stream(seed: str) -> Entropy:
    """Fixed entropy: SHAKE-256 of ``seed`` and a counter."""
    count = iter(range(1 << 62))
    return lambda size: hashlib.shake_256(f"{seed}/{next(count)}".encode()).digest(size)


class Leader:
    """A leader with a single bucket, which opens by itself; rows are positions in ``ids``."""

    def __init__(
        self,
        ids: Sequence[bytes],
        *,
        sizes: Mapping[str, int],
        session: bytes,
        entropy: Entropy = os.urandom,
        size: int = 0,
    ) -> None:
        self.run = session_level.Leader(
            size=size or len(ids), sizes=sizes, session=session, entropy=entropy
        )
        self.hashes = hashed(ids, session)
        self.answer = self.run.answer
        self.opened: LeaderBucket | None = None

    @property
    def bucket(self) -> LeaderBucket:
        self.opened = self.opened or self.run.bucket(0, self.hashes)
        return self.opened

    def __getattr__(self, name: str) -> Any:
        return getattr(self.bucket, name)


class Member:
    """A member with a single bucket, which opens by itself; rows are positions in ``ids``."""

    def __init__(
        self, ids: Sequence[bytes], *, leader_size: int, size: int = 0, **terms: Any
    ) -> None:
        self.run = session_level_member.Member(**terms)
        self.sizes = {"size": size or len(ids), "leader_size": leader_size}
        self.hashes = hashed(ids, terms["session"])
        self.name = terms["name"]
        self.start, self.accept = self.run.start, self.run.accept
        self.opened: MemberBucket | None = None

    def offer(self, shares: Mapping[str, bytes]) -> bytes:
        return self.run.offer(shares, **self.sizes)

    @property
    def bucket(self) -> MemberBucket:
        self.opened = self.opened or self.run.bucket(0, self.hashes)
        return self.opened

    def finish(self, tags: Bytes) -> Positions:
        return find(self.bucket.tags, tags, self.name)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.bucket, name)


def parties(
    leader_ids: Sequence[bytes],
    member_ids: Mapping[str, Sequence[bytes]],
    *,
    session: bytes = SESSION,
    seed: str = "",
) -> tuple[Leader, dict[str, Member]]:
    """All sides of one run, before their first step."""
    sizes = {name: len(ids) for name, ids in member_ids.items()}
    leader = Leader(leader_ids, sizes=sizes, session=session, entropy=stream(f"{seed}/leader"))
    members = {
        name: Member(
            ids,
            name=name,
            members=tuple(sizes),
            session=session,
            leader_size=len(leader_ids),
            entropy=stream(f"{seed}/{name}"),
        )
        for name, ids in member_ids.items()
    }
    return leader, members


def accepted(leader: Leader, members: Mapping[str, Member]) -> None:
    """Run up to the base OT's end."""
    shares = {name: member.start() for name, member in members.items()}
    for name, member in members.items():
        member.accept(leader.answer(name, member.offer(shares)))


def absorbed(leader: Leader, members: Mapping[str, Member]) -> None:
    """Run up to the matrix's end."""
    accepted(leader, members)
    streamed(leader, members)


def streamed(leader: Leader, members: Mapping[str, Member]) -> None:
    """Carry the matrix across."""
    for blocks in leader.matrix():
        for name, block in blocks.items():
            members[name].absorb(block)


def intersect(
    leader_ids: Sequence[bytes], member_ids: Mapping[str, Sequence[bytes]], seed: str = ""
) -> dict[str, list[int]]:
    """Run all parties; the common rows of each, the leader's under "leader"."""
    leader, members = parties(leader_ids, member_ids, seed=seed)
    absorbed(leader, members)
    for name, member in members.items():
        leader.store(name, member.store())
    matches = leader.finish()
    found = {name: members[name].finish(tags) for name, tags in matches.tags.items()}
    return {name: rows.tolist() for name, rows in {"leader": matches.rows, **found}.items()}


def residual(leader: Leader, member: str, store: Bytes) -> Bytes:
    """What the leader computes from the store of one member alone."""
    pairing = leader._pairings[member]
    return pairing.residual(store, pairing.layout.places(leader.hashes))


def random_case(seed: int) -> None:
    """One random case of 2 to 6 parties, checked against Python's sets."""
    draw = random.Random(seed)
    universe = [f"person {number}".encode() for number in range(draw.choice([3, 30, 300, 3000]))]
    names = [f"member {number}" for number in range(draw.randint(1, 5))]
    sets = {
        name: draw.sample(universe, max(1, int(len(universe) * draw.uniform(0.1, 1))))
        for name in ["leader", *names]
    }
    common = set.intersection(*map(set, sets.values()))
    rows = intersect(sets["leader"], {name: sets[name] for name in names}, seed=str(seed))
    for name, ids in sets.items():
        expected = [row for row, identity in enumerate(ids) if identity in common]
        assert rows[name] == expected, (seed, name)
        assert np.array_equal(rows[name], sorted(rows[name]))
