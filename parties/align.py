"""Entity alignment: private set intersection carried in messages, and the common order."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from hmac import compare_digest

import numpy as np

from parties import align_hardened
from parties.errors import PolicyError
from parties.party import Party
from parties.schedule import Index, key
from protocol import vfl_pb2
from protocol.channel import Channel
from protocol.credentials import verify
from protocol.errors import RemoteProtocolError
from protocol.hub import Hub
from psi.alignment import alignment_digest, common_order
from psi.errors import PsiError
from psi.leader import Leader, Matches
from psi.member import Member

SECONDS_PER_ROW = 1e-3  # patience: about a hundred times what a row takes


@dataclass(frozen=True, slots=True)
class Alignment:
    """The common rows: ``rows[i]`` is this party's own row number of common row i."""

    rows: Index
    digest: bytes

    def __len__(self) -> int:
        return len(self.rows)


def lead(party: Party, hub: Hub) -> Alignment:
    """The active party's side of the intersection.

    Raises:
        PolicyError: fewer common rows than the agreement demands.
        RemoteProtocolError: a party broke the protocol, or holds other common rows.
    """
    party.watch.phase("finding common rows")
    hub.move_to(vfl_pb2.Place(task=vfl_pb2.ALIGN, epoch=0, step=0, microbatch=0))
    if party.agreement.psi.security == "hardened":
        return align_hardened.lead(party, hub)
    with party.ledger.clock("psi"), _blamed():
        matches = _match(party, hub)
        _enough(party, len(matches.rows))
        return _agree(party, hub, matches)


def _match(party: Party, hub: Hub) -> Matches:
    """Exchange shares, answer every offer, send the matrix, take every store."""
    ids = party.holding.ids
    _not_too_many(party, party.name, len(ids))
    hub.broadcast(vfl_pb2.Open(rows=len(ids)))
    patience = _patience(party, len(ids))
    shares = {name: said.expect(vfl_pb2.Share) for name, said in hub.gather(patience).items()}
    sizes = {name: share.rows for name, share in shares.items()}
    for name, size in sizes.items():
        _not_too_many(party, name, size)
    patience = _patience(party, max(len(ids), *sizes.values()))
    leader = Leader(ids, sizes=sizes, session=_session(hub), entropy=party.entropy)
    hub.broadcast(vfl_pb2.Shares(shares=shares))
    for name, said in hub.gather(patience).items():
        answer = leader.answer(name, said.expect(vfl_pb2.Offer).offer)
        hub.channels[name].send(vfl_pb2.Answer(answer=answer))
    for blocks in leader.matrix():
        for name, block in blocks.items():
            hub.channels[name].send(vfl_pb2.Matrix(), block, timeout=patience)
    for name, said in hub.gather(patience).items():
        leader.store(name, said.tensor(np.uint8, None, None))
    return leader.finish()


def _agree(party: Party, hub: Hub, matches: Matches) -> Alignment:
    ours = _alignment(party, matches.rows, _session(hub))
    for name, channel in hub.channels.items():
        channel.send(vfl_pb2.Matches(digest=ours.digest), matches.tags[name])
    for name, said in hub.gather(_patience(party, len(party.holding.ids))).items():
        _same(ours, said.expect(vfl_pb2.Aligned).digest, name)
    return ours


def follow(party: Party, channel: Channel) -> Alignment:
    """A passive party's side of the intersection; raises like ``lead``."""
    party.watch.phase("finding common rows")
    if party.agreement.psi.security == "hardened":
        return align_hardened.follow(party, channel)
    with party.ledger.clock("psi"), _blamed():
        opened = channel.receive(party.agreement.limits.idle_seconds).expect(vfl_pb2.Open)
        _not_too_many(party, party.name, len(party.holding.ids))
        _not_too_many(party, channel.terms.peer, opened.rows)
        patience = _patience(party, max(opened.rows, len(party.holding.ids)))
        member = Member(
            party.holding.ids,
            name=party.name,
            members=party.agreement.passive,
            session=_bound(channel),
            leader_size=opened.rows,
            entropy=party.entropy,
        )
        _store(party, channel, member, patience)
        said = channel.receive(patience)
        rows = member.finish(said.tensor(np.uint8, None, None))
        _enough(party, len(rows))
        ours = _alignment(party, rows, _bound(channel))
        _same(ours, said.expect(vfl_pb2.Matches).digest, channel.terms.peer)
        channel.send(vfl_pb2.Aligned(digest=ours.digest))
        return ours


