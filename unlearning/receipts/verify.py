"""Offline check of a receipt: form, signatures, contradictions, and what is shown beside it."""

import hmac
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from unlearning.receipts.commitment import canonical_id, subject_commitment
from unlearning.receipts.errors import CanonicalError, ReceiptError, UnknownVersion
from unlearning.receipts.evidence import SubjectOpenings, SubjectProof
from unlearning.receipts.faults import ExitCode, Fault, FoundFault, worst_code
from unlearning.receipts.journal_export import (
    ExportedEvent,
    LeftContent,
    SignedEvent,
    read_departure,
    read_export,
)
from unlearning.receipts.keys import TrustFile
from unlearning.receipts.receipt import (
    NO_HASH,
    Receipt,
    ReceiptParty,
    ReceiptRequest,
    RequestKind,
    decode_receipt,
)
from unlearning.receipts.table import read_table, table_of

_Chains: TypeAlias = Mapping[str, Sequence[SignedEvent]]


@dataclass(frozen=True, slots=True)
class SubjectEvidence:
    """What a data subject shows: the ID by column, its salt, and the bytes of the proof."""

    columns: Sequence[str] = field(repr=False)
    salt: bytes = field(repr=False)
    proof: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Evidence:
    """Files shown beside a receipt, as bytes; None for a file that is not shown."""

    subject: SubjectEvidence | None = None
    openings: bytes | None = None
    journal: bytes | None = None
    previous: bytes | None = None
    statement: bytes | None = None  # of a party that left, as vfl leave wrote it


@dataclass(frozen=True, slots=True)
class Verification:
    """The result of a check.

    Attributes:
        receipt: the receipt; None if it is malformed.
        findings: the faults; none if the receipt is valid.
        confirmed: a sentence for each check that found no fault.
        notes: a sentence for each party that left and has stated nothing, and for each party
            whose columns left.
    """

    receipt: Receipt | None
    findings: Sequence[FoundFault]
    confirmed: Sequence[str]
    notes: Sequence[str] = ()

    @property
    def exit_code(self) -> ExitCode:
        """The result of all checks together."""
        return worst_code(self.findings)


def verify(data: bytes, trust: TrustFile, evidence: Evidence | None = None) -> Verification:
    """Check a receipt, and the evidence beside it.

    Args:
        data: the bytes of the receipt's file.
        trust: the keys of the parties that must have signed.
        evidence: what is shown beside the receipt.
    """
    try:
        receipt = decode_receipt(data)
    except ReceiptError as error:
        fault = Fault.BAD_SCHEMA
        if isinstance(error, CanonicalError):
            fault = Fault.BAD_CANONICAL
        elif isinstance(error, UnknownVersion):
            fault = Fault.UNKNOWN_VERSION
        return Verification(None, [FoundFault(fault, str(error))], [])
    findings: list[FoundFault] = []
    confirmed: list[str] = []
    for found, sentence in _checks(receipt, trust, evidence or Evidence()):
        findings += found
        confirmed += [] if found else [sentence]
    silent = [
        f"{each.party} left, and the receipt has no statement of it"
        for each in receipt.departures
        if each.statement is None
    ]
    return Verification(receipt, findings, confirmed, [*silent, *_notes_on_columns(receipt)])


def _notes_on_columns(receipt: Receipt) -> Iterator[str]:
    """Yield what the receipt says about columns that left, and who erased nothing."""
    for name, count in receipt.columns_left.items():
        yield f"{name} states that {count} of its columns left; no other party knows its columns"
    before = f"model-{receipt.version_before}"
    for each in receipt.statements if receipt.columns_left else ():
        if before not in [item.id for item in each.artefacts_destroyed]:
            yield (
                f"{each.party} does not state that it erased {before}; a party that joined with "
                f"model-{receipt.version_after} never had it"
            )


_Check: TypeAlias = tuple[list[FoundFault], str]


def _checks(receipt: Receipt, trust: TrustFile, shown: Evidence) -> Iterator[_Check]:
    """Yield the faults that each check finds, and what is confirmed if there are none."""
    yield check_signatures(receipt, trust), "all parties of the receipt signed"
    contradictions = [FoundFault(Fault.CONTRADICTION, each) for each in receipt.contradictions()]
    yield contradictions, "no field contradicts another"
    for each in receipt.departures:
        if each.statement is not None:
            found = _check_statement(receipt, SignedEvent.of(each.statement), trust)
            yield found, f"{each.party} stated what it erased when it left"
    yield from _checks_of_evidence(receipt, trust, shown)


