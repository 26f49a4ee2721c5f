"""Common rows: what every intersection begins with, signed shares, and ends with, one order."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from hmac import compare_digest

import numpy as np

from parties.common.errors import PolicyError
from parties.common.shared_randomness import Index, key
from parties.session.party import Party
from parties.vertical.alignment.bucket_run import (
    bound_session,
    leader_places,
    receive_tags,
    send_tags,
    session_of,
)
from parties.vertical.alignment.psi_input import Brought, Numbers
from protocol import vfl_pb2
from protocol.channel import Channel
from protocol.credentials import verify
from protocol.errors import RemoteProtocolError
from protocol.hub import Hub
from psi.alignment import alignment_digest, common_order, inverse, order_words
from psi.errors import PsiError


@dataclass(frozen=True, slots=True)
class Alignment:
    """The common rows: ``rows[i]`` is this party's own row number of common row i."""

    rows: Index
    digest: bytes

    def __len__(self) -> int:
        return len(self.rows)


@contextmanager
def brought(party: Party) -> Iterator[Brought]:
    """Our rows; what was kept of them goes once the intersection is over, or proved useless.

    What the intersection refuses was said by a peer.
    """
    own = Brought(party)
    try:
        yield own
    except PsiError as error:
        own.remove()
        raise RemoteProtocolError(f"intersection: {error}", error.hint) from error
    own.remove()


def signed(party: Party, own: Brought, session: bytes, share: bytes) -> vfl_pb2.Share:
    """Our share, signed for all passive parties: who relays it cannot change it."""
    covered = _covered(party, session, party.name, own.size, share)
    return vfl_pb2.Share(
        rows=own.size,
        done=own.done,
        key=share,
        certificate=party.keyring.identity.der,
        signature=party.keyring.identity.sign("psi-share", *covered),
    )


def verified(party: Party, session: bytes, shares: Mapping[str, vfl_pb2.Share]) -> dict[str, bytes]:
    """The keys of all passive parties, each proved to be its own."""
    if set(shares) != set(party.agreement.passive):
        raise RemoteProtocolError("sent shares of others than the passive parties")
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


def agree(party: Party, hub: Hub, own: Brought, patience: float) -> Alignment:
    """Only here members learn anything, once enough rows are known to be common."""
    places = leader_places(hub, own)
    _enough(party, sum(map(len, places)))
    ours = _alignment(party, own, places, session_of(hub))
    send_tags(hub, own, ours.digest)
    for name, said in hub.gather(patience).items():
        _same(ours, said.expect(vfl_pb2.Aligned).digest, name)
    return ours


def concur(party: Party, channel: Channel, own: Brought, patience: float) -> Alignment:
    """A passive party's side of ``agree``."""
    places, theirs = receive_tags(party, channel, own, patience)
    _enough(party, sum(map(len, places)))
    ours = _alignment(party, own, places, bound_session(channel))
    _same(ours, theirs, channel.terms.peer)
    channel.send(vfl_pb2.Aligned(digest=ours.digest))
    return ours


def _alignment(party: Party, own: Brought, places: Sequence[Numbers], session: bytes) -> Alignment:
    """Put our common rows into the order that every party computes by itself."""
    party.watch.phase("ordering common rows")
    secret = key(party.agreement.seed, "order", party.agreement.federation)
    # Memory is short here: what can be read again is not kept.
    order = common_order(lambda part: order_words(own.ids, own.rows(places), secret, part))
    ranks = inverse(order)
    rows = own.rows(places).take(order)
    del order
    # Which rows an official test file holds divides them alike only if all read the same files.
    divided = sha256(party.holding.in_test[rows].data).digest()
    digest = alignment_digest(own.prints(places, ranks), session, party.digest + divided)
    return Alignment(rows.astype(np.int64), digest)


def _enough(party: Party, common: int) -> None:
    least = party.agreement.psi.minimum
    if common < least:
        raise PolicyError(
            "no common rows" if not common else f"fewer common rows than psi.minimum = {least}",
            "do the parties hold the same people, and IDs written alike?",
        )


def _same(ours: Alignment, theirs: bytes, peer: str) -> None:
    if not compare_digest(ours.digest, theirs):
        raise RemoteProtocolError(
            f"{peer} holds other common rows than we do, or divides them otherwise",
            "are IDs written alike, and do all read the same train and test files?",
        )
