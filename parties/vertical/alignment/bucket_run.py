"""Compute the intersection of each bucket of rows, one bucket after another, by messages.

The leader sends the OPRF matrix of a bucket before receiving the members' key-value stores of the
previous bucket. Therefore leader and members compute at the same time.
"""

import itertools
from collections import deque

import numpy as np

from parties.vertical.alignment.psi_input import PsiInput, RowNumbers
from parties.vertical.engine.party import VerticalParty
from protocol import vfl_pb2
from protocol.channel import Channel
from protocol.errors import RemoteProtocolError
from protocol.hub import Hub
from psi.leader import CommonRows, LeaderBucket, PsiLeader
from psi.member import PsiMember
from psi.parameters import TAG_BYTES
from psi.shared_types import Bytes
from psi.tags import find_tags

LOOK_AHEAD = 1  # buckets whose matrix is sent before a store is received
PLACE = 4  # bytes of a place in a bucket
TAGS_AT_ONCE = 1 << 18  # tags in one message; the largest bucket has hardly more


def run_leader_buckets(
    party: VerticalParty, hub: Hub, leader: PsiLeader, own: PsiInput, time_limit: float
) -> None:
    """Compute the intersections of all incomplete buckets as the leader."""
    show_alignment_phase(party, own)
    waiting: deque[tuple[int, LeaderBucket]] = deque()
    for number in range(own.completed, own.buckets):
        bucket = leader.open_bucket(number, own.hashes(number, hub_session(hub)))
        for blocks in bucket.matrix_blocks():
            for name, block in blocks.items():
                hub.channels[name].send(vfl_pb2.OprfMatrix(), block, timeout=time_limit)
        waiting.append((number, bucket))
        if len(waiting) > LOOK_AHEAD:
            _collect(party, hub, own, *waiting.popleft(), time_limit)
    while waiting:
        _collect(party, hub, own, *waiting.popleft(), time_limit)


def _collect(
    party: VerticalParty,
    hub: Hub,
    own: PsiInput,
    number: int,
    bucket: LeaderBucket,
    time_limit: float,
) -> None:
    """Receive the stores of all members, and write the matches of the bucket."""
    for name, message in hub.gather(time_limit).items():
        message.expect(vfl_pb2.KeyValueStore)
        bucket.receive_store(name, message.tensor(np.uint8, None, None))
    store_matches(hub, own, number, bucket.finish())
    party.progress.step()


def store_matches(hub: Hub, own: PsiInput, number: int, matches: CommonRows) -> None:
    """Store the leader's common rows of a bucket, and each member's tags of these rows."""
    places = matches.rows.astype("<u4").view(np.uint8).reshape(-1, PLACE)
    own.write_result(
        number, np.concatenate([places, *(matches.tags[name] for name in hub)], axis=1)
    )


def leader_places(hub: Hub, own: PsiInput) -> list[RowNumbers]:
    """The positions of the leader's common rows in each bucket, one array [matches] per bucket."""
    results = (own.read_result(number, _width(hub))[:, :PLACE] for number in range(own.buckets))
    return [np.ascontiguousarray(each).view("<u4").reshape(-1) for each in results]


def send_tags(hub: Hub, own: PsiInput, digest: bytes) -> None:
    """Send each member the tags of its common rows, in as few messages as possible."""
    counts: list[int] = []
    results: list[Bytes] = []
    for number in range(own.buckets):
        tags = own.read_result(number, _width(hub))[:, PLACE:]
        if counts and sum(counts) + len(tags) > TAGS_AT_ONCE:
            _send(hub, digest, counts, np.concatenate(results))
            counts, results = [], []
        counts.append(len(tags))
        results.append(tags)
    _send(hub, digest, counts, np.concatenate(results))


def _send(hub: Hub, digest: bytes, counts: list[int], tags: Bytes) -> None:
    for place, channel in enumerate(hub.channels.values()):
        own = tags[:, place * TAG_BYTES : (place + 1) * TAG_BYTES]
        channel.send(vfl_pb2.MatchTags(digest=digest, counts=counts), own)


def _width(hub: Hub) -> int:
    return PLACE + TAG_BYTES * len(hub.channels)


def run_member_buckets(
    party: VerticalParty, channel: Channel, member: PsiMember, own: PsiInput, time_limit: float
) -> None:
    """Compute the intersections of all incomplete buckets as a member."""
    show_alignment_phase(party, own)
    for number in range(own.completed, own.buckets):
        bucket = member.open_bucket(number, own.hashes(number, channel_session(channel)))
        while bucket.columns_left:
            message = channel.receive(time_limit)
            message.expect(vfl_pb2.OprfMatrix)
            bucket.receive_block(message.tensor(np.uint8, None, None))
        store = bucket.make_store()
        # Before the store is sent: the leader must not complete a bucket that is lost here.
        own.write_result(number, bucket.tags)
        channel.send(vfl_pb2.KeyValueStore(), store, timeout=time_limit)
        party.progress.step()


def receive_tags(
    party: VerticalParty, channel: Channel, own: PsiInput, time_limit: float
) -> tuple[list[RowNumbers], bytes]:
    """Receive the tags of this member's common rows.

    Returns:
        Two values: the positions of the common rows in each bucket, one array [matches] per bucket;
        and the leader's digest of the alignment.

    Raises:
        RemoteProtocolError: the number of tags is not the sum of the tag counts of the buckets, or
            a message has tag counts of too many buckets or of no bucket.
    """
    places: list[RowNumbers] = []
    while len(places) < own.buckets:
        message = channel.receive(time_limit)
        matches = message.expect(vfl_pb2.MatchTags)
        tags = message.tensor(np.uint8, None, TAG_BYTES)
        counts = list(matches.counts)
        if sum(counts) != len(tags) or not 1 <= len(counts) <= own.buckets - len(places):
            raise RemoteProtocolError(
                f"the leader sent {len(tags)} tags and {len(counts)} counts of tags per bucket; "
                f"expected {sum(counts)} tags (the sum of the counts) and from 1 to "
                f"{own.buckets - len(places)} counts"
            )
        ends = np.cumsum([0, *counts])
        for low, high in itertools.pairwise(ends):
            results = own.read_result(len(places), TAG_BYTES)
            places.append(find_tags(results, tags[low:high], party.name).astype(np.uint32))
    return places, matches.digest


def show_alignment_phase(party: VerticalParty, own: PsiInput) -> None:
    """Start the progress display of the intersection."""
    results = (
        f", {own.completed} of {own.buckets} buckets kept from an earlier start"
        if own.completed
        else ""
    )
    party.progress.phase(f"finding common rows{results}", own.buckets - own.completed)


def hub_session(hub: Hub) -> bytes:
    """The session ID, 16 bytes, that all channels of the hub share."""
    return channel_session(next(iter(hub.channels.values())))


def channel_session(channel: Channel) -> bytes:
    """A channel's session ID, 16 bytes; raises ``RemoteProtocolError`` before the handshake."""
    if channel.session is None:
        raise RemoteProtocolError(
            "the channel has no session ID, because the handshake is not complete"
        )
    return channel.session
