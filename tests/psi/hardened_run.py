"""A hardened intersection of all parties in memory: driver of the tests and benchmarks."""

import random
from collections.abc import Mapping, Sequence

from psi_run import SESSION, fixed_entropy

from psi.hardened_leader import HardenedLeader
from psi.hardened_member import HardenedMember
from psi.ids import session_hashes
from psi.parallel import ParallelMap, serial_map
from psi.parameters import PsiParameters
from psi.tags import find_tags


def parties(
    leader_ids: Sequence[bytes],
    member_ids: Mapping[str, Sequence[bytes]],
    *,
    session: bytes = SESSION,
    seed: str = "",
    parallel_map: ParallelMap = serial_map,
) -> tuple[HardenedLeader, dict[str, HardenedMember]]:
    """The leader and the members of one run, before their first step."""
    parameters = {
        name: PsiParameters(
            session=session, member=name, leader_size=len(leader_ids), member_size=len(ids)
        )
        for name, ids in member_ids.items()
    }
    leader = HardenedLeader(
        leader_ids,
        session_hashes(leader_ids, session),
        parameters=list(parameters.values()),
        entropy=fixed_entropy(f"{seed}/leader"),
        parallel_map=parallel_map,
    )
    members = {
        name: HardenedMember(
            ids,
            session_hashes(ids, session),
            parameters=parameters[name],
            members=tuple(parameters),
            entropy=fixed_entropy(f"{seed}/{name}"),
            parallel_map=parallel_map,
        )
        for name, ids in member_ids.items()
    }
    return leader, members


def run_until_evaluation(
    leader: HardenedLeader, members: Mapping[str, HardenedMember]
) -> dict[str, bytes]:
    """Send all blinded IDs to the members; returns the key shares of all members."""
    shares = {name: member.start() for name, member in members.items()}
    for block in leader.blind():
        for member in members.values():
            member.receive_blinded(block)
    return shares


def run_until_stores(leader: HardenedLeader, members: Mapping[str, HardenedMember]) -> None:
    """Run until the last proof; next, the members make their stores."""
    shares = run_until_evaluation(leader, members)
    for name, member in members.items():
        for block in member.evaluate(shares):
            leader.receive_evaluated(name, block)
        leader.verify_proof(name, *member.prove())


def intersect(
    leader_ids: Sequence[bytes], member_ids: Mapping[str, Sequence[bytes]], seed: str = ""
) -> dict[str, list[int]]:
    """Run an intersection; the common rows of each party, the leader's under "leader"."""
    leader, members = parties(leader_ids, member_ids, seed=seed)
    run_until_stores(leader, members)
    for name, member in members.items():
        leader.receive_store(name, member.make_store())
    matches = leader.finish()
    member_rows = {
        name: find_tags(members[name].tags, tags, name) for name, tags in matches.tags.items()
    }
    return {name: rows.tolist() for name, rows in {"leader": matches.rows, **member_rows}.items()}


def random_case(seed: int) -> None:
    """One random case of 2 to 5 parties, checked against Python's sets."""
    generator = random.Random(seed)
    universe = [f"person {number}".encode() for number in range(generator.choice([3, 30, 300]))]
    names = [f"member {number}" for number in range(generator.randint(1, 4))]
    sets = {
        name: generator.sample(universe, max(1, int(len(universe) * generator.uniform(0.1, 1))))
        for name in ["leader", *names]
    }
    common = set.intersection(*map(set, sets.values()))
    rows = intersect(sets["leader"], {name: sets[name] for name in names}, seed=str(seed))
    for name, ids in sets.items():
        expected = [row for row, identity in enumerate(ids) if identity in common]
        assert rows[name] == expected, (seed, name)
