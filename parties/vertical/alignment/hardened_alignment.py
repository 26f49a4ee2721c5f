"""Entity alignment in the hardened mode, which limits the number of IDs that the leader can query.

All rows are in one bucket. An interrupted session cannot be resumed, because a member's replies are
valid in one session only.
"""

from collections.abc import Mapping

import numpy as np

from parties.common.errors import PolicyError
from parties.common.workers import parallel_workers
from parties.vertical.alignment.bucket_run import channel_session, hub_session, store_matches
from parties.vertical.alignment.common_rows import (
    Alignment,
    finish_leader,
    finish_member,
    signed_share,
    verified_keys,
)
from parties.vertical.alignment.psi_input import PsiInput
from parties.vertical.engine.party import VerticalParty
from protocol import vfl_pb2
from protocol.channel import Channel
from protocol.errors import RemoteProtocolError
from protocol.hub import Hub
from psi.hardened_leader import HardenedLeader
from psi.hardened_member import HardenedMember
from psi.parallel import CHUNK_POINTS, ParallelMap
from psi.parameters import PsiParameters
from psi.shared_types import Bytes

SLOTS = 1 << 20  # slots of a store in one message, at most 16 MiB
SECONDS_PER_ROW = 2e-3  # time limit for each member: about ten times what a row needs


def align_active_hardened(party: VerticalParty, hub: Hub, own: PsiInput) -> Alignment:
    """Align the rows as the active party, the leader.

    Raises:
        PolicyError: there are more queries or rows than the agreement allows, or fewer common rows
            than ``psi.minimum``.
        RemoteProtocolError: a member broke the protocol.
    """
    _require_allowed_queries(party, party.name, own.size)
    own.begin(1, 0)
    hub.broadcast(vfl_pb2.StartAlignment(rows=own.size, completed_buckets=0))
    own.hash_ids()
    gathered = hub.gather(_time_limit(party, own.size + own.skipped))
    shares = {name: message.expect(vfl_pb2.KeyShare) for name, message in gathered.items()}
    sizes = {name: own.check_claim(name, share.rows) for name, share in shares.items()}
    time_limit = _time_limit(party, max(own.size, *sizes.values()) + own.skipped)
    _show_phase(party, _pieces(own.size) * (1 + 2 * len(sizes)))
    with parallel_workers(party.settings.threads, party.progress.step) as parallel_map:
        leader = _leader(party, own, sizes, hub_session(hub), parallel_map)
        _send_blinded(hub, leader, time_limit)
        hub.broadcast(vfl_pb2.KeyShares(shares=shares, first_bucket=0))
        _receive_evaluated(hub, leader, time_limit)
    for name, channel in hub.channels.items():
        leader.receive_store(name, _receive_store(channel, leader.slots(name), time_limit))
    store_matches(hub, own, 0, leader.finish())
    return finish_leader(party, hub, own, time_limit)


def align_passive_hardened(
    party: VerticalParty, channel: Channel, own: PsiInput, queries: int
) -> Alignment:
    """Align the rows as a passive party; the leader sends ``queries`` blinded elements.

    Raises:
        PolicyError: there are more queries or rows than the agreement allows, or fewer common rows
            than ``psi.minimum``.
        RemoteProtocolError: the leader broke the protocol.
    """
    _require_allowed_queries(party, channel.terms.peer, queries)
    own.begin(1, 0)
    own.hash_ids()
    time_limit = _time_limit(party, max(queries, own.size) + own.skipped)
    _show_phase(party, 2 * _pieces(queries) + _pieces(len(own.ids)))
    with parallel_workers(party.settings.threads, party.progress.step) as parallel_map:
        member = _evaluate_blinded(party, channel, own, queries, parallel_map)
        store = member.make_store()
    own.write_result(0, member.tags)
    for first in range(0, len(store), SLOTS):
        channel.send(vfl_pb2.KeyValueStore(), store[first : first + SLOTS], timeout=time_limit)
    return finish_member(party, channel, own, time_limit)


