"""The golden frames: one of every kind, and one refused frame for every way to be wrong.

An incompatible change must be made twice: in protocol/, and here. The files are written anew with

    .venv/bin/python tests/protocol/golden.py

and the difference belongs into the CHANGELOG. They are exact for one version of protobuf; a frame
that another version writes with the same content is just as legal.
"""

from pathlib import Path

import numpy as np
from talk import (
    AGREEMENT,
    ASK,
    DESCEND,
    HUB,
    PLACE,
    SESSION,
    SHARE,
    SPOKE,
    example,
    floats,
    frame,
    raw,
)

from protocol import vfl_pb2 as say
from protocol.frames import CHUNK, MAX_FRAME, MAX_HEADER
from protocol.message import FIELDS, WITH_TENSOR, Message
from protocol.phases import TRANSITIONS, Side

FOLDER = Path(__file__).parents[1] / "golden"
INDEX = FOLDER / "refused" / "index.tsv"


def sent_by(side: Side) -> say.Envelope:
    """The envelope of the first message after the greeting."""
    sender, receiver = (HUB, SPOKE) if side is Side.HUB else (SPOKE, HUB)
    return say.Envelope(
        version=1,
        session=SESSION,
        agreement=AGREEMENT,
        sender=sender,
        receiver=receiver,
        incarnation=1,
        seq=1,
        transcript=bytes(32),
        place=PLACE,
    )


def spoken() -> dict[str, bytes]:
    """A frame of every kind, in a conversation that is under way."""
    frames = {}
    for kind, field in FIELDS.items():
        side = next(s for moves in TRANSITIONS.values() for s, k in moves if k is kind)
        envelope, message = sent_by(side), example(kind)
        if kind in WITH_TENSOR:
            envelope.ClearField("transcript")
            message = Message(message.body, (message.tensors[0].reshape(-1)[:6].reshape(-1, 1),))
        frames[field] = frame(message, envelope)
    return frames


def refused() -> dict[str, tuple[bytes, str]]:
    """Frames that the hub might send to a spoke that is ready, and what it is told."""
    return {**_frames(), **_envelopes(), **_contents(), **_tensors(), **_values()}


def _header(message: Message) -> say.Header:
    whole = frame(message, sent_by(Side.HUB))
    return say.Header.FromString(whole[4 : 4 + int.from_bytes(whole[:4], "little")])


def _frames() -> dict[str, tuple[bytes, str]]:
    good = frame(Message(ASK), sent_by(Side.HUB))
    step = frame(Message(DESCEND, (floats(2, 3),)), sent_by(Side.HUB))
    header, size = good[4:], len(good) - 4
    over = raw(b"", bytes(MAX_FRAME - 3))
    return {
        "nothing": (b"", "a frame of 0 bytes is too short for a header"),
        "three-bytes": (b"\1\0\0", "a frame of 3 bytes is too short for a header"),
        "empty-header": (raw(b""), "a message without envelope or content"),
        "header-truncated": (good[:-1], f"a header of {size} bytes in a frame of {size + 3}"),
        "header-cut-but-counted": (raw(header[:-1]), "the header is not a message of vfl.proto"),
        "header-of-4-gb": (b"\xff" * 4 + header, f"a header of {2**32 - 1} bytes in a frame"),
        "header-over-its-cap": (raw(bytes(MAX_HEADER + 1)), f"a header of {MAX_HEADER + 1} bytes"),
        "header-of-noise": (raw(b"\xde\xad\xbe\xef" * 8), "the header is not a message"),
        "frame-over-the-cap": (over, f"a frame of {MAX_FRAME + 1} bytes; at most {MAX_FRAME}"),
        "left-over-byte": (good + b"\0", "1 bytes follow the header; 0 were described"),
        "left-over-after-tensor": (step + b"\0", "25 bytes follow the header; 24 were described"),
        "tensor-truncated": (step[:-1], "23 bytes follow the header; 24 were described"),
        "two-messages-glued": (raw(header + header), "the header is more than one message"),
        "two-frames-glued": (good + good, f"{len(good)} bytes follow the header; 0 were described"),
        "unknown-kind": (_with(header, b"\xba\x06\x00"), "the header has unknown fields"),
        "unknown-field": (_with(header, b"\x78\x01"), "the header has unknown fields"),
        "unknown-field-made-up-for": (_made_up_for(), "the header has unknown fields"),
        "unknown-field-inside": (_stranger_inside(), "the header has unknown fields"),
        "wrong-wire-type": (raw(b"\x08\x01"), "the header has unknown fields"),
        "text-not-utf8": (_not_utf8(), "the header is not a message of vfl.proto"),
        "number-too-long": (raw(b"\x52\x02\x08" + b"\xff" * 11), "the header is not a message"),
    }


