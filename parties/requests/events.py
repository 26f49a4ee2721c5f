"""Events of the request journal: signed records, each linked to the previous one of its origin.

An event is signed by the party that makes it (its origin). It contains the number of the event
among all events of the origin and the digest of the previous one. Therefore no other party can
forge, leave out or reorder events. All parties exchange all events, so events contain no IDs.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from hashlib import sha256
from itertools import pairwise
from secrets import token_bytes
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from unlearning.receipts.canonical import MAX_INTEGER, canonical_bytes
from unlearning.receipts.table import Number

LARGEST_EVENT: Final = 16 << 20  # bytes of an encoded event
NO_EVENT: Final = "0" * 64  # digest that stands for the previous event of a first event
_DOMAIN: Final = b"vfl/event/v1\n"
_ALPHABET: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"  # Crockford's base 32
_REQUEST_ID = re.compile(rf"[0-7][{_ALPHABET}]{{25}}")
_ORIGIN = re.compile(r"[a-z][a-z0-9-]{0,30}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_SIGNATURE = re.compile(r"([0-9a-f]{2}){1,256}")


class EventKind(StrEnum):
    """What an event says about its request."""

    REQUESTED = "requested"  # a person asked a party for deletion
    JOURNALED = "journaled"  # the origin has recorded the request
    APPROVED = "approved"  # the origin agrees that the request is carried out
    REJECTED = "rejected"  # the origin refuses the request
    WITHDRAWN = "withdrawn"  # the party of the requester cancels the request
    EXTENDED = "extended"  # the party of the requester moves the due date
    ALIGNED = "aligned"  # the hub names the rows of a request by label
    FALLBACK = (
        "fallback"  # a party is absent: the hub predicts with a fallback model until it returns
    )
    STARTED = "started"  # the hub begins to carry out the request
    VERIFIED = "verified"  # the new version of the model has passed its checks
    QUARANTINED = "quarantined"  # the new version of the model is not used
    COMPLETED = "completed"  # the receipt exists
    SIGNED = "signed"  # the origin has signed the receipt
    NOTIFIED = "notified"  # the origin has informed its recipients of the data, and its requester
    READMITTED = "readmitted"  # the origin accepts a forgotten ID again
    PURGED = "purged"  # the origin has deleted its private record of the request
    INTRODUCED = "introduced"  # the origin names the key that signs its events; no request
    STATED = "stated"  # the origin says what it did for the new version of the model
    ERASED = "erased"  # the origin has erased what it kept for a replay of the request
    LEFT = "left"  # the origin has left, and erased its part of the model; no request


Text: TypeAlias = Annotated[str, Field(max_length=1000)]
Key: TypeAlias = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]  # public key or SHA-256 digest
Signature: TypeAlias = Annotated[str, Field(pattern=r"^([0-9a-f]{2}){1,256}$")]
Whole: TypeAlias = Annotated[int, Field(ge=0, le=MAX_INTEGER)]
Moment: TypeAlias = Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")]
Day: TypeAlias = Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\d$")]
FractionText: TypeAlias = Annotated[str, Field(pattern=r"^(1|0\.\d{1,9})$")]
PartyName: TypeAlias = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,30}$")]
RequestId: TypeAlias = Annotated[str, Field(pattern=rf"^[0-7][{_ALPHABET}]{{25}}$")]


class EventBody(BaseModel):
    """Content of an event; without unknown keys and without implicit casts."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class PersonSignature(EventBody):
    """A person's name, Ed25519 public key, and signature."""

    name: Text
    key: Key
    signature: Signature


class IdentityCheck(EventBody):
    """How the identity of the requester was checked; contains no copy of a document."""

    method: Text
    date: Day
    by: Text