def _checks_of_evidence(receipt: Receipt, trust: TrustFile, shown: Evidence) -> Iterator[_Check]:
    """Yield the results of the checks of what is shown beside the receipt."""
    if shown.statement is not None:
        yield (
            check_departure(receipt, shown.statement, trust),
            "the party that left stated what it erased",
        )
    if shown.subject is not None:
        yield check_subject(receipt, shown.subject), _subject_sentence(receipt, shown.subject)
    if shown.openings is not None:
        yield check_openings(receipt, shown.openings), "the openings are all subjects of a request"
    if shown.journal is not None:
        yield check_journal(receipt, shown.journal, trust), "the journal agrees with the receipt"
    if shown.previous is not None:
        yield (
            check_previous(receipt, shown.previous, trust),
            "the previous receipt is the named one",
        )


def check_departure(receipt: Receipt, data: bytes, trust: TrustFile) -> list[FoundFault]:
    """Check the statement of a party that left by the receipt.

    Args:
        receipt: the receipt.
        data: the bytes of the file that ``vfl leave`` wrote.
        trust: the keys of the parties; that of a party that left is among them.
    """
    try:
        made = read_departure(data)
    except ReceiptError as error:
        return [FoundFault(Fault.BAD_EVIDENCE, str(error))]
    name = made.event.origin
    if name not in [each.party for each in receipt.departures]:
        return [
            FoundFault(
                Fault.NOT_INCLUDED,
                f"the statement is of {name}, which did not leave by this receipt",
            )
        ]
    return _check_statement(receipt, made, trust)


def _check_statement(receipt: Receipt, made: SignedEvent, trust: TrustFile) -> list[FoundFault]:
    """Check that a trusted key of a party that left signed its statement, of this departure."""
    name = made.event.origin
    keys = trust.keys_of(name)
    if not keys:
        text = f"no key of {name} is trusted, so its statement was not checked"
        return [FoundFault(Fault.UNKNOWN_KEY, text)]
    if not made.is_signed_by(keys):
        text = f"the signature of the statement of {name} is wrong"
        return [FoundFault(Fault.BAD_STATEMENT, text)]
    version = table_of(LeftContent, made.event.body, "the statement").version
    if version < receipt.version_before:
        text = (
            f"the statement of {name} is of version {version}, from before version "
            f"{receipt.version_before} of which it still had a part"
        )
        return [FoundFault(Fault.BAD_STATEMENT, text)]
    return []


def check_signatures(receipt: Receipt, trust: TrustFile) -> list[FoundFault]:
    """Check all signatures by known keys; signatures by unknown keys are ignored.

    One wrong signature by a known key makes the receipt invalid (C2SP signed-note).
    """
    if receipt.federation != trust.federation:
        return [
            FoundFault(
                Fault.WRONG_FEDERATION,
                f"the receipt is of federation {receipt.federation}, and the trusted keys are of "
                f"{trust.federation}",
            )
        ]
    message = receipt.signing_bytes
    findings, used = [], set[tuple[str, str]]()
    for each in receipt.signatures:
        key = trust.key(each.party, each.key_id)
        if key is None:
            continue
        used.add((each.party, each.key_id))
        if not key.verifies(bytes.fromhex(each.signature), message):
            findings.append(
                FoundFault(Fault.BAD_SIGNATURE, f"the signature of {each.party} is wrong")
            )
    if not used:
        return [FoundFault(Fault.UNSIGNED, "no trusted key has signed the receipt")]
    for party in receipt.parties:
        findings += _check_party(party, trust, signed=(party.party, party.key_id) in used)
    signers = trust.signers(receipt.version_after)
    absent = sorted(signers - {each.party for each in receipt.parties})
    findings += [
        FoundFault(Fault.MISSING_PARTY, f"the receipt does not name {party}, whose key is trusted")
        for party in absent
    ]
    return findings


