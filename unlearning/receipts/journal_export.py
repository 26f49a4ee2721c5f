"""Export of the journal of requests, one signed event a line, and its check against a receipt."""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from unlearning.receipts.canonical import canonical_bytes, read_canonical
from unlearning.receipts.errors import ReceiptError
from unlearning.receipts.faults import Fault, FoundFault
from unlearning.receipts.keys import PartyKey, TrustFile
from unlearning.receipts.receipt import NO_HASH, Receipt, ReceiptRequest
from unlearning.receipts.table import Hash, JsonTable, PartyName, Ulid, table_of

EVENT_DOMAIN = b"vfl/event/v1\n"
MAX_EVENTS = 1_000_000

Chains = Mapping[str, "Sequence[SignedEvent]"]


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
    value = read_canonical(line, what)
    event = table_of(ExportedEvent, value, what)
    content = {name: each for name, each in event.to_json().items() if name != "signature"}
    signed = EVENT_DOMAIN + canonical_bytes(content)
    return SignedEvent(event, signed, hashlib.sha256(line).hexdigest())


def check_journal(receipt: Receipt, data: bytes, trust: TrustFile) -> list[FoundFault]:
    """Check the chains and signatures of an export, and that the receipt agrees with the export.

    Args:
        receipt: the receipt.
        data: the bytes of the export.
        trust: the keys of the parties, which sign events as well.
    """
    try:
        events = read_export(data)
    except ReceiptError as error:
        return [FoundFault(Fault.BAD_EVIDENCE, str(error))]
    chains: dict[str, list[SignedEvent]] = defaultdict(list)
    for each in events:
        chains[each.event.origin].append(each)
    findings = [each for chain in chains.values() for each in _check_chain(chain, trust)]
    return [
        *findings,
        *_check_heads(receipt, chains),
        *_check_requests(receipt, [each.event for each in events]),
    ]


def _check_chain(chain: Sequence[SignedEvent], trust: TrustFile) -> Iterator[FoundFault]:
    """Check the events of one origin: signatures, numbers, and the digest of the previous event."""
    origin = chain[0].event.origin
    keys = trust.keys_of(origin)
    if not keys:
        yield FoundFault(Fault.UNKNOWN_ORIGIN, f"no key of {origin} is known for its events")
    by_seq: dict[int, SignedEvent] = {}
    for each in chain:
        seq = each.event.seq
        if keys and not each.is_signed_by(keys):
            yield FoundFault(Fault.BAD_EVENT, f"the signature of event {seq} of {origin} is wrong")
        if by_seq.setdefault(seq, each).digest != each.digest:
            yield FoundFault(Fault.FORK, f"{origin} has two different events with number {seq}")
    digest, last = NO_HASH, 0
    for seq, each in sorted(by_seq.items()):
        if seq != last + 1:
            missing = f"events {last + 1} to {seq - 1}" if seq > last + 2 else f"event {last + 1}"
            yield FoundFault(Fault.CHAIN_GAP, f"the journal lacks {missing} of {origin}")
        elif each.event.prev != digest:
            yield FoundFault(
                Fault.FORK, f"event {seq} of {origin} does not follow the event before it"
            )
        digest, last = each.digest, seq


def _check_heads(receipt: Receipt, chains: Chains) -> Iterator[FoundFault]:
    """Check that each party's head is in the export, after its first event of each request."""
    for statement in receipt.statements:
        party, head, last = statement.party, statement.journal_head, 0
        chain = chains.get(party, ())
        if head != NO_HASH:
            last = next((each.event.seq for each in chain if each.digest == head), 0)
            if not last:
                text = f"the journal lacks the newest event of {party} that the receipt names"
                yield FoundFault(Fault.CHAIN_GAP, text)
                continue
        known = {each.event.request for each in chain if each.event.seq <= last}
        for request in receipt.requests:
            if request.request_id not in known:
                yield FoundFault(
                    Fault.NOT_JOURNALED,
                    f"{party} had not journaled request {request.request_id} when it made its "
                    "statement",
                )


def _check_requests(receipt: Receipt, events: Sequence[ExportedEvent]) -> Iterator[FoundFault]:
    """Check the origin of each request, and that no later receipt replaced this one."""
    for request in receipt.requests:
        of_request = [each for each in events if each.request == request.request_id]
        yield from _check_origin(request, of_request)
        completed = [each for each in of_request if each.kind == "completed"]
        if completed and receipt.digest not in [each.body.get("receipt") for each in completed]:
            yield FoundFault(
                Fault.SUPERSEDED,
                f"request {request.request_id} was completed with another receipt",
            )


def _check_origin(request: ReceiptRequest, events: Sequence[ExportedEvent]) -> Iterator[FoundFault]:
    requested = [each.origin for each in events if each.kind == "requested"]
    if not requested:
        yield FoundFault(
            Fault.CHAIN_GAP, f"the journal does not contain request {request.request_id}"
        )
    elif requested != [request.origin]:
        yield FoundFault(
            Fault.CONTRADICTION,
            f"request {request.request_id} was made by {', '.join(sorted(set(requested)))}, "
            f"and the receipt names {request.origin}",
        )
