"""Frames: encoding and decoding, refusal of illegal bytes, and memory of refused frames."""

import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from queue import Queue

import grpc
import numpy as np
import pytest
from golden import illegal_frames, legal_frames, sent_by
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from message_examples import ASK, DESCEND, blob, endpoint, floats, open_conversation, raw

from protocol import vfl_pb2 as pb
from protocol.errors import LineBroken, LocalProtocolError, ProtocolError, RemoteProtocolError
from protocol.frames import CHUNK, MAX_FRAME, MAX_HEADER, decode_message, encode_message
from protocol.grpc_line import DEFAULT_TIMEOUTS, grpc_options
from protocol.keyring import read_keyring
from protocol.line import memory_lines
from protocol.message import Message
from protocol.phases import Phase, Side
from protocol.tensors import DTYPES, MAX_PAYLOAD, Tensor
from tests.conftest import HUB, SPOKE, Lines, grpc_lines, listening

SPOKEN, REFUSED = legal_frames(), illegal_frames()
TENSORS = st.sampled_from(sorted(DTYPES.values(), key=str)).flatmap(
    lambda dtype: arrays.arrays(
        dtype, arrays.array_shapes(min_dims=1, max_dims=4, max_side=6), elements=_elements(dtype)
    )
)


def _elements(dtype: np.dtype) -> st.SearchStrategy[object]:
    if dtype.kind == "f":
        return st.floats(-1e4, 1e4, width=8 * dtype.itemsize)
    return arrays.from_dtype(dtype)


def from_list(frames: list[bytes]) -> Iterator[bytes]:
    yield from frames
    raise LineBroken("closed the connection")


def read(*frames: bytes) -> Message:
    _, message = decode_message(from_list(list(frames)).__next__)
    return message


@settings(max_examples=150)
@given(TENSORS)
def test_any_tensor_is_decoded_unchanged(tensor: Tensor) -> None:
    received = read(*encode_message(Message(pb.Embedding(), (tensor,)), sent_by(Side.SPOKE)))
    (back,) = received.tensors
    assert (back.dtype, back.shape) == (tensor.dtype, tensor.shape)
    assert back.tobytes() == tensor.tobytes()
    assert back.flags.writeable  # PyTorch uses a writeable array without a copy


@settings(max_examples=100)
@given(TENSORS.filter(lambda tensor: tensor.ndim > 1))
def test_any_view_of_a_tensor_is_decoded_unchanged(tensor: Tensor) -> None:
    view = tensor.T[::-1]
    received = read(*encode_message(Message(pb.Embedding(), (view,)), sent_by(Side.SPOKE)))
    assert received.tensors[0].tobytes() == view.tobytes()


@settings(max_examples=400)
@given(st.binary(max_size=300), st.booleans())
def test_random_bytes_are_refused(noise: bytes, framed: bool) -> None:
    with pytest.raises(ProtocolError):
        read(raw(noise) if framed else noise)


@settings(max_examples=400)
@given(st.data())
def test_changed_frame_raises_only_protocol_errors(data: st.DataObject) -> None:
    """Flipped bits, removed or added bytes: an error, or a legal message with other content."""
    whole = bytearray(data.draw(st.sampled_from(sorted(SPOKEN.values()))))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(whole) - 1))
        match data.draw(st.sampled_from(["flip", "cut", "insert"])):
            case "flip":
                whole[at] ^= 1 << data.draw(st.integers(0, 7))
            case "cut":
                del whole[at : at + data.draw(st.integers(1, 8))]
                whole = whole or bytearray(1)
            case "insert":
                whole[at:at] = data.draw(st.binary(min_size=1, max_size=8))
    hub, spoke = memory_lines()
    hub.send(bytes(whole), 1)
    hub.close()
    listening = endpoint(spoke, Side.SPOKE, Phase.READY)
    try:
        listening.channel.receive(1)
    except ProtocolError:
        assert listening.records == [] or listening.records[0].kind == "Abort"


@pytest.mark.parametrize("name", SPOKEN)
def test_frame_cut_anywhere_is_refused(name: str) -> None:
    for end in range(len(SPOKEN[name])):
        with pytest.raises(RemoteProtocolError):
            read(SPOKEN[name][:end])