def _check_party(party: ReceiptParty, trust: TrustFile, *, signed: bool) -> Iterator[FoundFault]:
    """Check that a party of the receipt has a known key, and that this key signed."""
    key, name = trust.key(party.party, party.key_id), party.party
    if key is None:
        yield FoundFault(
            Fault.UNKNOWN_KEY,
            f"the key {party.key_id} of {name} is not trusted, so its signature was not checked",
        )
    elif key.spki_sha256 != party.spki_sha256:
        yield FoundFault(Fault.WRONG_KEY, f"the receipt gives a wrong digest of the key of {name}")
    elif not signed:
        yield FoundFault(Fault.MISSING_SIGNATURE, f"{name} has not signed the receipt")


def check_subject(receipt: Receipt, shown: SubjectEvidence) -> list[FoundFault]:
    """Check that a subject is under the root of the request that its proof names."""
    try:
        proof = read_table(SubjectProof, shown.proof, "the proof")
        commitment = subject_commitment(shown.salt, canonical_id(shown.columns))
    except ReceiptError as error:
        return [FoundFault(Fault.BAD_EVIDENCE, str(error))]
    return _compare_root(receipt, proof.request_id, proof.root(commitment), "the subject is not")


def check_openings(receipt: Receipt, data: bytes) -> list[FoundFault]:
    """Check that the openings are exactly the subjects of the request that they name."""
    try:
        openings = read_table(SubjectOpenings, data, "the file of openings")
        root = openings.root()
    except ReceiptError as error:
        return [FoundFault(Fault.BAD_EVIDENCE, str(error))]
    return _compare_root(receipt, openings.request_id, root, "the openings are not all subjects")


def _subject_sentence(receipt: Receipt, shown: SubjectEvidence) -> str:
    """What a valid proof confirms, by the kind of the request that it names."""
    corrected = {
        each.request_id for each in receipt.requests if each.kind is RequestKind.CORRECTION
    }
    try:
        proof = read_table(SubjectProof, shown.proof, "the proof")
    except ReceiptError:  # the check reports it
        return ""
    if proof.request_id in corrected:
        return "the subject is one of those whose labels were replaced"
    return "the subject is one of the removed ones"


def _compare_root(receipt: Receipt, request_id: str, root: str, wrong: str) -> list[FoundFault]:
    roots = {each.request_id: each.subjects_root for each in receipt.requests}
    if request_id not in roots:
        message = f"the receipt does not name request {request_id}"
        return [FoundFault(Fault.NOT_INCLUDED, message)]
    if not hmac.compare_digest(root, roots[request_id] or ""):
        end = f" in request {request_id}" if wrong.endswith("not") else f" of request {request_id}"
        return [FoundFault(Fault.NOT_INCLUDED, wrong + end)]
    return []


def check_previous(receipt: Receipt, data: bytes, trust: TrustFile) -> list[FoundFault]:
    """Check that ``data`` is the previous receipt that the receipt names, rightly signed."""
    try:
        previous = decode_receipt(data)
    except ReceiptError as error:
        return [FoundFault(Fault.BAD_EVIDENCE, f"the previous file: {error}")]
    if receipt.prev_receipt_hash == NO_HASH:
        return [FoundFault(Fault.CHAIN_GAP, "the receipt names no previous receipt")]
    if previous.digest != receipt.prev_receipt_hash:
        return [
            FoundFault(
                Fault.CHAIN_GAP,
                f"receipt {previous.receipt_id} is not the previous one that it names",
            )
        ]
    findings = [
        FoundFault(each.fault, f"the previous receipt: {each.message}")
        for each in check_signatures(previous, trust)
    ]
    if previous.completed_at > receipt.completed_at and not receipt.clock_anomaly:
        message = "the previous receipt was completed later, without a clock anomaly"
        findings.append(FoundFault(Fault.CONTRADICTION, message))
    return findings


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


def _check_heads(receipt: Receipt, chains: _Chains) -> Iterator[FoundFault]:
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
    hubs = {each.party for each in receipt.parties if each.role in ("active", "server")}
    for request in receipt.requests:
        of_request = [each for each in events if each.request == request.request_id]
        yield from _check_origin(request, of_request)
        completed = [
            each for each in of_request if each.kind == "completed" and each.origin in hubs
        ]
        # A request is carried out again after a backup was restored; the last receipt counts.
        last = max(completed, key=lambda each: each.seq, default=None)
        if last is not None and last.body.get("receipt") != receipt.digest:
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
