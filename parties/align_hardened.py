"""Entity alignment in the hardened mode: an active party may ask for its own rows and no more."""

from collections.abc import Mapping

import numpy as np

from parties import align
from parties.party import Party
from parties.workers import workers
from protocol import vfl_pb2
from protocol.channel import Channel
from protocol.hub import Hub
from psi.hardened_leader import HardenedLeader
from psi.hardened_member import HardenedMember
from psi.ids import hashed, refuse_duplicates
from psi.leader import Matches
from psi.shared_types import Bytes
from psi.spread import PIECE, Spread
from psi.terms import Terms

SLOTS = 1 << 20  # of a store in one message, of which at most 16 MiB travel
SECONDS_PER_ROW = 2e-3  # patience, for each member: about ten times what a row takes


def lead(party: Party, hub: Hub) -> "align.Alignment":
    """The active party's side; raises like ``align.lead``."""
    with party.ledger.clock("psi"), align._blamed():
        matches = _match(party, hub)
        align._enough(party, len(matches.rows))
        return align._agree(party, hub, matches)


def follow(party: Party, channel: Channel) -> "align.Alignment":
    """A passive party's side; raises like ``align.follow``."""
    with party.ledger.clock("psi"), align._blamed():
        opened = channel.receive(party.agreement.limits.idle_seconds).expect(vfl_pb2.Open)
        align._not_too_many(party, party.name, len(party.holding.ids))
        align._not_too_many(party, channel.terms.peer, opened.rows)
        _begin(party, 2 * _pieces(opened.rows) + _pieces(len(party.holding.ids)))
        with workers(party.seat.threads, party.watch.step) as spread:
            member = _proved(party, channel, opened.rows, spread)
            store = member.store()
        patience = _patience(party, max(opened.rows, len(party.holding.ids)))
        for first in range(0, len(store), SLOTS):
            channel.send(vfl_pb2.Store(), store[first : first + SLOTS], timeout=patience)
        said = channel.receive(patience)
        rows = member.finish(said.tensor(np.uint8, None, None))
        align._enough(party, len(rows))
        ours = align._alignment(party, rows, align._bound(channel))
        align._same(ours, said.expect(vfl_pb2.Matches).digest, channel.terms.peer)
        channel.send(vfl_pb2.Aligned(digest=ours.digest))
        return ours


def _match(party: Party, hub: Hub) -> Matches:
    """Exchange shares, ask every member, take answers, proofs and stores."""
    ids = party.holding.ids
    align._not_too_many(party, party.name, len(ids))
    hub.broadcast(vfl_pb2.Open(rows=len(ids)))
    gathered = hub.gather(_patience(party, len(ids)))
    shares = {name: said.expect(vfl_pb2.Share) for name, said in gathered.items()}
    sizes = {name: share.rows for name, share in shares.items()}
    for name, size in sizes.items():
        align._not_too_many(party, name, size)
    _begin(party, _pieces(len(ids)) * (1 + 2 * len(sizes)))
    with workers(party.seat.threads, party.watch.step) as spread:
        leader = _leader(party, sizes, align._session(hub), spread)
        patience = _patience(party, max(len(ids), *sizes.values()))
        _asked(hub, leader, patience)
        hub.broadcast(vfl_pb2.Shares(shares=shares))
        _answered(hub, leader, patience)
    for name, channel in hub.channels.items():
        leader.store(name, _store(channel, leader.slots(name), patience))
    return leader.finish()


def _leader(
    party: Party, sizes: Mapping[str, int], session: bytes, spread: Spread
) -> HardenedLeader:
    ids = party.holding.ids
    refuse_duplicates(ids, party.name)
    terms = [
        Terms(session=session, member=name, leader_size=len(ids), member_size=size)
        for name, size in sizes.items()
    ]
    hashes = hashed(ids, session)
    return HardenedLeader(ids, hashes, terms=terms, entropy=party.entropy, spread=spread)


def _store(channel: Channel, slots: int, patience: float) -> Bytes:
    """The store, put together; whether it is one is for the leader to say."""
    parts: list[Bytes] = []
    while sum(map(len, parts)) < slots:
        said = channel.receive(patience)
        said.expect(vfl_pb2.Store)
        parts.append(said.tensor(np.uint8, None, parts[0].shape[1] if parts else None))
    return np.concatenate(parts)


def _asked(hub: Hub, leader: HardenedLeader, patience: float) -> None:
    for block in leader.ask():
        for channel in hub.channels.values():
            channel.send(vfl_pb2.Blinded(), block, timeout=patience)


def _answered(hub: Hub, leader: HardenedLeader, patience: float) -> None:
    """Unblind all answers while the members work at their proofs, then check these."""
    for name, channel in hub.channels.items():
        while leader.answers_left(name):
            said = channel.receive(patience)
            said.expect(vfl_pb2.Evaluated)
            leader.answered(name, said.tensor(np.uint8, None, None))
    for name, message in hub.gather(patience).items():
        claim = message.expect(vfl_pb2.Proof)
        leader.prove(name, claim.commitment, claim.proof)


def _proved(party: Party, channel: Channel, asks: int, spread: Spread) -> HardenedMember:
    """Everything up to the proof."""
    session, ids = align._bound(channel), party.holding.ids
    patience = _patience(party, max(asks, len(ids)))
    terms = Terms(session=session, member=party.name, leader_size=asks, member_size=len(ids))
    refuse_duplicates(ids, party.name)
    member = HardenedMember(
        ids,
        hashed(ids, session),
        terms=terms,
        members=party.agreement.passive,
        entropy=party.entropy,
        spread=spread,
    )
    channel.send(align._signed(party, session, member.start()))
    while member.asks_left:
        said = channel.receive(patience)
        said.expect(vfl_pb2.Blinded)
        member.asked(said.tensor(np.uint8, None, None))
    shares = channel.receive(patience).expect(vfl_pb2.Shares).shares
    for block in member.answer(align._verified(party, session, shares)):
        channel.send(vfl_pb2.Evaluated(), block, timeout=patience)
    commitment, proof = member.prove()
    channel.send(vfl_pb2.Proof(commitment=commitment, proof=proof))
    return member


def _begin(party: Party, pieces: int) -> None:
    party.watch.phase("finding common rows", pieces)


def _pieces(rows: int) -> int:
    return -(-rows // PIECE)


def _patience(party: Party, rows: int) -> float:
    members = len(party.agreement.passive)
    return party.agreement.limits.step_seconds + SECONDS_PER_ROW * rows * members
