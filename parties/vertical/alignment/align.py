"""Entity alignment by private set intersection, in the agreed mode: standard or hardened."""

from collections.abc import Mapping

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
from parties.vertical.alignment.psi_input import PsiInput, check_claimed_rows
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
    mode = (
        hardened.align_active_hardened
        if party.agreement.psi.security == "hardened"
        else _align_active
    )
    with party.traffic.time_phase("psi"), open_psi_input(party) as own:
        return mode(party, hub, own)


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
    mode = (
        hardened.align_passive_hardened
        if party.agreement.psi.security == "hardened"
        else _align_passive
    )
    with party.traffic.time_phase("psi"), open_psi_input(party) as own:
        check_claimed_rows(party, channel.terms.peer, opened.rows)
        return mode(party, channel, own, opened.rows)


def _align_active(party: VerticalParty, hub: Hub, own: PsiInput) -> Alignment:
    hub.broadcast(vfl_pb2.StartAlignment(rows=own.size, completed_buckets=own.completed))
    time_limit = _time_limit(party, own.size)
    shares = {
        name: message.expect(vfl_pb2.KeyShare) for name, message in hub.gather(time_limit).items()
    }
    sizes = {name: check_claimed_rows(party, name, share.rows) for name, share in shares.items()}
    time_limit = _time_limit(party, max(own.size, *sizes.values()))
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
    time_limit = _time_limit(party, max(leader_size, own.size))
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
    sizes = {
        name: check_claimed_rows(party, name, share.rows) for name, share in message.shares.items()
    }
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
