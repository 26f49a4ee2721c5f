"""All parties of one hardened intersection in memory: driver of the tests and the bench."""

import random
from collections.abc import Mapping, Sequence

from psi_run import SESSION, stream

from psi.hardened_leader import HardenedLeader
from psi.hardened_member import HardenedMember
from psi.ids import hashed
from psi.spread import Spread, alone
from psi.tags import find
from psi.terms import Terms


def parties(
    leader_ids: Sequence[bytes],
    member_ids: Mapping[str, Sequence[bytes]],
    *,
    session: bytes = SESSION,
    seed: str = "",
    spread: Spread = alone,
) -> tuple[HardenedLeader, dict[str, HardenedMember]]:
    """All sides of one run, before their first step."""
    terms = {
        name: Terms(session=session, member=name, leader_size=len(leader_ids), member_size=len(ids))
        for name, ids in member_ids.items()
    }
    leader = HardenedLeader(
        leader_ids,
        hashed(leader_ids, session),
        terms=list(terms.values()),
        entropy=stream(f"{seed}/leader"),
        spread=spread,
    )
    members = {
        name: HardenedMember(
            ids,
            hashed(ids, session),
            terms=terms[name],
            members=tuple(terms),
            entropy=stream(f"{seed}/{name}"),
            spread=spread,
        )
        for name, ids in member_ids.items()
    }
    return leader, members


def asked(leader: HardenedLeader, members: Mapping[str, HardenedMember]) -> dict[str, bytes]:
    """Run up to the last ask; the shares of all members."""
    shares = {name: member.start() for name, member in members.items()}
    for block in leader.ask():
        for member in members.values():
            member.asked(block)
    return shares


def proved(leader: HardenedLeader, members: Mapping[str, HardenedMember]) -> None:
    """Run up to the last proof."""
    shares = asked(leader, members)
    for name, member in members.items():
        for block in member.answer(shares):
            leader.answered(name, block)
        leader.prove(name, *member.prove())


def intersect(
    leader_ids: Sequence[bytes], member_ids: Mapping[str, Sequence[bytes]], seed: str = ""
) -> dict[str, list[int]]:
    """Run all parties; the common rows of each, the leader's under "leader"."""
    leader, members = parties(leader_ids, member_ids, seed=seed)
    proved(leader, members)
    for name, member in members.items():
        leader.store(name, member.store())
    matches = leader.finish()
    found = {name: find(members[name].tags, tags, name) for name, tags in matches.tags.items()}
    return {name: rows.tolist() for name, rows in {"leader": matches.rows, **found}.items()}


def random_case(seed: int) -> None:
    """One random case of 2 to 5 parties, checked against Python's sets."""
    draw = random.Random(seed)
    universe = [f"person {number}".encode() for number in range(draw.choice([3, 30, 300]))]
    names = [f"member {number}" for number in range(draw.randint(1, 4))]
    sets = {
        name: draw.sample(universe, max(1, int(len(universe) * draw.uniform(0.1, 1))))
        for name in ["leader", *names]
    }
    common = set.intersection(*map(set, sets.values()))
    rows = intersect(sets["leader"], {name: sets[name] for name in names}, seed=str(seed))
    for name, ids in sets.items():
        expected = [row for row, identity in enumerate(ids) if identity in common]
        assert rows[name] == expected, (seed, name)
