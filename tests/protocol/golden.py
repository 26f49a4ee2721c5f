"""Golden frames: one frame of every message kind, and one illegal frame of every kind of fault.

An incompatible change must be made twice: in protocol/, and here. The files are written anew with

    .venv/bin/python tests/protocol/golden.py

and the difference belongs into the CHANGELOG. They are exact for one version of protobuf; a frame
that another version writes with the same content is just as legal.
"""

from pathlib import Path

import numpy as np
from message_examples import (
    AGREEMENT,
    ASK,
    DESCEND,
    HUB,
    KEY_SHARE,
    PLACE,
    RULE,
    SESSION,
    SPOKE,
    example,
    floats,
    frame,
    raw,
)

from protocol import vfl_pb2 as pb
from protocol.envelope import PROTOCOL_VERSION
from protocol.frames import CHUNK, MAX_FRAME, MAX_HEADER
from protocol.message import BODY_FIELDS, WITH_TENSOR, Message
from protocol.phases import TRANSITIONS, Side

FOLDER = Path(__file__).parents[1] / "golden"
INDEX = FOLDER / "refused" / "index.tsv"


def sent_by(side: Side) -> pb.Envelope:
    """Return the envelope of the first message after the handshake."""
    sender, receiver = (HUB, SPOKE) if side is Side.HUB else (SPOKE, HUB)
    return pb.Envelope(
        version=PROTOCOL_VERSION,
        session=SESSION,
        agreement=AGREEMENT,
        sender=sender,
        receiver=receiver,
        incarnation=1,
        seq=1,
        transcript=bytes(32),
        place=PLACE,
    )


def legal_frames() -> dict[str, bytes]:
    """Return a legal frame of every message kind, after the handshake."""
    frames = {}
    for kind, field in BODY_FIELDS.items():
        side = next(s for moves in TRANSITIONS.values() for s, k in moves if k is kind)
        envelope, message = sent_by(side), example(kind)
        if kind in WITH_TENSOR:
            envelope.ClearField("transcript")
            message = Message(message.body, (message.tensors[0].reshape(-1)[:6].reshape(-1, 1),))
        frames[field] = frame(message, envelope)
    return frames


def illegal_frames() -> dict[str, tuple[bytes, str]]:
    """Return illegal frames from the hub to a spoke in phase READY, and the spoke's errors."""
    return {**_frames(), **_envelopes(), **_contents(), **_tensors(), **_values()}


def _header(message: Message) -> pb.Header:
    whole = frame(message, sent_by(Side.HUB))
    return pb.Header.FromString(whole[4 : 4 + int.from_bytes(whole[:4], "little")])


def _frames() -> dict[str, tuple[bytes, str]]:
    good = frame(Message(ASK), sent_by(Side.HUB))
    step = frame(Message(DESCEND, (floats(2, 3),)), sent_by(Side.HUB))
    header, size = good[4:], len(good) - 4
    over = raw(b"", bytes(MAX_FRAME - 3))
    return {
        "nothing": (b"", "a frame has 0 bytes; at least 4 are needed for a header"),
        "three-bytes": (b"\1\0\0", "a frame has 3 bytes; at least 4 are needed for a header"),
        "empty-header": (raw(b""), "the message lacks its envelope or its body"),
        "header-truncated": (good[:-1], f"the header length is {size} in a frame of {size + 3}"),
        "header-cut-but-counted": (raw(header[:-1]), "the header is not a message of vfl.proto"),
        "header-of-4-gb": (b"\xff" * 4 + header, f"the header length is {2**32 - 1} in a frame"),
        "header-over-its-cap": (
            raw(bytes(MAX_HEADER + 1)),
            f"the header length is {MAX_HEADER + 1} in",
        ),
        "header-of-noise": (raw(b"\xde\xad\xbe\xef" * 8), "the header is not a message"),
        "frame-over-the-cap": (over, f"a frame has {MAX_FRAME + 1} bytes; at most {MAX_FRAME}"),
        "left-over-byte": (good + b"\0", "1 bytes follow the header; expected 0"),
        "left-over-after-tensor": (step + b"\0", "25 bytes follow the header; expected 24"),
        "tensor-truncated": (step[:-1], "23 bytes follow the header; expected 24"),
        "two-messages-glued": (raw(header + header), "the header contains several messages"),
        "two-frames-glued": (good + good, f"{len(good)} bytes follow the header; expected 0"),
        "unknown-kind": (_with(header, b"\xba\x06\x00"), "the header has unknown fields"),
        "unknown-field": (_with(header, b"\x78\x01"), "the header has unknown fields"),
        "unknown-field-made-up-for": (
            _unknown_field_with_equal_size(),
            "the header has unknown fields",
        ),
        "unknown-field-inside": (_unknown_field_inside(), "the header has unknown fields"),
        "wrong-wire-type": (raw(b"\x08\x01"), "the header has unknown fields"),
        "text-not-utf8": (_not_utf8(), "the header is not a message of vfl.proto"),
        "number-too-long": (raw(b"\x52\x02\x08" + b"\xff" * 11), "the header is not a message"),
    }