def test_first_frame_may_be_as_long_as_a_header_and_a_chunk() -> None:
    frames = list(encode_message(Message(pb.OprfMatrix(), (blob(CHUNK),)), sent_by(Side.HUB)))
    assert [len(part) - CHUNK for part in frames] == [4 + len(frames[0]) - CHUNK - 4]
    assert MAX_FRAME == CHUNK + MAX_HEADER + 4


@pytest.mark.parametrize(("at", "change"), [(1, -1), (1, 1), (2, -1), (2, 1)])
def test_chunk_of_another_size_is_refused(at: int, change: int) -> None:
    frames = list(
        encode_message(Message(pb.OprfMatrix(), (blob(2 * CHUNK + 10),)), sent_by(Side.HUB))
    )
    frames[at] = frames[at][:change] if change < 0 else frames[at] + b"\0"
    with pytest.raises(RemoteProtocolError, match="tensor bytes; expected"):
        read(*frames)


def test_missing_chunk_is_a_broken_line() -> None:
    frames = list(encode_message(Message(pb.OprfMatrix(), (blob(2 * CHUNK),)), sent_by(Side.HUB)))
    with pytest.raises(LineBroken):
        read(frames[0])


@pytest.mark.parametrize("name", [name for name in REFUSED if "over-the-cap" not in name])
def test_refusal_allocates_no_memory_for_described_tensors(name: str) -> None:
    content, error_text = REFUSED[name]
    if (
        "tensor" not in error_text
        and "dimension" not in error_text
        and "follow the header" not in error_text
    ):
        return
    tracemalloc.start()
    try:
        with pytest.raises(RemoteProtocolError):
            endpoint(Fixed(content), Side.SPOKE, Phase.READY).channel.receive(1)
        assert tracemalloc.get_traced_memory()[1] < 2**18
    finally:
        tracemalloc.stop()


class Fixed:
    """A line that receives one fixed frame."""

    peer = None

    def __init__(self, frame: bytes) -> None:
        self._frame = frame

    def receive(self, timeout: float) -> bytes:
        return self._frame

    def send(self, frame: bytes, timeout: float) -> None:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (np.zeros(3, ">f4"), "a tensor has type >f4; legal: float32, float64, int64"),
        (np.zeros(3, object), "a tensor has type object"),
        (np.zeros(3, np.float16), "a tensor has type float16"),
        (np.zeros(3, bool), "a tensor has type bool"),
        (np.zeros((0, 3), np.float32), r"a tensor has dimensions \[0, 3\]"),
        (np.zeros((), np.float32), "a tensor has rank 0"),
        (np.zeros((1,) * 5, np.float32), "a tensor has rank 5"),
        (
            np.zeros(MAX_PAYLOAD + 1, np.uint8),
            "the tensors have 16777217 bytes; a message has at most 16777216",
        ),
    ],
)
def test_illegal_tensor_is_not_sent(tensor: Tensor, message: str) -> None:
    hub = endpoint(memory_lines()[0], Side.HUB, Phase.EMBEDDED)
    with pytest.raises(LocalProtocolError, match=message):
        hub.channel.send(DESCEND, tensor)
    assert hub.line.sent == []


def test_header_that_is_too_long_is_not_sent() -> None:
    hub = endpoint(memory_lines()[0], Side.HUB, Phase.READY)
    with pytest.raises(
        LocalProtocolError,
        match=r"the header of ModelCommand has .* bytes; at most 65536 are legal",
    ):
        hub.channel.send(pb.ModelCommand(use_ensemble=pb.UseEnsemble(slots=["x" * MAX_HEADER])))


@pytest.mark.parametrize("tensors", [(), (floats(2, 3), floats(2, 3))])
def test_wrong_number_of_tensors_is_not_sent(tensors: tuple[Tensor, ...]) -> None:
    hub = endpoint(memory_lines()[0], Side.HUB, Phase.EMBEDDED)
    with pytest.raises(LocalProtocolError, match=f"Gradient has {len(tensors)} tensors"):
        hub.channel.send(DESCEND, *tensors)