class RequestedBody(EventBody):
    """A request: what is forgotten, why, for whom, and when it is due."""

    # rows: rows by index. label, labels_part: all rows of classes, or a fraction of each. client:
    # rows of the client that is the origin: all, or a fraction, or those of classes. correction:
    # rows by index, whose labels are replaced; the origin has the labels. party: the columns of a
    # party that left, by a training without it; no rows. columns: some columns of the origin, by a
    # training without them; no rows.
    kind: Literal["rows", "label", "labels_part", "client", "correction", "party", "columns"]
    rows: tuple[Whole, ...] | None = None  # ascending indices into the common order
    party: PartyName | None = None  # the party that left
    version: Whole | None = None  # number of the first version without the party or the columns
    columns: Annotated[int, Field(ge=1, lt=2**31)] | None = None  # how many left
    classes: tuple[Text, ...] = ()
    fraction: FractionText = "1"  # of the training rows of the classes
    seed: Whole = 0
    ground: Text
    identity_check: IdentityCheck | None = None
    received_at: Moment
    due_at: Moment
    requester: PersonSignature | None = None
    requester_name: Text = ""
    requester_kind: Literal["subject", "representative", "controller", "court"] = "controller"
    subjects_root: Key | None = None  # Merkle root over the commitments of the subjects
    # client: number of rows that the client names in a list of its own; None if it names no list.
    count: Whole | None = None

    @property
    def has_list(self) -> bool:
        """Whether the origin, a client, names its rows in a list that no other party sees."""
        return self.count is not None

    @property
    def by_training(self) -> bool:
        """Whether a training carried out the request: a party or columns left."""
        return self.kind in ("party", "columns")


class JournaledBody(EventBody):
    """An acknowledgement."""


class DecisionBody(EventBody):
    """An approval or rejection, by a person or by the party's automatic policy."""

    reason: Text = ""
    person: PersonSignature | None = None


class ExtendedBody(EventBody):
    """A later due date, and the day on which the requester was informed about it."""

    until: Moment
    notice: Day
    reason: Text


class AlignedBody(EventBody):
    """The rows of a request by label: ascending indices into the common order."""

    rows: tuple[Whole, ...]


class FallbackBody(EventBody):
    """A fallback model without the rows of the request, because parties are absent.

    Attributes:
        version: number of the model's version that it stands for.
        absent: the absent parties.
        model: salted commitment to the fallback model.
    """

    version: Whole
    absent: tuple[Text, ...]
    model: Key


class StartedBody(EventBody):
    """The start of a batch; ``seen`` counts the events of each other origin at that time."""

    batch: tuple[RequestId, ...]
    version: Whole  # number of the model's version before the batch
    method: Text
    seen: dict[str, Whole] = Field(default={})


class VerifiedBody(EventBody):
    """The new version of the model, and the figures of the quick audit as text or integers.

    Attributes:
        version: number of the new version.
        guarantee: kind of guarantee of the method, a value of ``Guarantee``.
        epsilon: ε, and ``delta`` is δ, of a certified guarantee; else None.
        bound: bound on the distance to Retrain, of a distance-certified guarantee; else None.
        level: level of the audit.
        audit: the figures. The active party of the vertical mode gives those alone that the receipt
            needs, with accuracies minus that of the new model; one of an earlier version gives all.
        count: number of rows that the request named, where they have no common order.
    """

    version: Whole
    count: Whole | None = None
    guarantee: Text = "heuristic"
    epsilon: Number | None = None
    delta: Number | None = None
    bound: Number | None = None
    level: Literal["none", "quick", "full"] = "none"
    audit: dict[str, Any] = Field(default={})


class QuarantinedBody(EventBody):
    """Why the new version of the model is not used."""

    reason: Text


class CompletedBody(EventBody):
    """The SHA-256 digest of the receipt."""

    receipt: Key


class SignedBody(EventBody):
    """A party's signature of the receipt."""

    receipt: Key
    signature: Signature


class NotifiedBody(EventBody):
    """Number of recipients of the origin's data, and of those that could not be notified."""

    recipients: Whole = 0
    failed: Whole = 0


class ReadmittedBody(EventBody):
    """Number of IDs that the origin accepts again, and why."""

    count: Whole
    reason: Text


class PurgedBody(EventBody):
    """The end of the record's retention."""


class IntroducedBody(EventBody):
    """The Ed25519 key of a party's events and receipts, which the party's certificate confirms."""

    key: Key
    certificate: Annotated[str, Field(pattern=r"^([0-9a-f]{2}){1,8192}$")]  # DER
    proof: Signature  # by the key of the certificate


class StoredItem(EventBody):
    """Something that a party destroyed or keeps; ``until``: the day on which it is erased."""

    id: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_.-]{0,63}$")]
    kind: Literal["model", "checkpoint", "codes", "embeddings", "predictions"]
    until: Day | None = None


