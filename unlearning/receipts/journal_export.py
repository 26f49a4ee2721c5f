"""Export of the journal of requests, one signed event a line; statements of parties that left."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from unlearning.receipts.canonical import canonical_bytes, read_canonical
from unlearning.receipts.errors import ReceiptError
from unlearning.receipts.keys import PartyKey
from unlearning.receipts.table import Count, Hash, JsonTable, PartyName, Ulid, Word, table_of

EVENT_DOMAIN = b"vfl/event/v1\n"
MAX_EVENTS = 1_000_000
LEFT = "left"  # kind of the event in which a party states that it has left, and what it erased


class ExportedEvent(JsonTable):
    """An event of the journal of requests; any kind and body are accepted.

    Attributes:
        origin: the party that made the event.
        seq: number of the event among those of its origin, from 1.
        prev: digest of the origin's previous event; zeros for the first.
        time: time of the event at its origin.
        request: ULID of the request that the event belongs to.
        kind: kind of the event.
        body: contents of the event.
        signature: Ed25519 signature by the origin.
    """

    origin: PartyName
    seq: Annotated[int, Field(ge=1)]
    prev: Hash
    time: Annotated[str, Field(max_length=40)]
    request: Ulid
    kind: Annotated[str, Field(pattern=r"^[a-z][a-z_-]{0,40}$")]
    body: dict[str, Any]
    signature: Annotated[str, Field(pattern=r"^[0-9a-f]{128}$")]


@dataclass(frozen=True, slots=True)
class SignedEvent:
    """An event with the bytes that its origin signed, and the digest of the whole event.

    The digest is SHA-256 of the canonical bytes with the signature: 64 hexadecimal digits.
    """

    event: ExportedEvent
    signed: bytes
    digest: str

    @classmethod
    def of(cls, event: ExportedEvent) -> "SignedEvent":
        """Return the event with its signed bytes and its digest."""
        whole = event.to_json()
        content = {name: each for name, each in whole.items() if name != "signature"}
        digest = hashlib.sha256(canonical_bytes(whole)).hexdigest()
        return cls(event, EVENT_DOMAIN + canonical_bytes(content), digest)

    def is_signed_by(self, keys: Iterable[PartyKey]) -> bool:
        """Whether one of ``keys`` signed the event."""
        signature = bytes.fromhex(self.event.signature)
        return any(key.verifies(signature, self.signed) for key in keys)


def read_export(data: bytes) -> list[SignedEvent]:
    """Return the events of an export, which has one event in canonical JSON a line.

    Raises:
        ReceiptError: a line is no such event, or the last line has no end.
    """
    lines = data.split(b"\n")
    if lines.pop() != b"":
        raise ReceiptError(
            "the last line of the journal export has no end", "export the journal again"
        )
    if len(lines) > MAX_EVENTS:
        raise ReceiptError(f"the journal export has more than {MAX_EVENTS:,} lines")
    return [_read_line(line, number) for number, line in enumerate(lines, 1)]


def _read_line(line: bytes, number: int) -> SignedEvent:
    what = f"line {number} of the journal export"
    return SignedEvent.of(table_of(ExportedEvent, read_canonical(line, what), what))


class ErasedItem(JsonTable):
    """Something that a party erased before it left; ``kind``: model, checkpoint and so on."""

    id: Word
    kind: Annotated[str, Field(pattern=r"^[a-z]{1,20}$")]


class LeftContent(JsonTable):
    """The content of an event ``left``.

    Attributes:
        version: number of the newest version of the model of which the party had a part; 0 if it
            had none.
        destroyed: what the party erased.
    """

    version: Count
    destroyed: Annotated[tuple[ErasedItem, ...], Field(max_length=4096)]


class Departure(JsonTable):
    """A party that left, and what it stated.

    Attributes:
        party: the party, whose columns the new version does not use.
        statement: its signed event ``left``; None if it has stated nothing.
    """

    party: PartyName
    statement: ExportedEvent | None

    @model_validator(mode="after")
    def _check(self) -> Self:
        made = self.statement
        if made is None:
            return self
        if (made.origin, made.kind) != (self.party, LEFT):
            raise ValueError("the statement must be the event 'left' of the party that left")
        try:
            table_of(LeftContent, made.body, "the statement")
        except ReceiptError as error:
            raise ValueError(str(error)) from None
        return self

    @property
    def content(self) -> LeftContent | None:
        """What the party stated; None if it has stated nothing."""
        made = self.statement
        return None if made is None else table_of(LeftContent, made.body, "the statement")


def read_departure(data: bytes) -> SignedEvent:
    """Return the statement in a file that ``vfl leave`` wrote: its last event ``left``.

    Raises:
        ReceiptError: the file is no export of events, or contains no valid event ``left``.
    """
    found = [each for each in read_export(data) if each.event.kind == LEFT]
    if not found:
        raise ReceiptError(
            "the file contains no statement of a party that left", "name the file of vfl leave"
        )
    event = found[-1].event.to_json()
    table_of(Departure, {"party": event["origin"], "statement": event}, "the statement")
    return found[-1]