def _with(header: bytes, field: bytes) -> bytes:
    return raw(header + field)


def _stranger_inside() -> bytes:
    body = say.Ask.FromString(ASK.SerializeToString() + b"\x78\x01")
    return frame(Message(body), sent_by(Side.HUB))


def _made_up_for() -> bytes:
    """protobuf writes the key that an entry lacks, which is as long as the unknown field."""
    whole = _header(Message(say.Shares(shares={"": SHARE}, done=1))).SerializeToString()
    entry = SHARE.SerializeToString()
    full = b"\n" + bytes([len(entry) + 4]) + b"\n\x00\x12" + bytes([len(entry)]) + entry
    short = b"\n" + bytes([len(entry) + 2]) + b"\x12" + bytes([len(entry)]) + entry
    body = b"\xaa\x01" + bytes([len(full)])
    return raw(whole.replace(body + full, b"\xaa\x01" + bytes([len(short)]) + short) + b"\x78\x01")


def _not_utf8() -> bytes:
    whole = frame(Message(say.Abort(code="local", reason="abc")), sent_by(Side.HUB))
    return whole.replace(b"abc", b"a\xffc")


def _envelopes() -> dict[str, tuple[bytes, str]]:
    told = {
        "version": "speaks version 7; here it is 1",
        "session": "the session in the envelope is not ours",
        "agreement": "the agreement in the envelope is not ours",
        "sender": "sender is 'thief'; it must be 'bank'",
        "receiver": "receiver is 'thief'; it must be 'shop'",
        "seq": "sent message 7 after message 0",
        "transcript": "the transcript in the envelope is not ours",
    }
    found = {}
    for name, text in told.items():
        wrong, absent = sent_by(Side.HUB), sent_by(Side.HUB)
        kind = type(getattr(wrong, name))
        setattr(wrong, name, {int: 7, str: "thief", bytes: b"thief"}[kind])
        absent.ClearField(name)  # type: ignore[arg-type]
        missing = text if name == "session" else f"an envelope without {name}"
        found[f"{name}-wrong"] = (frame(Message(ASK), wrong), text)
        found[f"{name}-absent"] = (frame(Message(ASK), absent), missing)
    bare, lost = _header(Message(ASK)), sent_by(Side.HUB)
    bare.ClearField("envelope")
    lost.place.task = 99  # type: ignore[assignment]
    found["no-envelope"] = (raw(bare.SerializeToString()), "a message without envelope")
    found["task-unknown"] = (frame(Message(ASK), lost), "place.task is 99, which is no task")
    return found


def _contents() -> dict[str, tuple[bytes, str]]:
    empty, blank, strange = (_header(Message(ASK)) for _ in range(3))
    empty.ClearField("body")  # type: ignore[arg-type]
    blank.ask.ClearField("index")
    strange.ask.rows = 99  # type: ignore[assignment]
    turn = frame(Message(say.Open(rows=1, done=0)), sent_by(Side.HUB))
    ours = frame(Message(say.Done()), sent_by(Side.HUB))
    return {
        "no-content": (raw(empty.SerializeToString()), "a message without envelope or content"),
        "field-absent": (raw(blank.SerializeToString()), "Ask without a legal index"),
        "word-unknown": (raw(strange.SerializeToString()), "Ask without a legal rows"),
        "wrong-turn": (turn, "the peer (hub) said Open in phase 'ready'; legal here: Abort, Arr"),
        "wrong-side": (ours, "the peer (hub) said Done in phase 'ready'"),
    }