def _require_allowed_queries(party: VerticalParty, name: str, queries: int) -> None:
    """Raise ``PolicyError`` for too many queries: a dishonest leader can use each as a guess."""
    limit = party.agreement.psi.queries
    if queries > limit:
        raise PolicyError(
            f"{name} queries {queries} rows, but psi.queries allows at most {limit}",
            "raise psi.queries in the agreement, or use fewer rows or a smaller declared_rows at "
            f"{name}",
        )


def _leader(
    party: VerticalParty,
    own: PsiInput,
    sizes: Mapping[str, int],
    session: bytes,
    parallel_map: ParallelMap,
) -> HardenedLeader:
    parameters = [
        PsiParameters(session=session, member=name, leader_size=own.size, member_size=size)
        for name, size in sizes.items()
    ]
    # The only bucket has the rows in the order of the IDs.
    hashes = own.hashes(0, session)
    return HardenedLeader(
        own.ids, hashes, parameters=parameters, entropy=party.entropy, parallel_map=parallel_map
    )


def _receive_store(channel: Channel, slots: int, time_limit: float) -> Bytes:
    """Receive the parts of a store and join them, [slots, width]; the leader checks the content."""
    parts: list[Bytes] = []
    while sum(map(len, parts)) < slots:
        message = channel.receive(time_limit)
        message.expect(vfl_pb2.KeyValueStore)
        parts.append(message.tensor(np.uint8, None, parts[0].shape[1] if parts else None))
    return np.concatenate(parts)


def _send_blinded(hub: Hub, leader: HardenedLeader, time_limit: float) -> None:
    for block in leader.blind():
        for channel in hub.channels.values():
            channel.send(vfl_pb2.BlindedElements(), block, timeout=time_limit)


def _receive_evaluated(hub: Hub, leader: HardenedLeader, time_limit: float) -> None:
    """Unblind all replies while the members compute their proofs, then verify the proofs."""
    for name, channel in hub.channels.items():
        while leader.evaluated_left(name):
            message = channel.receive(time_limit)
            message.expect(vfl_pb2.EvaluatedElements)
            leader.receive_evaluated(name, message.tensor(np.uint8, None, None))
    for name, message in hub.gather(time_limit).items():
        claim = message.expect(vfl_pb2.EvaluationProof)
        leader.verify_proof(name, claim.commitment, claim.proof)


def _evaluate_blinded(
    party: VerticalParty, channel: Channel, own: PsiInput, queries: int, parallel_map: ParallelMap
) -> HardenedMember:
    """Run a member's side up to its proof."""
    session = channel_session(channel)
    time_limit = _time_limit(party, max(queries, own.size) + own.skipped)
    member = _member(party, own, session, queries, parallel_map)
    channel.send(signed_share(party, own, session, member.start()))
    while member.blinded_left:
        message = channel.receive(time_limit)
        message.expect(vfl_pb2.BlindedElements)
        member.receive_blinded(message.tensor(np.uint8, None, None))
    shares = channel.receive(time_limit).expect(vfl_pb2.KeyShares)
    if shares.first_bucket:
        raise RemoteProtocolError(
            f"the leader starts with bucket {shares.first_bucket}; expected 0, because the "
            "hardened mode has only one bucket"
        )
    for block in member.evaluate(verified_keys(party, session, shares.shares)):
        channel.send(vfl_pb2.EvaluatedElements(), block, timeout=time_limit)
    commitment, proof = member.prove()
    channel.send(vfl_pb2.EvaluationProof(commitment=commitment, proof=proof))
    return member


def _member(
    party: VerticalParty, own: PsiInput, session: bytes, queries: int, parallel_map: ParallelMap
) -> HardenedMember:
    return HardenedMember(
        own.ids,
        own.hashes(0, session),
        parameters=PsiParameters(
            session=session, member=party.name, leader_size=queries, member_size=own.size
        ),
        members=party.agreement.passive,
        entropy=party.entropy,
        parallel_map=parallel_map,
    )


def _show_phase(party: VerticalParty, pieces: int) -> None:
    party.progress.phase("finding common rows", pieces)


def _pieces(rows: int) -> int:
    return -(-rows // CHUNK_POINTS)


def _time_limit(party: VerticalParty, rows: int) -> float:
    members = len(party.agreement.passive)
    return party.limits.step_seconds + SECONDS_PER_ROW * rows * members