def _with(header: bytes, field: bytes) -> bytes:
    return raw(header + field)


def _unknown_field_inside() -> bytes:
    body = pb.BatchRequest.FromString(ASK.SerializeToString() + b"\x78\x01")
    return frame(Message(body), sent_by(Side.HUB))


def _unknown_field_with_equal_size() -> bytes:
    """Return a frame with an unknown field whose length equals that of an absent map key.

    Protobuf writes the absent key when it serialises the header, so the sizes are equal.
    """
    whole = _header(
        Message(pb.KeyShares(shares={"": KEY_SHARE}, first_bucket=1))
    ).SerializeToString()
    entry = KEY_SHARE.SerializeToString()
    full = b"\n" + bytes([len(entry) + 4]) + b"\n\x00\x12" + bytes([len(entry)]) + entry
    short = b"\n" + bytes([len(entry) + 2]) + b"\x12" + bytes([len(entry)]) + entry
    body = b"\xaa\x01" + bytes([len(full)])
    return raw(whole.replace(body + full, b"\xaa\x01" + bytes([len(short)]) + short) + b"\x78\x01")


def _not_utf8() -> bytes:
    whole = frame(Message(pb.Abort(code="local", reason="abc")), sent_by(Side.HUB))
    return whole.replace(b"abc", b"a\xffc")


def _envelopes() -> dict[str, tuple[bytes, str]]:
    absent_errors = {
        "version": "envelope.version is 7; expected 3",
        "session": "envelope.session differs from this party's session",
        "agreement": "envelope.agreement differs from this party's agreement",
        "sender": "envelope.sender is 'thief'; expected 'bank'",
        "receiver": "envelope.receiver is 'thief'; expected 'shop'",
        "seq": "envelope.seq is 7; expected 1",
        "transcript": "envelope.transcript differs from this party's transcript",
    }
    frames_by_name = {}
    for name, text in absent_errors.items():
        wrong, absent = sent_by(Side.HUB), sent_by(Side.HUB)
        kind = type(getattr(wrong, name))
        setattr(wrong, name, {int: 7, str: "thief", bytes: b"thief"}[kind])
        absent.ClearField(name)  # type: ignore[arg-type]
        missing = text if name == "session" else f"the envelope lacks {name}"
        frames_by_name[f"{name}-wrong"] = (frame(Message(ASK), wrong), text)
        frames_by_name[f"{name}-absent"] = (frame(Message(ASK), absent), missing)
    grpc_channel, lost = _header(Message(ASK)), sent_by(Side.HUB)
    grpc_channel.ClearField("envelope")
    lost.place.task = 99  # type: ignore[assignment]
    frames_by_name["no-envelope"] = (
        raw(grpc_channel.SerializeToString()),
        "the message lacks its envelope",
    )
    frames_by_name["task-unknown"] = (
        frame(Message(ASK), lost),
        "envelope.place.task is 99, which is not a task",
    )
    return frames_by_name


def _contents() -> dict[str, tuple[bytes, str]]:
    empty, blank, strange = (_header(Message(ASK)) for _ in range(3))
    empty.ClearField("body")  # type: ignore[arg-type]
    blank.batch_request.ClearField("index")
    strange.batch_request.rows = 99  # type: ignore[assignment]
    rule_cut, rule_strange = (_header(Message(_restore())) for _ in range(2))
    rule_cut.model_command.restore_copy.rule.ClearField("learning_rate")
    rule_strange.model_command.restore_copy.rule.optimiser = 99  # type: ignore[assignment]
    legal_phase = frame(Message(pb.StartAlignment(rows=1, completed_buckets=0)), sent_by(Side.HUB))
    ours = frame(Message(pb.Done()), sent_by(Side.HUB))
    return {
        "no-content": (
            raw(empty.SerializeToString()),
            "the message lacks its envelope or its body",
        ),
        "field-absent": (
            raw(blank.SerializeToString()),
            "BatchRequest lacks a legal value of index",
        ),
        "word-unknown": (
            raw(strange.SerializeToString()),
            "BatchRequest lacks a legal value of rows",
        ),
        "rule-field-absent": (
            raw(rule_cut.SerializeToString()),
            "ModelCommand lacks a legal value of restore_copy.rule.learning_rate",
        ),
        "rule-optimiser-unknown": (
            raw(rule_strange.SerializeToString()),
            "ModelCommand lacks a legal value of restore_copy.rule.optimiser",
        ),
        "wrong-turn": (
            legal_phase,
            "the peer (hub) must not send StartAlignment in phase 'ready'; legal here: Abort, B",
        ),
        "wrong-side": (ours, "the peer (hub) must not send Done in phase 'ready'"),
    }


