"""Entity alignment in the hardened mode: an active party may ask for its own rows and no more.

All rows are in one bucket, and a session that ends early leaves nothing to go on from: an answer is
worth nothing in another session.
"""

from collections.abc import Mapping

import numpy as np

from parties.common.errors import PolicyError
from parties.common.workers import workers
from parties.session.party import Party
from parties.vertical.alignment.bucket_run import bound_session, keep, session_of
from parties.vertical.alignment.common_rows import Alignment, agree, concur, signed, verified
from parties.vertical.alignment.psi_input import Brought, claimed
from protocol import vfl_pb2
from protocol.channel import Channel
from protocol.errors import RemoteProtocolError
from protocol.hub import Hub
from psi.hardened_leader import HardenedLeader
from psi.hardened_member import HardenedMember
from psi.shared_types import Bytes
from psi.spread import PIECE, Spread
from psi.terms import Terms

SLOTS = 1 << 20  # of a store in one message, of which at most 16 MiB travel
SECONDS_PER_ROW = 2e-3  # patience, for each member: about ten times what a row takes


def lead(party: Party, hub: Hub, own: Brought) -> Alignment:
    """The active party's side; raises like ``align.lead``."""
    _affordable(party, party.name, own.size)
    own.begin(1, 0)
    hub.broadcast(vfl_pb2.Open(rows=own.size, done=0))
    own.lay_out()
    gathered = hub.gather(_patience(party, own.size))
    shares = {name: said.expect(vfl_pb2.Share) for name, said in gathered.items()}
    sizes = {name: claimed(party, name, share.rows) for name, share in shares.items()}
    patience = _patience(party, max(own.size, *sizes.values()))
    _begin(party, _pieces(own.size) * (1 + 2 * len(sizes)))
    with workers(party.seat.threads, party.watch.step) as spread:
        leader = _leader(party, own, sizes, session_of(hub), spread)
        _asked(hub, leader, patience)
        hub.broadcast(vfl_pb2.Shares(shares=shares, done=0))
        _answered(hub, leader, patience)
    for name, channel in hub.channels.items():
        leader.store(name, _store(channel, leader.slots(name), patience))
    keep(hub, own, 0, leader.finish())
    return agree(party, hub, own, patience)


def follow(party: Party, channel: Channel, own: Brought, asks: int) -> Alignment:
    """A passive party's side, which answers ``asks`` asks; raises like ``align.follow``."""
    _affordable(party, channel.terms.peer, asks)
    own.begin(1, 0)
    own.lay_out()
    patience = _patience(party, max(asks, own.size))
    _begin(party, 2 * _pieces(asks) + _pieces(len(own.ids)))
    with workers(party.seat.threads, party.watch.step) as spread:
        member = _proved(party, channel, own, asks, spread)
        store = member.store()
    own.keep(0, member.tags)
    for first in range(0, len(store), SLOTS):
        channel.send(vfl_pb2.Store(), store[first : first + SLOTS], timeout=patience)
    return concur(party, channel, own, patience)


def _affordable(party: Party, who: str, asks: int) -> None:
    """Every ask is a guess to who would cheat, so the agreement bounds them."""
    most = party.agreement.psi.queries
    if asks > most:
        raise PolicyError(
            f"{who} asks for {asks} rows; psi.queries = {most}",
            "agree on more psi.queries, or bring or declare fewer rows at the active party",
        )


def _leader(
    party: Party, own: Brought, sizes: Mapping[str, int], session: bytes, spread: Spread
) -> HardenedLeader:
    terms = [
        Terms(session=session, member=name, leader_size=own.size, member_size=size)
        for name, size in sizes.items()
    ]
    # The rows of the only bucket lie in their own order, as the IDs do.
    hashes = own.hashes(0, session)
    return HardenedLeader(own.ids, hashes, terms=terms, entropy=party.entropy, spread=spread)


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


def _proved(
    party: Party, channel: Channel, own: Brought, asks: int, spread: Spread
) -> HardenedMember:
    """Everything up to the proof."""
    session, patience = bound_session(channel), _patience(party, max(asks, own.size))
    member = _member(party, own, session, asks, spread)
    channel.send(signed(party, own, session, member.start()))
    while member.asks_left:
        said = channel.receive(patience)
        said.expect(vfl_pb2.Blinded)
        member.asked(said.tensor(np.uint8, None, None))
    shares = channel.receive(patience).expect(vfl_pb2.Shares)
    if shares.done:
        raise RemoteProtocolError(f"begins with bucket {shares.done}; there is only one")
    for block in member.answer(verified(party, session, shares.shares)):
        channel.send(vfl_pb2.Evaluated(), block, timeout=patience)
    commitment, proof = member.prove()
    channel.send(vfl_pb2.Proof(commitment=commitment, proof=proof))
    return member


def _member(
    party: Party, own: Brought, session: bytes, asks: int, spread: Spread
) -> HardenedMember:
    return HardenedMember(
        own.ids,
        own.hashes(0, session),
        terms=Terms(session=session, member=party.name, leader_size=asks, member_size=own.size),
        members=party.agreement.passive,
        entropy=party.entropy,
        spread=spread,
    )


def _begin(party: Party, pieces: int) -> None:
    party.watch.phase("finding common rows", pieces)


def _pieces(rows: int) -> int:
    return -(-rows // PIECE)


def _patience(party: Party, rows: int) -> float:
    members = len(party.agreement.passive)
    return party.agreement.limits.step_seconds + SECONDS_PER_ROW * rows * members
