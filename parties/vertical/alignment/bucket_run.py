"""The buckets of an intersection, one after another, carried in messages.

The leader sends the matrix of a bucket before it takes the stores of the one before: so it computes
while the members do.
"""

import itertools
from collections import deque

import numpy as np

from parties.session.party import Party
from parties.vertical.alignment.psi_input import Brought, Numbers
from protocol import vfl_pb2
from protocol.channel import Channel
from protocol.errors import RemoteProtocolError
from protocol.hub import Hub
from psi.leader import Leader
from psi.leader_bucket import LeaderBucket, Matches
from psi.member import Member
from psi.shared_types import Bytes
from psi.tags import find
from psi.terms import TAG_BYTES

LOOK_AHEAD = 1  # buckets whose matrix is sent while a store is awaited
PLACE = 4  # bytes of a place in a bucket
TAGS_AT_ONCE = 1 << 18  # in one message; the largest bucket has hardly more


def lead_buckets(party: Party, hub: Hub, leader: Leader, own: Brought, patience: float) -> None:
    """The leader's side of all buckets that are not complete yet."""
    begin(party, own)
    waiting: deque[tuple[int, LeaderBucket]] = deque()
    for number in range(own.done, own.buckets):
        bucket = leader.bucket(number, own.hashes(number, session_of(hub)))
        for blocks in bucket.matrix():
            for name, block in blocks.items():
                hub.channels[name].send(vfl_pb2.Matrix(), block, timeout=patience)
        waiting.append((number, bucket))
        if len(waiting) > LOOK_AHEAD:
            _collect(party, hub, own, *waiting.popleft(), patience)
    while waiting:
        _collect(party, hub, own, *waiting.popleft(), patience)


def _collect(
    party: Party, hub: Hub, own: Brought, number: int, bucket: LeaderBucket, patience: float
) -> None:
    """Take the stores of all members, and keep which rows are common and how members know them."""
    for name, said in hub.gather(patience).items():
        said.expect(vfl_pb2.Store)
        bucket.store(name, said.tensor(np.uint8, None, None))
    keep(hub, own, number, bucket.finish())
    party.watch.step()


def keep(hub: Hub, own: Brought, number: int, found: Matches) -> None:
    """Keep which rows of a bucket are common, and how each member knows them."""
    places = found.rows.astype("<u4").view(np.uint8).reshape(-1, PLACE)
    own.keep(number, np.concatenate([places, *(found.tags[name] for name in hub)], axis=1))


def leader_places(hub: Hub, own: Brought) -> list[Numbers]:
    """The places of the common rows in every bucket."""
    kept = (own.kept(number, _width(hub))[:, :PLACE] for number in range(own.buckets))
    return [np.ascontiguousarray(each).view("<u4").reshape(-1) for each in kept]


def send_tags(hub: Hub, own: Brought, digest: bytes) -> None:
    """Tell every member its common rows, in as few messages as can carry them."""
    counts: list[int] = []
    kept: list[Bytes] = []
    for number in range(own.buckets):
        tags = own.kept(number, _width(hub))[:, PLACE:]
        if counts and sum(counts) + len(tags) > TAGS_AT_ONCE:
            _send(hub, digest, counts, np.concatenate(kept))
            counts, kept = [], []
        counts.append(len(tags))
        kept.append(tags)
    _send(hub, digest, counts, np.concatenate(kept))


def _send(hub: Hub, digest: bytes, counts: list[int], tags: Bytes) -> None:
    for place, channel in enumerate(hub.channels.values()):
        own = tags[:, place * TAG_BYTES : (place + 1) * TAG_BYTES]
        channel.send(vfl_pb2.Matches(digest=digest, counts=counts), own)


def _width(hub: Hub) -> int:
    return PLACE + TAG_BYTES * len(hub.channels)


def follow_buckets(
    party: Party, channel: Channel, member: Member, own: Brought, patience: float
) -> None:
    """A member's side of all buckets that are not complete yet."""
    begin(party, own)
    for number in range(own.done, own.buckets):
        bucket = member.bucket(number, own.hashes(number, bound_session(channel)))
        while bucket.columns_left:
            said = channel.receive(patience)
            said.expect(vfl_pb2.Matrix)
            bucket.absorb(said.tensor(np.uint8, None, None))
        store = bucket.store()
        own.keep(number, bucket.tags)  # before the leader can know the bucket to be complete
        channel.send(vfl_pb2.Store(), store, timeout=patience)
        party.watch.step()


def receive_tags(
    party: Party, channel: Channel, own: Brought, patience: float
) -> tuple[list[Numbers], bytes]:
    """The places of our common rows in every bucket, and the leader's digest of the alignment."""
    places: list[Numbers] = []
    while len(places) < own.buckets:
        said = channel.receive(patience)
        matches = said.expect(vfl_pb2.Matches)
        tags = said.tensor(np.uint8, None, TAG_BYTES)
        counts = list(matches.counts)
        if sum(counts) != len(tags) or not 1 <= len(counts) <= own.buckets - len(places):
            raise RemoteProtocolError(
                f"sent {len(tags)} tags, but counts {sum(counts)} of them in {len(counts)} buckets"
            )
        ends = np.cumsum([0, *counts])
        for low, high in itertools.pairwise(ends):
            kept = own.kept(len(places), TAG_BYTES)
            places.append(find(kept, tags[low:high], party.name).astype(np.uint32))
    return places, matches.digest


def begin(party: Party, own: Brought) -> None:
    """Show where the intersection stands."""
    kept = f", {own.done} of {own.buckets} buckets kept from an earlier start" if own.done else ""
    party.watch.phase(f"finding common rows{kept}", own.buckets - own.done)


def session_of(hub: Hub) -> bytes:
    """The session of all channels."""
    return bound_session(next(iter(hub.channels.values())))


def bound_session(channel: Channel) -> bytes:
    """The session; raises ``RemoteProtocolError`` before there is one."""
    if channel.session is None:
        raise RemoteProtocolError("no session was agreed")
    return channel.session
