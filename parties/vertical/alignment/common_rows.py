"""Steps before and after an intersection: sign key shares, and order the common rows."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from hmac import compare_digest

import numpy as np

from parties.common.errors import PolicyError
from parties.common.shared_randomness import Index
from parties.data.sources.arrays import Mask
from parties.vertical.alignment.bucket_run import (
    channel_session,
    hub_session,
    leader_places,
    receive_tags,
    send_tags,
)
from parties.vertical.alignment.psi_input import PsiInput, RowNumbers
from parties.vertical.engine.party import VerticalParty
from protocol import vfl_pb2
from protocol.channel import Channel
from protocol.credentials import verify_signature
from protocol.errors import RemoteProtocolError
from protocol.hub import Hub
from psi.alignment import alignment_digest, common_order, inverse_permutation
from psi.errors import PsiError


@dataclass(frozen=True, slots=True)
class Alignment:
    """The common rows of one party, in the common order."""

    rows: Index  # [common_rows], the party's own row number of each common row
    digest: bytes  # digest of the alignment, equal at all parties

    def __len__(self) -> int:
        return len(self.rows)


@contextmanager
def open_psi_input(party: VerticalParty, known: Mask | None = None) -> Iterator[PsiInput]:
    """Open this party's input files of an intersection, and delete the files at the end.

    The files are also deleted after a ``PsiError``. ``known``, [rows], marks own rows that are
    known to be common and do not cross the intersection.

    Raises:
        RemoteProtocolError: a peer sent data that the intersection does not accept.
    """
    own = PsiInput(party, known)
    try:
        yield own
    except PsiError as error:
        own.remove()
        raise RemoteProtocolError(f"intersection: {error}", error.hint) from error
    own.remove()


def signed_share(
    party: VerticalParty, own: PsiInput, session: bytes, share: bytes
) -> vfl_pb2.KeyShare:
    """This party's key share, signed so that the passive parties detect a change by the hub."""
    covered = _signed_fields(party, session, party.name, own.size, share)
    return vfl_pb2.KeyShare(
        rows=own.size,
        completed_buckets=own.completed,
        key=share,
        certificate=party.keyring.identity.der,
        signature=party.keyring.identity.sign("psi-share", *covered),
    )


def verified_keys(
    party: VerticalParty, session: bytes, shares: Mapping[str, vfl_pb2.KeyShare]
) -> dict[str, bytes]:
    """The keys of all passive parties, each with a verified signature.

    Raises:
        RemoteProtocolError: a share is missing, belongs to an unexpected party, or was signed by
            another party.
    """
    if set(shares) != set(party.agreement.passive):
        raise RemoteProtocolError(
            "the hub sent a wrong set of key shares; expected one key share of each passive party: "
            + ", ".join(party.agreement.passive)
        )
    for name, share in shares.items():
        covered = _signed_fields(party, session, name, share.rows, share.key)
        signer = verify_signature(
            party.trust, share.certificate, share.signature, party.now(), "psi-share", *covered
        )
        if signer != name:
            raise RemoteProtocolError(
                f"the hub sent a key share of {name} that was signed by {signer}; expected the "
                f"signature of {name}"
            )
    return {name: share.key for name, share in shares.items()}


def _signed_fields(
    party: VerticalParty, session: bytes, sender: str, rows: int, share: bytes
) -> tuple[bytes, ...]:
    receivers = ",".join(party.agreement.passive).encode()
    return session, party.digest, sender.encode(), receivers, rows.to_bytes(8, "big"), share


def finish_leader(party: VerticalParty, hub: Hub, own: PsiInput, time_limit: float) -> Alignment:
    """Order the common rows, send each member its tags, and compare the digests of the alignments.

    Members receive the result only in this step, after the leader has found enough common rows.

    Raises:
        PolicyError: there are fewer common rows than ``psi.minimum``.
        RemoteProtocolError: a member computed a different alignment.
    """
    places = [*leader_places(hub, own), own.known_places]
    _require_enough(party, sum(map(len, places)))
    ours = _alignment(party, own, places, hub_session(hub))
    send_tags(hub, own, ours.digest)
    for name, message in hub.gather(time_limit).items():
        _require_same(ours, message.expect(vfl_pb2.Aligned).digest, name)
    return ours


def finish_member(
    party: VerticalParty, channel: Channel, own: PsiInput, time_limit: float
) -> Alignment:
    """Receive the tags, order the common rows, and compare the digests of the alignments.

    Raises:
        PolicyError: there are fewer common rows than ``psi.minimum``.
        RemoteProtocolError: the leader computed a different alignment.
    """
    places, peer_digest = receive_tags(party, channel, own, time_limit)
    places.append(own.known_places)
    _require_enough(party, sum(map(len, places)))
    ours = _alignment(party, own, places, channel_session(channel))
    _require_same(ours, peer_digest, channel.terms.peer)
    channel.send(vfl_pb2.Aligned(digest=ours.digest))
    return ours


def _alignment(
    party: VerticalParty, own: PsiInput, places: Sequence[RowNumbers], session: bytes
) -> Alignment:
    """Put the own common rows into the order that each party computes by itself."""
    party.progress.phase("ordering common rows")
    # This step needs most memory, so rows are read again instead of being kept.
    order = common_order(lambda part: own.order_words(places, part))
    ranks = inverse_permutation(order)
    rows = own.rows(places).take(order)
    del order
    # The digest covers which rows are in the official test set: all must have read the same files.
    divided = sha256(party.holding.in_test[rows].data).digest()
    digest = alignment_digest(own.fingerprints(places, ranks), session, party.digest + divided)
    return Alignment(rows.astype(np.int64), digest)


def _require_enough(party: VerticalParty, common: int) -> None:
    least = party.agreement.psi.minimum
    if common < least:
        raise PolicyError(
            "the parties have no common rows"
            if not common
            else f"the parties have fewer common rows than psi.minimum = {least}",
            "check that all parties have data of the same people and write IDs in the same way",
        )


def _require_same(ours: Alignment, peer_digest: bytes, peer: str) -> None:
    if not compare_digest(ours.digest, peer_digest):
        raise RemoteProtocolError(
            f"{peer} computed another alignment than this party: the common rows or the test sets "
            "of the two parties differ",
            "check that all parties write IDs in the same way and read the same files",
        )