def _store(party: Party, channel: Channel, member: Member, patience: float) -> None:
    """Everything up to the key-value store."""
    channel.send(_signed(party, _bound(channel), member.start()))
    shares = channel.receive(patience).expect(vfl_pb2.Shares).shares
    offer = member.offer(_verified(party, _bound(channel), shares))
    channel.send(vfl_pb2.Offer(offer=offer))
    member.accept(channel.receive(patience).expect(vfl_pb2.Answer).answer)
    while member.columns_left:
        member.absorb(channel.receive(patience).tensor(np.uint8, None, None))
    channel.send(vfl_pb2.Store(), member.store(), timeout=patience)


def _signed(party: Party, session: bytes, share: bytes) -> vfl_pb2.Share:
    """Our share, signed for all passive parties: who relays it cannot change it."""
    rows = len(party.holding.ids)
    covered = _covered(party, session, party.name, rows, share)
    return vfl_pb2.Share(
        rows=rows,
        key=share,
        certificate=party.keyring.identity.der,
        signature=party.keyring.identity.sign("psi-share", *covered),
    )


def _verified(
    party: Party, session: bytes, shares: Mapping[str, vfl_pb2.Share]
) -> dict[str, bytes]:
    """The keys of all passive parties, each proved to be its own."""
    for name, share in shares.items():
        covered = _covered(party, session, name, share.rows, share.key)
        signer = verify(
            party.trust, share.certificate, share.signature, party.now(), "psi-share", *covered
        )
        if signer != name:
            raise RemoteProtocolError(f"the share of {name} is signed by {signer}")
    return {name: share.key for name, share in shares.items()}


def _covered(
    party: Party, session: bytes, sender: str, rows: int, share: bytes
) -> tuple[bytes, ...]:
    receivers = ",".join(party.agreement.passive).encode()
    return session, party.digest, sender.encode(), receivers, rows.to_bytes(8, "big"), share


def _alignment(party: Party, rows: Index, session: bytes) -> Alignment:
    """Put our common rows into the order that every party computes by itself."""
    ids = party.holding.ids
    secret = key(party.agreement.seed, "order", party.agreement.federation)
    ordered = rows[common_order([ids[row] for row in rows], secret)]
    # Which rows an official test file holds divides them alike only if all read the same files.
    divided = sha256(party.holding.in_test[ordered].tobytes()).digest()
    digest = alignment_digest([ids[row] for row in ordered], session, party.digest + divided)
    return Alignment(ordered, digest)


def _enough(party: Party, common: int) -> None:
    least = party.agreement.psi.minimum
    if common < least:
        raise PolicyError(
            "no common rows" if not common else f"fewer common rows than psi.minimum = {least}",
            "do the parties hold the same people, and IDs written alike?",
        )


def _not_too_many(party: Party, who: str, rows: int) -> None:
    """Memory grows with what others say they bring, so the agreement bounds it."""
    most = party.agreement.limits.rows
    if rows > most:
        raise PolicyError(f"{who} brings {rows} rows; limits.rows = {most}")


def _same(ours: Alignment, theirs: bytes, peer: str) -> None:
    if not compare_digest(ours.digest, theirs):
        raise RemoteProtocolError(
            f"{peer} holds other common rows than we do, or divides them otherwise",
            "are IDs written alike, and do all read the same train and test files?",
        )


def _session(hub: Hub) -> bytes:
    return _bound(next(iter(hub.channels.values())))


def _bound(channel: Channel) -> bytes:
    if channel.session is None:
        raise RemoteProtocolError("no session was agreed")
    return channel.session


def _patience(party: Party, rows: int) -> float:
    return party.agreement.limits.step_seconds + SECONDS_PER_ROW * rows


@contextmanager
def _blamed() -> Iterator[None]:
    """What the intersection refuses was said by a peer."""
    try:
        yield
    except PsiError as error:
        raise RemoteProtocolError(f"intersection: {error}", error.hint) from error
