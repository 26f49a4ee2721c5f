"""Export of the journal of requests, one signed event a line, and its check against a receipt."""

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any

from pydantic import Field

from unlearning.receipts.canonical import canonical_bytes, read_canonical
from unlearning.receipts.errors import ReceiptError
from unlearning.receipts.faults import Fault, FoundFault
from unlearning.receipts.keys import TrustFile
from unlearning.receipts.receipt import NO_HASH, Receipt, ReceiptRequest
from unlearning.receipts.table import Hash, JsonTable, PartyName, Ulid, table_of

EVENT_DOMAIN = b"vfl/event/v1\n"
MAX_EVENTS = 1_000_000

Chains = Mapping[str, "Sequence[ExportedEvent]"]


class ExportedEvent(JsonTable):
    """An event of the journal as its origin signed it; any event's kind and body are accepted.

    Attributes:
        origin: the party that made the event.
        seq: number of the event among those of its origin, from 1.
        prev: digest of the origin's previous event; zeros for the first.
        time: time of the event at its origin.
        request: ULID of the request that it belongs to.
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

    @cached_property
    def signed_content(self) -> bytes:
        """The canonical bytes without the signature."""
        content = self.to_json()
        del content["signature"]
        return canonical_bytes(content)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the canonical bytes with the signature: 64 hexadecimal digits."""
        return hashlib.sha256(canonical_bytes(self.to_json())).hexdigest()


def read_export(data: bytes) -> list[ExportedEvent]:
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
    events = []
    for number, line in enumerate(lines, 1):
        what = f"line {number} of the journal export"
        events.append(table_of(ExportedEvent, read_canonical(line, what), what))
    return events


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
    chains: dict[str, list[ExportedEvent]] = defaultdict(list)
    for each in events:
        chains[each.origin].append(each)
    findings = [each for chain in chains.values() for each in _check_chain(chain, trust)]
    for origin in sorted(chains):
        chains[origin].sort(key=lambda each: each.seq)
    return [*findings, *_check_heads(receipt, chains), *_check_requests(receipt, events)]


def _check_chain(chain: Sequence[ExportedEvent], trust: TrustFile) -> Iterator[FoundFault]:
    """Check the events of one origin: signatures, numbers, and the digest of the previous event."""
    origin = chain[0].origin
    keys = trust.keys_of(origin)
    if not keys:
        yield FoundFault(Fault.UNKNOWN_ORIGIN, f"no key of {origin} is known for its events")
    by_seq: dict[int, ExportedEvent] = {}
    for each in chain:
        message, signature = EVENT_DOMAIN + each.signed_content, bytes.fromhex(each.signature)
        if keys and not any(key.verifies(signature, message) for key in keys):
            yield FoundFault(
                Fault.BAD_EVENT, f"the signature of event {each.seq} of {origin} is bad"
            )
        if by_seq.setdefault(each.seq, each).digest != each.digest:
            yield FoundFault(
                Fault.FORK, f"{origin} has two different events with number {each.seq}"
            )
    digest, last = NO_HASH, 0
    for seq, event in sorted(by_seq.items()):
        if seq != last + 1:
            missing = f"{last + 1} to {seq - 1}" if seq > last + 2 else f"{last + 1}"
            yield FoundFault(Fault.CHAIN_GAP, f"the journal lacks event {missing} of {origin}")
        elif event.prev != digest:
            yield FoundFault(
                Fault.FORK, f"event {seq} of {origin} does not follow the event before it"
            )
        digest, last = event.digest, seq


def _check_heads(receipt: Receipt, chains: Chains) -> Iterator[FoundFault]:
    """Check that each party's head is in the export, after its event of each request."""
    for statement in receipt.statements:
        chain, party = chains.get(statement.party, ()), statement.party
        if statement.journal_head == NO_HASH:
            seq = 0
        else:
            numbers = [each.seq for each in chain if each.digest == statement.journal_head]
            if not numbers:
                yield FoundFault(
                    Fault.CHAIN_GAP,
                    f"the journal lacks the event of {party} that the receipt names",
                )
                continue
            (seq, *_) = numbers
        known = {each.request for each in chain if each.seq <= seq}
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
