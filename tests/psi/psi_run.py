"""All parties of one intersection in memory, step by step: driver of the tests and the bench."""

import hashlib
import random
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from psi.leader import Leader
from psi.member import Member

SESSION = b"a session of tests"

Entropy = Callable[[int], bytes]


def stream(seed: str) -> Entropy:
    """Fixed entropy: SHAKE-256 of ``seed`` and a counter."""
    count = iter(range(1 << 62))
    return lambda size: hashlib.shake_256(f"{seed}/{next(count)}".encode()).digest(size)


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
