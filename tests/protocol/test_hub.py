"""The hub holds all spokes at once: in order, to each its own, and who fails is named."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from talk import AGREEMENT, ASK, DESCEND, HUB, PLACE, SESSION, floats

from protocol import vfl_pb2 as say
from protocol.channel import Channel
from protocol.envelope import Terms
from protocol.errors import Aborted, PeerSilent, RemoteProtocolError
from protocol.hub import Hub
from protocol.line import memory_lines
from protocol.phases import Phase, Side

NAMES = ("hospital", "shop", "school")


class Star:
    """A hub and three spokes that are ready."""

    def __init__(self) -> None:
        self.spokes: dict[str, Channel] = {}
        channels = {}
        for name in NAMES:
            ends = memory_lines(name)
            for channel, there in (
                (Channel(ends[0], Side.HUB, Terms(HUB, name, AGREEMENT), len_of), channels),
                (Channel(ends[1], Side.SPOKE, Terms(name, HUB, AGREEMENT), len_of), self.spokes),
            ):
                channel._conversation.phase, channel.session = Phase.READY, SESSION
                there[name] = channel
        self.hub = Hub(channels)

    def all(self, act: Callable[[Channel], object]) -> None:
        for channel in self.spokes.values():
            act(channel)


def len_of(fact: object) -> None:
    """Nobody takes the facts down here."""


@pytest.fixture
def star() -> Star:
    made = Star()
    made.hub.move_to(PLACE)
    return made


def test_same_words_to_everybody_and_one_answer_from_each(star: Star) -> None:
    star.hub.broadcast(ASK)
    for number, (name, spoke) in enumerate(star.spokes.items()):
        assert spoke.receive(1).body == ASK
        assert spoke.place == PLACE
        spoke.send(say.Embedding(), floats(number + 1, 2))
        assert name in star.hub.channels
    answers = star.hub.gather(1)
    assert list(answers) == list(star.hub) == list(NAMES)
    assert [len(said.tensors[0]) for said in answers.values()] == [1, 2, 3]


def test_everybody_gets_its_own_tensor(star: Star) -> None:
    for channel in star.hub.channels.values():
        channel._conversation.phase = Phase.EMBEDDED
    star.all(lambda channel: setattr(channel._conversation, "phase", Phase.EMBEDDED))
    star.hub.scatter(DESCEND, {name: floats(2, n + 1) for n, name in enumerate(NAMES)})
    for number, spoke in enumerate(star.spokes.values()):
        np.testing.assert_array_equal(spoke.receive(1).tensors[0], floats(2, number + 1))


def test_hung_spoke_is_named_with_its_place(star: Star) -> None:
    star.hub.broadcast(ASK)
    star.all(lambda channel: channel.receive(1))
    star.spokes["hospital"].send(say.Embedding(), floats(1, 1))
    star.spokes["school"].send(say.Embedding(), floats(1, 1))
    with pytest.raises(PeerSilent, match=r"^shop: silent for 0\.05 s \(train, epoch 3, step 17\)$"):
        star.hub.gather(0.05)


def test_spoke_that_answers_wrongly_is_named(star: Star) -> None:
    star.hub.broadcast(say.Purge())
    star.all(lambda channel: channel.receive(1))
    star.spokes["hospital"].send(say.Done())
    star.spokes["shop"]._conversation.phase = Phase.EMBEDDING
    star.spokes["shop"].send(say.Embedding(), floats(1, 1))
    with pytest.raises(RemoteProtocolError, match=r"^shop: the peer \(spoke\) said Embedding"):
        star.hub.gather(1)


def test_all_are_told_why_it_is_over_even_if_one_is_gone(star: Star) -> None:
    star.spokes["hospital"].close()
    star.hub.abort("policy", "too few common rows")
    star.hub.close()
    for spoke in star.spokes.values():
        with pytest.raises(Aborted, match="bank: gave up: too few common rows"):
            spoke.receive(1)


def test_one_spoke_is_spoken_to_alone(star: Star) -> None:
    rows = np.array([5, 9])
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(star.hub.ask, "shop", 2.0, say.Stamp(), rows)
        heard = star.spokes["shop"].receive(2)
        star.spokes["shop"].send(say.Done())
        assert answer.result(2).body == say.Done()
    np.testing.assert_array_equal(heard.tensors[0], rows)
    for name in ("hospital", "school"):
        assert star.hub.channels[name]._conversation.phase is Phase.READY
        with pytest.raises(PeerSilent):
            star.spokes[name].receive(0.05)