def _restore() -> pb.ModelCommand:
    restore = pb.RestoreCopy(slot="original", stream="second", rule=RULE)
    return pb.ModelCommand(restore_copy=restore)


def _shaped(*shapes: pb.TensorShape, payload: bytes = bytes(24)) -> bytes:
    altered = _header(Message(DESCEND, (floats(2, 3),)))
    del altered.tensors[:]
    altered.tensors.extend(shapes)
    return raw(altered.SerializeToString(), payload)


def _of(*dims: int, dtype: int = pb.FLOAT32) -> pb.TensorShape:
    return pb.TensorShape(dtype=dtype, dims=dims)  # type: ignore[arg-type]


def _tensors() -> dict[str, tuple[bytes, str]]:
    whole, type_0 = 2**30, "a tensor has the unknown type 0"
    return {
        "type-absent": (_shaped(pb.TensorShape(dims=[2, 3])), type_0),
        "type-unspecified": (_shaped(_of(2, 3, dtype=0)), f"{type_0}; legal: float32"),
        "type-unknown": (_shaped(_of(2, 3, dtype=99)), "a tensor has the unknown type 99"),
        "rank-0": (_shaped(_of()), "a tensor has rank 0; legal: 1 to 4"),
        "rank-5": (_shaped(_of(1, 1, 1, 1, 6)), "a tensor has rank 5; legal: 1 to 4"),
        "rank-9": (_shaped(_of(*[1] * 9)), "a tensor has rank 9"),
        "product-overflows": (_shaped(_of(*[whole] * 4)), f"the tensors have {2**122} bytes"),
        "product-wraps-to-0": (_shaped(_of(whole, whole, 16)), f"the tensors have {2**66} bytes"),
        "over-16-mib": (
            _shaped(_of(2**22 + 1)),
            f"the tensors have {2**24 + 4} bytes; a message has at most {2**24}",
        ),
        "two-tensors": (_shaped(_of(1, 3), _of(1, 3)), "Gradient has 2 tensors; expected 1"),
        "no-tensor": (_shaped(payload=b""), "Gradient has 0 tensors; expected 1"),
        **_dimensions(),
        **_payloads(),
    }


def _dimensions() -> dict[str, tuple[bytes, str]]:
    dims = {
        "dimension-zero": (0, 3),
        "dimension-last-zero": (2, 0),
        "dimension-2-to-31": (2**31, 1),
        "dimension-2-to-62": (2**62,),
        "dimension-negative": (2**64 - 1, 3),
    }
    illegal = "a tensor has dimensions {}; legal: 1 to 2^31 - 1"
    return {name: (_shaped(_of(*d)), illegal.format(list(d))) for name, d in dims.items()}


def _payloads() -> dict[str, tuple[bytes, str]]:
    control, follow = _header(Message(ASK)), "24 bytes follow the header; expected"
    control.tensors.append(_of(2, 3))
    return {
        "16-mib-described-24-sent": (_shaped(_of(2**22)), f"{follow} {CHUNK}"),
        "shape-too-small": (_shaped(_of(2, 2)), f"{follow} 16"),
        "item-too-wide": (_shaped(_of(2, 3, dtype=pb.FLOAT64)), f"{follow} 48"),
        "tensor-of-control": (
            raw(control.SerializeToString(), bytes(24)),
            "BatchRequest has 1 tensors; expected 0",
        ),
    }


def _values() -> dict[str, tuple[bytes, str]]:
    frames_by_name = {}
    for name, value in {"nan": np.nan, "inf": np.inf, "-inf": -np.inf, "large": 10_001}.items():
        tensor = floats(2, 3)
        tensor[1, 1] = value
        content = frame(Message(DESCEND, (tensor,)), sent_by(Side.HUB))
        frames_by_name[f"value-{name}"] = (
            content,
            "row 1 of a tensor is NaN, infinite or beyond ±10000",
        )
    return frames_by_name


def write() -> None:
    """Write all golden files."""
    INDEX.parent.mkdir(parents=True, exist_ok=True)
    for old in FOLDER.rglob("*.bin"):
        old.unlink()
    for name, content in legal_frames().items():
        (FOLDER / f"{name}.bin").write_bytes(content)
    for name, (content, _) in illegal_frames().items():
        if len(content) < MAX_HEADER:  # larger frames are made in the test
            (INDEX.parent / f"{name}.bin").write_bytes(content)
    lines = (f"{name}\t{error}\n" for name, (_, error) in sorted(illegal_frames().items()))
    INDEX.write_text("".join(lines))


if __name__ == "__main__":
    write()
