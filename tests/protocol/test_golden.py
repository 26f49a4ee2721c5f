"""Golden bytes: a change of the wire shows here, and every wrong frame is refused in words."""

import pytest
from golden import FOLDER, INDEX, refused, spoken
from talk import speaker

from protocol.errors import RemoteProtocolError
from protocol.frames import MAX_FRAME, MAX_HEADER, decode
from protocol.line import memory_lines
from protocol.message import FIELDS
from protocol.phases import Phase, Side
from tests.conftest import Lines

SPOKEN, REFUSED = spoken(), refused()


@pytest.mark.parametrize("name", SPOKEN)
def test_frame_is_golden(name: str) -> None:
    assert SPOKEN[name] == (FOLDER / f"{name}.bin").read_bytes()


@pytest.mark.parametrize("name", SPOKEN)
def test_golden_frame_is_understood(name: str) -> None:
    _, message = decode((FOLDER / f"{name}.bin").read_bytes)
    assert FIELDS[type(message.body)] == name


def test_every_kind_and_every_way_to_be_wrong_has_a_file() -> None:
    assert {path.stem for path in FOLDER.glob("*.bin")} == set(FIELDS.values())
    small = {name for name, (content, _) in REFUSED.items() if len(content) < MAX_HEADER}
    assert {path.stem for path in INDEX.parent.glob("*.bin")} == small
    assert dict(line.split("\t") for line in INDEX.read_text().splitlines()) == {
        name: told for name, (_, told) in REFUSED.items()
    }


@pytest.mark.parametrize("name", REFUSED)
def test_wrong_frame_is_golden(name: str) -> None:
    content, _ = REFUSED[name]
    if len(content) < MAX_HEADER:
        assert content == (INDEX.parent / f"{name}.bin").read_bytes()


@pytest.mark.parametrize("name", REFUSED)
def test_wrong_frame_is_refused_in_words(lines: Lines, name: str) -> None:
    content, told = REFUSED[name]
    spoke = speaker(lines.spoke, Side.SPOKE, Phase.READY)
    if not 0 < len(content) <= MAX_FRAME:  # over gRPC a sign of life, or kept at home
        lines = Lines(*memory_lines())
        spoke.line.line = lines.spoke
    lines.hub.send(content, 5)
    with pytest.raises(RemoteProtocolError) as error:
        spoke.channel.receive(1)
    assert str(error.value).startswith(f"bank: {told}")
    assert spoke.channel.phase is Phase.READY
    assert spoke.facts == []
