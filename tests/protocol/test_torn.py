"""A message that was said half-way: nothing may follow its first frames but the end."""

import pytest
from conftest import Lines
from talk import TappedLine, blob, pair

from protocol import vfl_pb2 as say
from protocol.channel import Channel
from protocol.errors import LineBroken, LocalProtocolError, PeerSilent
from protocol.frames import CHUNK
from protocol.line import memory_lines
from protocol.phases import Phase


class TearingLine(TappedLine):
    """The third frame never leaves: a signal comes, or the peer takes none."""

    reason: BaseException

    def send(self, frame: bytes, timeout: float) -> None:
        if len(self.sent) == 2:
            raise self.reason
        super().send(frame, timeout)


@pytest.mark.parametrize("reason", [KeyboardInterrupt(), PeerSilent("takes no message for 1 s")])
def test_nothing_follows_half_a_message(lines: Lines, reason: BaseException) -> None:
    tearing = TearingLine(lines.hub)
    tearing.reason = reason
    talk = pair(tearing, lines.spoke, Phase.TRANSFERRING)
    hub: Channel = talk.hub.channel
    with pytest.raises(type(reason)):
        hub.send(say.Matrix(), blob(3 * CHUNK))
    with pytest.raises(LocalProtocolError, match="an earlier message is half said"):
        hub.send(say.Matrix(), blob(1))
    hub.abort("local", "interrupted")
    assert len(tearing.sent) == 2
    with pytest.raises(LineBroken, match="closed the connection"):
        talk.spoke.channel.receive(5)


def test_message_that_never_began_is_no_torn_one() -> None:
    hub, _ = memory_lines()
    talk = pair(hub, hub, Phase.TRANSFERRING)
    with pytest.raises(LocalProtocolError, match="cannot travel"):
        talk.hub.channel.send(say.Matrix(), blob(4).astype(bool))
    talk.hub.channel.abort("local", "a mistake of ours")
    assert len(talk.hub.line.sent) == 1


def test_answer_is_kept_only_until_the_peer_goes_on(lines: Lines) -> None:
    """So that no large message stays in memory for the rest of the run."""
    talk = pair(*lines, Phase.TRANSFERRING)
    for _ in talk.hub.channel._reply, talk.spoke.channel._reply:
        assert _ == []
    talk.carry(talk.spoke.channel.side, say.Store(), blob(2 * CHUNK))
    assert sum(map(len, talk.spoke.channel._reply)) > 2 * CHUNK
    talk.hub.channel.send(say.Matches(digest=b"d" * 32), blob(4, 12))
    assert talk.hub.channel._reply == []  # a hub never repeats itself
    talk.spoke.channel.receive(5)
    assert talk.spoke.channel._reply == []
