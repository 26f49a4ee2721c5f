"""Events: encoding, decoding, and every refusal of an event that is not valid."""

import json
from typing import Any

import pytest
from journals import START, content

from parties.requests.events import (
    NO_EVENT,
    Event,
    EventKind,
    RequestedBody,
    VerifiedBody,
    body_json,
    event_time,
    new_request_id,
    parse_time,
)

REQUEST = "01KARVB9G0000000000000000G"


def event(**changes: Any) -> Event:
    fields = {
        "origin": "bank",
        "seq": 1,
        "prev": NO_EVENT,
        "time": event_time(START),
        "request": REQUEST,
        "kind": EventKind.REQUESTED,
        "body": content(),
        "signature": b"\1" * 64,
    }
    return Event(**(fields | changes))


def departure(**changes: Any) -> RequestedBody:
    """The content of a request that says that shop left."""
    times = {"received_at": event_time(START), "due_at": event_time(START)}
    asked = {"kind": "party", "party": "shop", "version": 4, "rows": [], "ground": "not-stated"}
    return RequestedBody.model_validate_json(json.dumps({**asked, **times, **changes}))


def test_a_departure_names_party_and_version_and_no_rows() -> None:
    made = event(body=departure())
    assert Event.decode(made.encode()) == made


@pytest.mark.parametrize(
    "wrong",
    [{"party": None}, {"version": None}, {"rows": [1]}, {"rows": None}, {"classes": ["a"]}],
)
def test_a_departure_without_its_fields_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="request"):
        Event.decode(event(body=departure(**wrong)).encode())


def test_numbers_of_a_guarantee_are_absent_from_an_event_without_them() -> None:
    """Parties of the version before read such an event."""
    plain = VerifiedBody(version=2, guarantee="exact")
    assert body_json(plain) == {"version": 2, "guarantee": "exact"}
    bounded = VerifiedBody(version=2, guarantee="distance-certified", bound="5.34e-5")
    for body in (plain, bounded):
        made = event(kind=EventKind.VERIFIED, body=body)
        assert Event.decode(made.encode()) == made


def test_a_number_of_a_guarantee_is_a_decimal_number() -> None:
    body = VerifiedBody.model_construct(version=2, guarantee="distance-certified", bound="none")
    with pytest.raises(ValueError, match="not valid at 'bound'"):
        Event.decode(event(kind=EventKind.VERIFIED, body=body).encode())


LEAVING = {"kind": "columns", "party": None, "columns": 2}


def test_columns_that_left_are_a_number_with_a_version() -> None:
    made = event(body=departure(**LEAVING))
    assert Event.decode(made.encode()) == made


@pytest.mark.parametrize(
    "wrong",
    [
        {"party": "shop"},
        {"columns": None},
        {"columns": 0},
        {"version": None},
        {"rows": [1]},
        {"rows": None},
        {"classes": ["a"]},
        {"kind": "party", "party": "shop"},
    ],
)
def test_columns_that_left_without_their_fields_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"request|columns"):
        Event.decode(event(body=departure(**LEAVING | wrong)).encode())


def test_a_request_of_another_kind_names_no_party() -> None:
    other = content().model_copy(update={"party": "shop", "version": 4})
    with pytest.raises(ValueError, match="kind party"):
        Event.decode(event(body=other).encode())


def changed(path: str, value: object) -> bytes:
    """The encoded event with one changed field; None removes the field."""
    fields = json.loads(event().encode())
    *tables, last = path.split(".")
    table = fields
    for name in tables:
        table = table[name]
    table.pop(last, None)
    if value is not None:
        table[last] = value
    return json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()


def test_decode_is_the_inverse_of_encode() -> None:
    assert Event.decode(event().encode()) == event()


def test_signature_covers_domain_and_all_other_fields() -> None:
    message = event().signing_bytes()
    assert message.startswith(b'vfl/event/v1\n{"body":{')
    assert event(signature=b"\2").signing_bytes() == message
    assert event(seq=2).signing_bytes() != message


def test_digest_is_the_hash_of_the_encoding() -> None:
    assert event().digest != event(signature=b"\2").digest
    assert len(event().digest) == 64


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("origin", "Bank"),
        ("origin", 1),
        ("seq", 0),
        ("seq", True),
        ("seq", "1"),
        ("seq", 2**53),
        ("prev", "0"),
        ("time", "2026-11-02"),
        ("time", "2026-13-02T09:00:00Z"),
        ("request", "1"),
        ("request", "8" + REQUEST[1:]),
        ("time", "2026-1-2T09:00:00Z"),
        ("kind", "forgotten"),
        ("kind", []),
        ("body", []),
        ("body.ground", None),
        ("body.ground", "x" * 1001),
        ("body.more", 1),
        ("body.rows", [2, 1]),
        ("body.rows", [1, 1]),
        ("body.rows", [-1]),
        ("body.rows", [0.5]),
        ("body.rows", None),
        ("body.classes", ["a"]),
        ("body.due_at", "2026-02-30T00:00:00Z"),
        ("body.kind", "label"),
        ("body.seed", 0),  # equal to the default, which is left out
        ("signature", ""),
        ("signature", "AA"),
        ("more", 1),
        ("origin", None),
    ],
)
def test_event_with_a_wrong_field_is_refused(path: str, value: object) -> None:
    with pytest.raises(ValueError, match=r"event|request|rows|integer|float"):
        Event.decode(changed(path, value))


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"{", b"\xff", b"[" * 100_000, b'{"a":1,"a":1}', b" " + event().encode()]
)
def test_bytes_that_are_no_event_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="event"):
        Event.decode(data)


def test_every_changed_byte_is_refused_or_changes_the_digest() -> None:
    data, digest = event().encode(), event().digest
    for at in range(len(data)):
        other = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        try:
            found = Event.decode(other)
        except ValueError:
            continue
        assert found.digest != digest
        assert found.encode() == other


def test_large_event_is_refused() -> None:
    with pytest.raises(ValueError, match="at most 16777216"):
        Event.decode(b" " * (2**24 + 1))


def test_request_ids_are_unique_and_ordered_by_time() -> None:
    early = [new_request_id(START) for _ in range(100)]
    late = new_request_id(START.replace(year=2027))
    assert len(set(early)) == 100
    assert max(early) < late
    assert all(len(each) == 26 for each in early)


def test_time_has_whole_seconds() -> None:
    assert event_time(START.replace(microsecond=999_999)) == "2026-11-02T09:00:00Z"
    assert parse_time(event_time(START)) == START
