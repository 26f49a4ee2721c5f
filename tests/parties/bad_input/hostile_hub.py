"""A hub that sends any message, legal or not, to a real spoke; and digests of the spoke's state."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from struct import pack
from threading import Thread
from typing import Any, Protocol

from torch import Tensor

from parties.session.handshake import admit_spoke
from parties.session.memory_port import MemoryPort
from parties.session.party import PartyContext
from protocol import vfl_pb2 as pb
from protocol.channel import Channel
from protocol.envelope import FrameDigest
from protocol.errors import LocalProtocolError
from protocol.frames import CHUNK
from protocol.line import Line
from protocol.message import BODY_FIELDS, Body, Message
from protocol.phases import Side
from protocol.tensors import Tensor as Array
from protocol.tensors import describe_tensor

SESSION = bytes(range(16))
SECONDS = 30.0


class Session(Protocol):
    """A spoke's session: it handles one message of the hub after the other."""

    def handle(self, message: Message) -> bool:
        """Handle a message; return whether the session continues."""


@dataclass(slots=True)
class Spoke:
    """A real spoke in a thread, with the digests of its state.

    Attributes:
        error: the error that ended the session; None: it has not ended, or ended as the hub wanted.
        before: digest of the state before the last message.
        after: digest of the state after the session.
    """

    error: Exception | None = None
    before: str = ""
    after: str = ""
    thread: Thread = field(default_factory=Thread)

    def ended(self) -> "Spoke":
        """Wait until the session has ended."""
        self.thread.join(SECONDS)
        assert not self.thread.is_alive()
        return self


def start_spoke(
    open_session: Callable[[], tuple[Channel, Session]],
    digest: Callable[[Session], str],
    close: Callable[[Channel, Exception | None], None],
) -> Spoke:
    """Run a session in a thread, and take the digest of its state before every message."""
    spoke = Spoke()

    def work() -> None:
        channel, session = None, None
        try:
            channel, session = open_session()
            spoke.before = digest(session)
            with channel.locate_errors():
                while session.handle(channel.receive(SECONDS)):
                    spoke.before = digest(session)
        except Exception as error:  # noqa: BLE001  the test inspects it
            spoke.error = error
        if session is not None:
            spoke.after = digest(session)
        if channel is not None:
            close(channel, spoke.error)

    spoke.thread = Thread(target=work, daemon=True)
    spoke.thread.start()
    return spoke


def admit(hub: PartyContext, line: Line) -> tuple[Channel, Any]:
    """The hub's side of the handshake with one spoke: the channel, and the spoke's offer."""
    channel = Channel(line, Side.HUB, hub.terms(str(line.peer)), hub.traffic.record)
    offers: dict[str, Any] = {}
    admit_spoke(hub, channel, SESSION, {}, offers)
    return channel, offers[str(line.peer)]


def admit_from(hub: PartyContext, port: MemoryPort) -> tuple[Channel, Any]:
    """``admit`` the next spoke at a port."""
    return admit(hub, port.accept(SECONDS))


def place(task: int, **numbers: int) -> pb.Place:
    """A position in the run."""
    return pb.Place(task=task, **{"epoch": 0, "step": 0, "microbatch": 0, **numbers})  # type: ignore[arg-type]


def send_anything(channel: Channel, body: Body, *tensors: Array) -> None:
    """Send a message in one frame, without the checks of an honest sender."""
    header = pb.Header(
        envelope=channel._envelope(control=not tensors),
        tensors=[describe_tensor(each) for each in tensors],
        **{BODY_FIELDS[type(body)]: body},  # type: ignore[arg-type]
    ).SerializeToString()
    payload = b"".join(each.tobytes() for each in tensors)
    assert len(payload) <= CHUNK
    frame = pack("<I", len(header)) + header + payload
    digest = FrameDigest()
    digest.add(frame)
    channel.line.send(frame, SECONDS)
    channel._sent.add(digest)
    try:
        channel._phases.sent(type(body))
    except LocalProtocolError:
        return
    if isinstance(body, pb.BatchRequest | pb.Step | pb.Evaluate | pb.Predict):
        channel._requested.append(channel.place)


def digest_of(
    values: Mapping[str, Any], tensors: Mapping[str, Iterable[Tensor]], folder: Path
) -> str:
    """A digest of JSON values, of tensors, and of all files in a folder."""
    found = sha256(json.dumps(values, sort_keys=True, default=str).encode())
    for name, group in tensors.items():
        found.update(name.encode())
        for each in group:
            found.update(str(each.shape).encode() + each.detach().contiguous().numpy().tobytes())
    for path in _files(folder):
        found.update(path.relative_to(folder).as_posix().encode() + path.read_bytes())
    return found.hexdigest()


def _files(folder: Path) -> Iterator[Path]:
    yield from sorted(each for each in folder.rglob("*") if each.is_file())
