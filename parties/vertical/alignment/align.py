"""Entity alignment by private set intersection, in the agreed mode: standard or hardened.

A training that goes on from a kept version first compares the version's rows: if every party holds
all of them, only other rows cross the intersection.
"""

from collections.abc import Mapping

from parties.data.sources.arrays import Mask
from parties.vertical.alignment import hardened_alignment as hardened
from parties.vertical.alignment.bucket_run import (
    channel_session,
    hub_session,
    run_leader_buckets,
    run_member_buckets,
)
from parties.vertical.alignment.common_rows import (
    Alignment,
    finish_leader,
    finish_member,
    open_psi_input,
    signed_share,
    verified_keys,
)
from parties.vertical.alignment.known_rows import held_rows, known_rows, version_party
from parties.vertical.alignment.psi_input import PsiInput
from parties.vertical.engine.party import SECONDS_PER_ROW, VerticalParty
from protocol import vfl_pb2
from protocol.channel import Channel
from protocol.errors import RemoteProtocolError
from protocol.hub import Hub
from psi.buckets import bucket_count
from psi.leader import PsiLeader
from psi.member import PsiMember


def align_active(party: VerticalParty, hub: Hub) -> Alignment:
    """Align the rows as the active party, the leader of the intersection.

    Raises:
        PolicyError: there are fewer common rows than the agreement requires, or a party has more
            rows than the agreement allows.
        RemoteProtocolError: a party broke the protocol, or computed different common rows.
    """
    hub.move_to(vfl_pb2.Place(task=vfl_pb2.ALIGN, epoch=0, step=0, microbatch=0))
    with party.traffic.time_phase("psi"):
        known = None
        if party.continues:
            held = held_rows(party)
            compared = _intersect_active(version_party(party, held), hub, None)
            known = known_rows(party, held, compared)
        return _intersect_active(party, hub, known)


def align_passive(
    party: VerticalParty, channel: Channel, opened: vfl_pb2.StartAlignment
) -> Alignment:
    """Align the rows as a passive party, a member of the intersection.

    Args:
        party: the passive party.
        channel: the channel to the hub.
        opened: the hub's message that started the alignment.

    Raises:
        PolicyError: there are fewer common rows than the agreement requires, or a party has more
            rows than the agreement allows.
        RemoteProtocolError: the hub broke the protocol, or computed different common rows.
    """
    with party.traffic.time_phase("psi"):
        known = None
        if party.continues:
            held = held_rows(party)
            compared = _intersect_passive(version_party(party, held), channel, opened, None)
            known = known_rows(party, held, compared)
            opened = channel.receive(party.limits.idle_seconds).expect(vfl_pb2.StartAlignment)
        return _intersect_passive(party, channel, opened, known)


def _intersect_active(party: VerticalParty, hub: Hub, known: Mask | None) -> Alignment:
    """Intersect the rows that are not ``known``, [rows], as the leader; None: no row is known."""
    mode = (
        hardened.align_active_hardened
        if party.agreement.psi.security == "hardened"
        else _align_active
    )
    with open_psi_input(party, known) as own:
        return mode(party, hub, own)


def _intersect_passive(
    party: VerticalParty, channel: Channel, opened: vfl_pb2.StartAlignment, known: Mask | None
) -> Alignment:
    """Intersect the rows that are not ``known``, [rows], as a member; None: no row is known."""
    mode = (
        hardened.align_passive_hardened
        if party.agreement.psi.security == "hardened"
        else _align_passive
    )
    with open_psi_input(party, known) as own:
        own.check_claim(channel.terms.peer, opened.rows)
        return mode(party, channel, own, opened.rows)


def _align_active(party: VerticalParty, hub: Hub, own: PsiInput) -> Alignment:
    hub.broadcast(vfl_pb2.StartAlignment(rows=own.size, completed_buckets=own.completed))
    time_limit = _time_limit(party, own.size + own.skipped)
    shares = {
        name: message.expect(vfl_pb2.KeyShare) for name, message in hub.gather(time_limit).items()
    }
    sizes = {name: own.check_claim(name, share.rows) for name, share in shares.items()}
    time_limit = _time_limit(party, max(own.size, *sizes.values()) + own.skipped)
    leader = _open(party, hub, own, shares)
    for name, message in hub.gather(time_limit).items():
        answer = leader.answer_offer(name, message.expect(vfl_pb2.OtOffer).offer)
        hub.channels[name].send(vfl_pb2.OtAnswer(answer=answer))
    run_leader_buckets(party, hub, leader, own, time_limit)
    return finish_leader(party, hub, own, time_limit)


def _open(
    party: VerticalParty, hub: Hub, own: PsiInput, shares: Mapping[str, vfl_pb2.KeyShare]
) -> PsiLeader:
    """Agree on sizes and buckets, and hash the own IDs while the members prepare their offers."""
    sizes = {name: share.rows for name, share in shares.items()}
    buckets = bucket_count([own.size, *sizes.values()])
    # The last bucket is always run, so that every session has the same messages.
    done = min(own.completed, *(share.completed_buckets for share in shares.values()), buckets - 1)
    own.begin(buckets, done)
    hub.broadcast(vfl_pb2.KeyShares(shares=shares, first_bucket=done))
    own.hash_ids()
    return PsiLeader(
        size=own.size,
        sizes=sizes,
        session=hub_session(hub),
        buckets=buckets,
        entropy=party.entropy,
    )


def _align_passive(
    party: VerticalParty, channel: Channel, own: PsiInput, leader_size: int
) -> Alignment:
    time_limit = _time_limit(party, max(leader_size, own.size) + own.skipped)
    member = _offer(party, channel, own, leader_size, time_limit)
    own.hash_ids()
    member.receive_answer(channel.receive(time_limit).expect(vfl_pb2.OtAnswer).answer)
    run_member_buckets(party, channel, member, own, time_limit)
    return finish_member(party, channel, own, time_limit)


def _offer(
    party: VerticalParty, channel: Channel, own: PsiInput, leader_size: int, time_limit: float
) -> PsiMember:
    """Exchange key shares with all members, agree on the buckets, and offer the base OT."""
    session, members = channel_session(channel), party.agreement.passive
    member = PsiMember(name=party.name, members=members, session=session, entropy=party.entropy)
    channel.send(signed_share(party, own, session, member.start()))
    message = channel.receive(time_limit).expect(vfl_pb2.KeyShares)
    keys = verified_keys(party, session, message.shares)
    sizes = {name: own.check_claim(name, share.rows) for name, share in message.shares.items()}
    buckets = bucket_count([leader_size, *sizes.values()])
    if message.first_bucket > min(own.completed, buckets - 1):
        raise RemoteProtocolError(
            f"the leader starts with bucket {message.first_bucket}; expected at most bucket "
            f"{min(own.completed, buckets - 1)}, because {party.name} has completed "
            f"{own.completed} of {buckets} buckets"
        )
    own.begin(buckets, message.first_bucket)
    offer = member.make_offer(keys, size=own.size, leader_size=leader_size, buckets=buckets)
    channel.send(vfl_pb2.OtOffer(offer=offer))
    return member


def _time_limit(party: VerticalParty, rows: int) -> float:
    return party.limits.step_seconds + SECONDS_PER_ROW * rows
