"""Entity alignment: private set intersection carried in messages, in the mode that was agreed."""

from collections.abc import Mapping

from parties.session.party import Party
from parties.vertical.alignment import hardened
from parties.vertical.alignment.bucket_run import (
    bound_session,
    follow_buckets,
    lead_buckets,
    session_of,
)
from parties.vertical.alignment.common_rows import (
    Alignment,
    agree,
    brought,
    concur,
    signed,
    verified,
)
from parties.vertical.alignment.psi_input import Brought, claimed
from protocol import vfl_pb2
from protocol.channel import Channel
from protocol.errors import RemoteProtocolError
from protocol.hub import Hub
from psi.buckets import bucket_count
from psi.leader import Leader
from psi.member import Member

SECONDS_PER_ROW = 1e-3  # patience: about a hundred times what a row takes


def lead(party: Party, hub: Hub) -> Alignment:
    """The active party's side of the intersection.

    Raises:
        PolicyError: fewer common rows than the agreement demands, or more rows than it allows.
        RemoteProtocolError: a party broke the protocol, or holds other common rows.
    """
    hub.move_to(vfl_pb2.Place(task=vfl_pb2.ALIGN, epoch=0, step=0, microbatch=0))
    mode = hardened.lead if party.agreement.psi.security == "hardened" else _lead
    with party.ledger.clock("psi"), brought(party) as own:
        return mode(party, hub, own)


def follow(party: Party, channel: Channel, opened: vfl_pb2.Open) -> Alignment:
    """A passive party's side of the intersection, which the hub has ``opened``."""
    mode = hardened.follow if party.agreement.psi.security == "hardened" else _follow
    with party.ledger.clock("psi"), brought(party) as own:
        claimed(party, channel.terms.peer, opened.rows)
        return mode(party, channel, own, opened.rows)


def _lead(party: Party, hub: Hub, own: Brought) -> Alignment:
    hub.broadcast(vfl_pb2.Open(rows=own.size, done=own.done))
    patience = _patience(party, own.size)
    shares = {name: said.expect(vfl_pb2.Share) for name, said in hub.gather(patience).items()}
    sizes = {name: claimed(party, name, share.rows) for name, share in shares.items()}
    patience = _patience(party, max(own.size, *sizes.values()))
    leader = _open(party, hub, own, shares)
    for name, said in hub.gather(patience).items():
        answer = leader.answer(name, said.expect(vfl_pb2.Offer).offer)
        hub.channels[name].send(vfl_pb2.Answer(answer=answer))
    lead_buckets(party, hub, leader, own, patience)
    return agree(party, hub, own, patience)


def _open(party: Party, hub: Hub, own: Brought, shares: Mapping[str, vfl_pb2.Share]) -> Leader:
    """Settle sizes and buckets with the members, and lay our rows out while they make offers."""
    sizes = {name: share.rows for name, share in shares.items()}
    buckets = bucket_count([own.size, *sizes.values()])
    # The last bucket is always run, so that every session has the same messages.
    done = min(own.done, *(share.done for share in shares.values()), buckets - 1)
    own.begin(buckets, done)
    hub.broadcast(vfl_pb2.Shares(shares=shares, done=done))
    own.lay_out()
    return Leader(
        size=own.size,
        sizes=sizes,
        session=session_of(hub),
        buckets=buckets,
        entropy=party.entropy,
    )


def _follow(party: Party, channel: Channel, own: Brought, theirs: int) -> Alignment:
    patience = _patience(party, max(theirs, own.size))
    member = _offer(party, channel, own, theirs, patience)
    own.lay_out()
    member.accept(channel.receive(patience).expect(vfl_pb2.Answer).answer)
    follow_buckets(party, channel, member, own, patience)
    return concur(party, channel, own, patience)


def _offer(
    party: Party, channel: Channel, own: Brought, leader_size: int, patience: float
) -> Member:
    """Exchange shares with all members, settle the buckets, and offer the base OT."""
    session, members = bound_session(channel), party.agreement.passive
    member = Member(name=party.name, members=members, session=session, entropy=party.entropy)
    channel.send(signed(party, own, session, member.start()))
    said = channel.receive(patience).expect(vfl_pb2.Shares)
    keys = verified(party, session, said.shares)
    sizes = {name: claimed(party, name, share.rows) for name, share in said.shares.items()}
    buckets = bucket_count([leader_size, *sizes.values()])
    if said.done > min(own.done, buckets - 1):
        raise RemoteProtocolError(
            f"begins with bucket {said.done}; {party.name} completed {own.done} of {buckets}"
        )
    own.begin(buckets, said.done)
    offer = member.offer(keys, size=own.size, leader_size=leader_size, buckets=buckets)
    channel.send(vfl_pb2.Offer(offer=offer))
    return member


def _patience(party: Party, rows: int) -> float:
    return party.agreement.limits.step_seconds + SECONDS_PER_ROW * rows