def _tensors() -> dict[str, tuple[bytes, str]]:
    def shaped(*shapes: say.TensorShape, payload: bytes = bytes(24)) -> bytes:
        spoilt = _header(Message(DESCEND, (floats(2, 3),)))
        del spoilt.tensors[:]
        spoilt.tensors.extend(shapes)
        return raw(spoilt.SerializeToString(), payload)

    def of(*dims: int, dtype: int = say.FLOAT32) -> say.TensorShape:
        return say.TensorShape(dtype=dtype, dims=dims)  # type: ignore[arg-type]

    control = _header(Message(ASK))
    control.tensors.append(of(2, 3))
    illegal = "tensor dimensions {}; legal: 1 to 2^31 - 1"
    dims = {
        "dimension-zero": (0, 3),
        "dimension-last-zero": (2, 0),
        "dimension-2-to-31": (2**31, 1),
        "dimension-2-to-62": (2**62,),
        "dimension-negative": (2**64 - 1, 3),
    }
    return {
        **{name: (shaped(of(*d)), illegal.format(list(d))) for name, d in dims.items()},
        "type-absent": (shaped(say.TensorShape(dims=[2, 3])), "tensor type 0 is unknown"),
        "type-unspecified": (shaped(of(2, 3, dtype=0)), "tensor type 0 is unknown; legal: float32"),
        "type-unknown": (shaped(of(2, 3, dtype=99)), "tensor type 99 is unknown"),
        "rank-0": (shaped(of()), "a tensor of rank 0; legal: 1 to 4"),
        "rank-5": (shaped(of(1, 1, 1, 1, 6)), "a tensor of rank 5; legal: 1 to 4"),
        "rank-9": (shaped(of(*[1] * 9)), "a tensor of rank 9"),
        "product-overflows": (shaped(of(2**30, 2**30, 2**30, 2**30)), f"tensors of {2**122} bytes"),
        "product-wraps-to-0": (shaped(of(2**30, 2**30, 16)), f"tensors of {2**66} bytes"),
        "over-16-mib": (shaped(of(2**22 + 1)), f"tensors of {2**24 + 4} bytes; at most {2**24}"),
        "16-mib-described-24-sent": (
            shaped(of(2**22)),
            f"24 bytes follow the header; {CHUNK} were",
        ),
        "shape-too-small": (shaped(of(2, 2)), "24 bytes follow the header; 16 were described"),
        "item-too-wide": (shaped(of(2, 3, dtype=say.FLOAT64)), "24 bytes follow the header; 48"),
        "two-tensors": (shaped(of(1, 3), of(1, 3)), "Gradient brought 2 tensors; it must be 1"),
        "no-tensor": (shaped(payload=b""), "Gradient brought 0 tensors; it must be 1"),
        "tensor-of-control": (
            raw(control.SerializeToString(), bytes(24)),
            "Ask brought 1 tensors; it must be 0",
        ),
    }


def _values() -> dict[str, tuple[bytes, str]]:
    found = {}
    for name, value in {"nan": np.nan, "inf": np.inf, "-inf": -np.inf, "large": 10_001}.items():
        tensor = floats(2, 3)
        tensor[1, 1] = value
        content = frame(Message(DESCEND, (tensor,)), sent_by(Side.HUB))
        found[f"value-{name}"] = (content, "row 1 of a tensor is NaN, infinite or beyond ±10000")
    return found


def write() -> None:
    """Write every file anew."""
    INDEX.parent.mkdir(parents=True, exist_ok=True)
    for old in FOLDER.rglob("*.bin"):
        old.unlink()
    for name, content in spoken().items():
        (FOLDER / f"{name}.bin").write_bytes(content)
    for name, (content, _) in refused().items():
        if len(content) < MAX_HEADER:  # what is large is zeros, made in the test
            (INDEX.parent / f"{name}.bin").write_bytes(content)
    lines = (f"{name}\t{told}\n" for name, (_, told) in sorted(refused().items()))
    INDEX.write_text("".join(lines))


if __name__ == "__main__":
    write()