class StatedBody(EventBody):
    """What a party states about itself after a request; no other party vouches for it.

    Attributes:
        version: number of the new version of the model.
        before: salted commitment to the party's part of the model before the request.
        after: salted commitment to its part in the new version.
        destroyed: what the party destroyed.
        remains: places where the party still found rows of the request.
        transcript: SHA-256 of the hash chains over the messages that the party sent to each peer in
            the session in which it makes the statement.
        profile: versions and settings on which the numbers depend.
        keeps: copies that the party keeps and that may still depend on the rows.
    """

    version: Whole
    before: Key
    after: Key
    destroyed: tuple[StoredItem, ...]
    remains: tuple[Text, ...]
    transcript: Key
    profile: dict[str, Text]
    keeps: tuple[StoredItem, ...] = ()


class ErasedBody(EventBody):
    """What the origin kept for a replay, and has erased now."""

    items: tuple[StoredItem, ...]


class LeftBody(EventBody):
    """The statement of a party that left: what it erased.

    Attributes:
        version: number of the newest version of the model of which it had a part; 0 if it had none.
        destroyed: what it erased.
    """

    version: Whole
    destroyed: tuple[StoredItem, ...]


_BODIES: Final[Mapping[EventKind, type[EventBody]]] = {
    EventKind.REQUESTED: RequestedBody,
    EventKind.JOURNALED: JournaledBody,
    EventKind.APPROVED: DecisionBody,
    EventKind.REJECTED: DecisionBody,
    EventKind.WITHDRAWN: DecisionBody,
    EventKind.EXTENDED: ExtendedBody,
    EventKind.ALIGNED: AlignedBody,
    EventKind.FALLBACK: FallbackBody,
    EventKind.STARTED: StartedBody,
    EventKind.VERIFIED: VerifiedBody,
    EventKind.QUARANTINED: QuarantinedBody,
    EventKind.COMPLETED: CompletedBody,
    EventKind.SIGNED: SignedBody,
    EventKind.NOTIFIED: NotifiedBody,
    EventKind.READMITTED: ReadmittedBody,
    EventKind.PURGED: PurgedBody,
    EventKind.INTRODUCED: IntroducedBody,
    EventKind.STATED: StatedBody,
    EventKind.ERASED: ErasedBody,
    EventKind.LEFT: LeftBody,
}


@dataclass(frozen=True, slots=True)
class Event:
    """One event of the request journal.

    Attributes:
        origin: the party that made the event.
        seq: 1 for the first event of the origin, 2 for the next one, and so on.
        prev: digest of the origin's previous event; ``NO_EVENT`` for the first one.
        time: clock of the origin, UTC, in whole seconds; not used for the order of events.
        request: ID of the request (a ULID).
        kind: what the event says.
        body: content of the event.
        signature: signature of ``signing_bytes`` by the origin.
    """

    origin: str
    seq: int
    prev: str
    time: str
    request: str
    kind: EventKind
    body: EventBody
    signature: bytes = b""

    def signing_bytes(self) -> bytes:
        """Return the bytes that the origin signs."""
        return _DOMAIN + canonical_bytes(self._content())

    def encode(self) -> bytes:
        """Return the event as canonical JSON."""
        return canonical_bytes(self._content() | {"signature": self.signature.hex()})

    @property
    def digest(self) -> str:
        """SHA-256 digest of the encoded event, in hexadecimal digits."""
        return sha256(self.encode()).hexdigest()

    @classmethod
    def decode(cls, data: bytes) -> "Event":
        """Return the event that ``encode`` encoded.

        Raises:
            ValueError: ``data`` is not an event in canonical form.
        """
        if len(data) > LARGEST_EVENT:
            raise ValueError(f"an event has {len(data)} bytes; at most {LARGEST_EVENT} are allowed")
        fields = _fields(data)
        if fields["kind"] not in [*EventKind]:
            raise ValueError("the kind of an event is unknown")
        kind = EventKind(fields["kind"])
        try:
            body = _BODIES[kind].model_validate_json(json.dumps(fields["body"]))
        except ValidationError as error:  # its text may quote the body
            place = ".".join(map(str, error.errors()[0]["loc"]))
            raise ValueError(f"the body of an event is not valid at {place!r}") from None
        event = cls(
            origin=_text(fields, "origin", _ORIGIN),
            seq=_whole(fields, "seq"),
            prev=_text(fields, "prev", _DIGEST),
            time=_text(fields, "time"),
            request=_text(fields, "request", _REQUEST_ID),
            kind=kind,
            body=body,
            signature=bytes.fromhex(_text(fields, "signature", _SIGNATURE)),
        )
        _check_meaning(event)
        if event.encode() != data:
            raise ValueError("an event is not in canonical form")
        return event

    def _content(self) -> dict[str, Any]:
        return {
            "origin": self.origin,
            "seq": self.seq,
            "prev": self.prev,
            "time": self.time,
            "request": self.request,
            "kind": self.kind.value,
            "body": body_json(self.body),
        }


