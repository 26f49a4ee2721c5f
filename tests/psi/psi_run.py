"""A semi-honest intersection of all parties in memory: driver of the tests and benchmarks."""

import hashlib
import os
import random
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from psi.ids import session_hashes
from psi.leader import LeaderBucket, PsiLeader
from psi.member import MemberBucket, PsiMember
from psi.shared_types import Bytes, Entropy, Positions
from psi.tags import find_tags

SESSION = b"a session of tests"


def fixed_entropy(seed: str) -> Entropy:
    """A reproducible source of entropy: SHAKE-256 of ``seed`` and a counter."""
    count = iter(range(1 << 62))
    return lambda size: hashlib.shake_256(f"{seed}/{next(count)}".encode()).digest(size)


class Leader:
    """A leader with one bucket, opened at first use; rows are positions in ``ids``."""

    def __init__(
        self,
        ids: Sequence[bytes],
        *,
        sizes: Mapping[str, int],
        session: bytes,
        entropy: Entropy = os.urandom,
        size: int = 0,
    ) -> None:
        self.run = PsiLeader(size=size or len(ids), sizes=sizes, session=session, entropy=entropy)
        self.hashes = session_hashes(ids, session)
        self.answer_offer = self.run.answer_offer
        self.opened: LeaderBucket | None = None

    @property
    def bucket(self) -> LeaderBucket:
        self.opened = self.opened or self.run.open_bucket(0, self.hashes)
        return self.opened

    def __getattr__(self, name: str) -> Any:
        return getattr(self.bucket, name)


class Member:
    """A member with one bucket, opened at first use; rows are positions in ``ids``."""

    def __init__(
        self, ids: Sequence[bytes], *, leader_size: int, size: int = 0, **parameters: Any
    ) -> None:
        self.run = PsiMember(**parameters)
        self.sizes = {"size": size or len(ids), "leader_size": leader_size}
        self.hashes = session_hashes(ids, parameters["session"])
        self.name = parameters["name"]
        self.start, self.receive_answer = self.run.start, self.run.receive_answer
        self.opened: MemberBucket | None = None

    def make_offer(self, shares: Mapping[str, bytes]) -> bytes:
        return self.run.make_offer(shares, **self.sizes)

    @property
    def bucket(self) -> MemberBucket:
        self.opened = self.opened or self.run.open_bucket(0, self.hashes)
        return self.opened

    def finish(self, tags: Bytes) -> Positions:
        return find_tags(self.bucket.tags, tags, self.name)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.bucket, name)


def parties(
    leader_ids: Sequence[bytes],
    member_ids: Mapping[str, Sequence[bytes]],
    *,
    session: bytes = SESSION,
    seed: str = "",
) -> tuple[Leader, dict[str, Member]]:
    """The leader and the members of one run, before their first step."""
    sizes = {name: len(ids) for name, ids in member_ids.items()}
    leader = Leader(
        leader_ids, sizes=sizes, session=session, entropy=fixed_entropy(f"{seed}/leader")
    )
    members = {
        name: Member(
            ids,
            name=name,
            members=tuple(sizes),
            session=session,
            leader_size=len(leader_ids),
            entropy=fixed_entropy(f"{seed}/{name}"),
        )
        for name, ids in member_ids.items()
    }
    return leader, members


def run_base_ot(leader: Leader, members: Mapping[str, Member]) -> None:
    """Run until the end of the base OT."""
    shares = {name: member.start() for name, member in members.items()}
    for name, member in members.items():
        member.receive_answer(leader.answer_offer(name, member.make_offer(shares)))


def run_until_stores(leader: Leader, members: Mapping[str, Member]) -> None:
    """Run until the end of the matrix; next, the members make their stores."""
    run_base_ot(leader, members)
    run_matrix(leader, members)


def run_matrix(leader: Leader, members: Mapping[str, Member]) -> None:
    """Send every block of the matrix from the leader to the members."""
    for blocks in leader.matrix_blocks():
        for name, block in blocks.items():
            members[name].receive_block(block)


def intersect(
    leader_ids: Sequence[bytes], member_ids: Mapping[str, Sequence[bytes]], seed: str = ""
) -> dict[str, list[int]]:
    """Run an intersection; the common rows of each party, the leader's under "leader"."""
    leader, members = parties(leader_ids, member_ids, seed=seed)
    run_until_stores(leader, members)
    for name, member in members.items():
        leader.receive_store(name, member.make_store())
    matches = leader.finish()
    member_rows = {name: members[name].finish(tags) for name, tags in matches.tags.items()}
    return {name: rows.tolist() for name, rows in {"leader": matches.rows, **member_rows}.items()}


def residual(leader: Leader, member: str, store: Bytes) -> Bytes:
    """The leader's residual [n, ℓ] from the store of one member only."""
    pair = leader._pairs[member]
    return pair.residual(store, pair.layout.slots(leader.hashes))


def random_case(seed: int) -> None:
    """One random case of 2 to 6 parties, checked against Python's sets."""
    generator = random.Random(seed)
    universe = [
        f"person {number}".encode() for number in range(generator.choice([3, 30, 300, 3000]))
    ]
    names = [f"member {number}" for number in range(generator.randint(1, 5))]
    sets = {
        name: generator.sample(universe, max(1, int(len(universe) * generator.uniform(0.1, 1))))
        for name in ["leader", *names]
    }
    common = set.intersection(*map(set, sets.values()))
    rows = intersect(sets["leader"], {name: sets[name] for name in names}, seed=str(seed))
    for name, ids in sets.items():
        expected = [row for row, identity in enumerate(ids) if identity in common]
        assert rows[name] == expected, (seed, name)
        assert np.array_equal(rows[name], sorted(rows[name]))