@pytest.mark.parametrize(
    ("bad", "row"), [(np.nan, 0), (np.inf, 2), (-np.inf, 3), (1e4 + 1, 1), (-1e5, 3)]
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bad_number_is_refused_by_row_without_its_value(
    lines: Lines, bad: float, row: int, dtype: type
) -> None:
    conversation = open_conversation(*lines, Phase.EMBEDDED)
    tensor = floats(4, 3).astype(dtype)
    tensor[row, 2] = bad
    with pytest.raises(RemoteProtocolError, match=f"row {row} of a tensor") as error:
        conversation.exchange(Side.HUB, DESCEND, tensor)
    message = str(error.value).replace("±10000", "").replace("NaN, infinite", "")
    assert all(word not in message for word in ("nan", "inf", f"{bad:g}", repr(bad)))


def test_largest_numbers_are_accepted(lines: Lines) -> None:
    conversation = open_conversation(*lines, Phase.EMBEDDED)
    conversation.exchange(Side.HUB, DESCEND, np.array([[1e4, -1e4, -0.0]], np.float32))


@pytest.mark.parametrize(
    ("dtype", "shape"), [(np.float64, (4, 3)), (np.float32, (4, 2)), (np.float32, (4, 3, 1))]
)
def test_tensor_of_another_shape_than_agreed_is_refused(
    dtype: type, shape: tuple[int, ...]
) -> None:
    message = Message(pb.Embedding(), (floats(*shape).astype(dtype),))
    error_text = r"Embedding has tensors \[.*\]; expected one float32 of \['any', 3\]"
    with pytest.raises(RemoteProtocolError, match=error_text):
        message.tensor(np.float32, None, 3)


def test_message_of_another_kind_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="sent BatchRequest; expected Done"):
        Message(ASK).expect(pb.Done)


# --- over gRPC ----------------------------------------------------------------------------------


def test_frame_over_the_limit_is_refused_at_the_hub(keys: Path, tmp_path: Path) -> None:
    """A peer without the limit on the size of its frames."""
    address = f"unix:{tmp_path}/hub"
    with listening(read_keyring(keys, HUB), address) as (server, _):
        frames: Queue[bytes | None] = Queue()
        with unlimited_channel(keys, address) as channel:
            stream = channel.stream_stream("/vfl.Line/Talk")(iter(frames.get, None))
            hub = endpoint(server.accept(5), Side.HUB, Phase.READY)
            frames.put(bytes(MAX_FRAME + 1))
            message = f"shop: a frame has {MAX_FRAME + 1} bytes; at most {MAX_FRAME} are legal"
            with pytest.raises(RemoteProtocolError, match=message):
                hub.channel.receive(5)
            frames.put(None)
            stream.cancel()


def test_frame_of_twice_the_limit_does_not_arrive(keys: Path, tmp_path: Path) -> None:
    address = f"unix:{tmp_path}/hub"
    with listening(read_keyring(keys, HUB), address) as (server, _):
        frames: Queue[bytes | None] = Queue()
        with unlimited_channel(keys, address) as channel:
            stream = channel.stream_stream("/vfl.Line/Talk")(iter(frames.get, None))
            hub = endpoint(server.accept(5), Side.HUB, Phase.READY)
            frames.put(bytes(2 * MAX_FRAME + 1))
            with pytest.raises(LineBroken, match="shop: closed the connection"):
                hub.channel.receive(5)
            frames.put(None)
            assert stream.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


def test_frame_over_the_limit_is_reported_at_its_sender(keys: Path, tmp_path: Path) -> None:
    with grpc_lines(keys, f"unix:{tmp_path}/hub") as lines:
        lines.spoke.send(bytes(MAX_FRAME + 1), 5)
        with pytest.raises(LineBroken, match=r"resource_exhausted: .*message larger than max"):
            lines.spoke.receive(5)


def unlimited_channel(keys: Path, address: str) -> grpc.Channel:
    """Return a gRPC channel of the spoke without a limit on the size of its frames."""
    keyring = read_keyring(keys, SPOKE)
    credentials = grpc.ssl_channel_credentials(
        keyring.authority_pem, keyring.key_pem, keyring.certificate_pem
    )
    usual = [
        (name, -1 if "send_message" in name else value)
        for name, value in grpc_options(DEFAULT_TIMEOUTS)
    ]
    return grpc.secure_channel(
        address, credentials, [*usual, ("grpc.ssl_target_name_override", HUB)]
    )
