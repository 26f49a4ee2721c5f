"""Hub: messages to all spokes or to one, in order; an error names its spoke."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from message_examples import AGREEMENT, ASK, DESCEND, HUB, PLACE, SESSION, floats

from protocol import vfl_pb2 as pb
from protocol.channel import Channel
from protocol.envelope import ChannelTerms
from protocol.errors import Aborted, PeerSilent, RemoteProtocolError
from protocol.hub import Hub
from protocol.line import memory_lines
from protocol.phases import Phase, Side

NAMES = ("hospital", "shop", "school")


class Star:
    """A hub and three spokes in phase READY."""

    def __init__(self) -> None:
        self.spokes: dict[str, Channel] = {}
        channels = {}
        for name in NAMES:
            ends = memory_lines(name)
            for channel, there in (
                (Channel(ends[0], Side.HUB, ChannelTerms(HUB, name, AGREEMENT), ignore), channels),
                (
                    Channel(ends[1], Side.SPOKE, ChannelTerms(name, HUB, AGREEMENT), ignore),
                    self.spokes,
                ),
            ):
                channel._phases.phase, channel.session = Phase.READY, SESSION
                there[name] = channel
        self.hub = Hub(channels)

    def all(self, act: Callable[[Channel], object]) -> None:
        for channel in self.spokes.values():
            act(channel)


def ignore(record: object) -> None:
    """Ignore the record of a message."""


@pytest.fixture
def star() -> Star:
    made = Star()
    made.hub.move_to(PLACE)
    return made


def test_broadcast_reaches_all_and_gather_returns_all(star: Star) -> None:
    star.hub.broadcast(ASK)
    for number, (name, spoke) in enumerate(star.spokes.items()):
        assert spoke.receive(1).body == ASK
        assert spoke.place == PLACE
        spoke.send(pb.Embedding(), floats(number + 1, 2))
        assert name in star.hub.channels
    answers = star.hub.gather(1)
    assert list(answers) == list(star.hub) == list(NAMES)
    assert [len(reply.tensors[0]) for reply in answers.values()] == [1, 2, 3]


def test_scatter_sends_each_spoke_its_own_tensor(star: Star) -> None:
    for channel in star.hub.channels.values():
        channel._phases.phase = Phase.EMBEDDED
    star.all(lambda channel: setattr(channel._phases, "phase", Phase.EMBEDDED))
    star.hub.scatter(DESCEND, {name: floats(2, n + 1) for n, name in enumerate(NAMES)})
    for number, spoke in enumerate(star.spokes.values()):
        np.testing.assert_array_equal(spoke.receive(1).tensors[0], floats(2, number + 1))


def test_silent_spoke_is_named_with_its_place(star: Star) -> None:
    star.hub.broadcast(ASK)
    star.all(lambda channel: channel.receive(1))
    star.spokes["hospital"].send(pb.Embedding(), floats(1, 1))
    star.spokes["school"].send(pb.Embedding(), floats(1, 1))
    with pytest.raises(
        PeerSilent,
        match=r"^shop: the peer sent no message for 0\.05 s \(train, epoch 3, step 17\)$",
    ):
        star.hub.gather(0.05)


def test_spoke_with_an_illegal_reply_is_named(star: Star) -> None:
    star.hub.broadcast(pb.Purge())
    star.all(lambda channel: channel.receive(1))
    star.spokes["hospital"].send(pb.Done())
    star.spokes["shop"]._phases.phase = Phase.EMBEDDING
    star.spokes["shop"].send(pb.Embedding(), floats(1, 1))
    with pytest.raises(
        RemoteProtocolError, match=r"^shop: the peer \(spoke\) must not send Embedding"
    ):
        star.hub.gather(1)


def test_abort_reaches_all_spokes_that_are_connected(star: Star) -> None:
    star.spokes["hospital"].close()
    star.hub.abort("policy", "too few common rows")
    star.hub.close()
    for spoke in star.spokes.values():
        with pytest.raises(Aborted, match="bank: aborted: too few common rows"):
            spoke.receive(1)


def test_ask_sends_to_one_spoke_alone(star: Star) -> None:
    rows = np.array([5, 9])
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(star.hub.ask, "shop", 2.0, pb.PlantTrigger(), rows)
        received = star.spokes["shop"].receive(2)
        star.spokes["shop"].send(pb.Done())
        assert answer.result(2).body == pb.Done()
    np.testing.assert_array_equal(received.tensors[0], rows)
    for name in ("hospital", "school"):
        assert star.hub.channels[name]._phases.phase is Phase.READY
        with pytest.raises(PeerSilent):
            star.spokes[name].receive(0.05)
