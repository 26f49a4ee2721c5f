"""Golden frames: the wire format is unchanged, and every illegal frame has its error."""

import pytest
from golden import FOLDER, INDEX, illegal_frames, legal_frames
from message_examples import endpoint

from protocol.errors import RemoteProtocolError
from protocol.frames import MAX_FRAME, MAX_HEADER, decode_message
from protocol.line import memory_lines
from protocol.message import BODY_FIELDS
from protocol.phases import Phase, Side
from tests.conftest import Lines

SPOKEN, REFUSED = legal_frames(), illegal_frames()


@pytest.mark.parametrize("name", SPOKEN)
def test_frame_is_golden(name: str) -> None:
    assert SPOKEN[name] == (FOLDER / f"{name}.bin").read_bytes()


@pytest.mark.parametrize("name", SPOKEN)
def test_golden_frame_is_decoded(name: str) -> None:
    _, message = decode_message((FOLDER / f"{name}.bin").read_bytes)
    assert BODY_FIELDS[type(message.body)] == name


def test_every_golden_frame_has_a_file() -> None:
    assert {path.stem for path in FOLDER.glob("*.bin")} == set(BODY_FIELDS.values())
    small = {name for name, (content, _) in REFUSED.items() if len(content) < MAX_HEADER}
    assert {path.stem for path in INDEX.parent.glob("*.bin")} == small
    assert dict(line.split("\t") for line in INDEX.read_text().splitlines()) == {
        name: error_text for name, (_, error_text) in REFUSED.items()
    }


@pytest.mark.parametrize("name", REFUSED)
def test_illegal_frame_is_golden(name: str) -> None:
    content, _ = REFUSED[name]
    if len(content) < MAX_HEADER:
        assert content == (INDEX.parent / f"{name}.bin").read_bytes()


@pytest.mark.parametrize("name", REFUSED)
def test_illegal_frame_is_refused_with_its_error(lines: Lines, name: str) -> None:
    content, error_text = REFUSED[name]
    spoke = endpoint(lines.spoke, Side.SPOKE, Phase.READY)
    if (
        not 0 < len(content) <= MAX_FRAME
    ):  # gRPC: an empty frame is a heartbeat; a larger one is not sent
        lines = Lines(*memory_lines())
        spoke.line.line = lines.spoke
    lines.hub.send(content, 5)
    with pytest.raises(RemoteProtocolError) as error:
        spoke.channel.receive(1)
    assert str(error.value).startswith(f"bank: {error_text}")
    assert spoke.channel.phase is Phase.READY
    assert spoke.records == []