def body_json(body: EventBody) -> dict[str, Any]:
    """Return the body of an event as JSON; fields with their default value are left out."""
    return body.model_dump(mode="json", exclude_defaults=True)


def check_event(event: Event) -> Event:
    """Return ``event`` if ``Event.decode`` accepts its encoding.

    Raises:
        ValueError: the event is not valid.
    """
    return Event.decode(event.encode())


def new_request_id(now: datetime) -> str:
    """Return a new ULID: 48 bits of the time in milliseconds, then 80 random bits."""
    number = int(now.timestamp() * 1000) << 80 | int.from_bytes(token_bytes(10), "big")
    return "".join(_ALPHABET[number >> shift & 31] for shift in range(125, -1, -5))


def event_time(now: datetime) -> str:
    """Return ``now`` in the form of events: UTC, whole seconds."""
    return now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_time(text: str) -> datetime:
    """Return the time that ``event_time`` wrote.

    Raises:
        ValueError: ``text`` is not such a time.
    """
    try:
        found = datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    except ValueError:
        found = None
    if found is None or event_time(found) != text:
        raise ValueError("the time of an event is not of the form 2026-11-24T09:00:00Z")
    return found


def _fields(data: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(data)
    except (ValueError, RecursionError):
        raise ValueError("an event is not JSON") from None
    expected = {"origin", "seq", "prev", "time", "request", "kind", "body", "signature"}
    if not isinstance(fields, dict) or fields.keys() != expected:
        raise ValueError(f"an event must have exactly the keys {', '.join(sorted(expected))}")
    canonical_bytes(fields)
    return fields


def _text(fields: Mapping[str, Any], name: str, pattern: re.Pattern[str] | None = None) -> str:
    value = fields[name]
    if not isinstance(value, str) or (pattern and not pattern.fullmatch(value)):
        raise ValueError(f"the key {name!r} of an event is not valid")
    return value


def _whole(fields: Mapping[str, Any], name: str) -> int:
    value = fields[name]
    if type(value) is not int or value < 1:
        raise ValueError(f"the key {name!r} of an event must be an integer of at least 1")
    return value


def _check_meaning(event: Event) -> None:
    """Raise ``ValueError`` if times, rows or the batch of ``event`` are not valid."""
    body = event.body
    times = [event.time]
    if isinstance(body, RequestedBody):
        times += [body.received_at, body.due_at]
        _check_requested(body)
    if isinstance(body, ExtendedBody):
        times.append(body.until)
    for text in times:
        parse_time(text)
    rows = body.rows if isinstance(body, RequestedBody | AlignedBody) else None
    if rows and any(later <= earlier for earlier, later in pairwise(rows)):
        raise ValueError("the rows of a request must be ascending")
    if isinstance(body, StartedBody) and event.request not in body.batch:
        raise ValueError("the batch of a start must contain the request of the event")


def _check_requested(body: RequestedBody) -> None:
    """Raise ``ValueError`` if a request names other things than its kind does."""
    by_index = body.kind in ("rows", "correction")
    by_rows = body.by_training or by_index
    names_classes = body.kind == "client" or by_rows is not bool(body.classes)
    if by_rows is not (body.rows is not None) or not names_classes:
        raise ValueError("a request needs either rows or classes, as its kind says")
    _check_leaving(body)
    if by_index and body.subjects_root is None:
        raise ValueError("a request for rows needs the root of its subjects")
    listed = (body.kind, body.classes, body.fraction) == ("client", (), "1")
    if body.count is not None and not (listed and body.subjects_root is not None):
        raise ValueError("only a client's list, with the root of its subjects, has a number")


def _check_leaving(body: RequestedBody) -> None:
    """Raise ``ValueError`` if a request names a party, a version or columns against its kind."""
    if (body.kind == "party") is not (body.party is not None):
        raise ValueError("a request of the kind party, and no other, names a party")
    if (body.kind == "columns") is not (body.columns is not None):
        raise ValueError("a request of the kind columns, and no other, has their number")
    if body.by_training is not (body.version is not None):
        raise ValueError("a request of the kind party or columns, and no other, names a version")
    if body.by_training and body.rows:
        raise ValueError("a request of the kind party or columns has no rows")
