"""Offline check of a receipt: form, signatures, contradictions, and what is shown beside it."""

import hmac
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from unlearning.receipts.commitment import canonical_id, subject_commitment
from unlearning.receipts.errors import CanonicalError, ReceiptError, UnknownVersion
from unlearning.receipts.evidence import SubjectOpenings, SubjectProof
from unlearning.receipts.faults import ExitCode, Fault, FoundFault, worst_code
from unlearning.receipts.journal_export import check_journal
from unlearning.receipts.keys import TrustFile
from unlearning.receipts.receipt import (
    NO_HASH,
    Receipt,
    ReceiptParty,
    decode_receipt,
)
from unlearning.receipts.table import read_table


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


@dataclass(frozen=True, slots=True)
class Verification:
    """The result of a check.

    Attributes:
        receipt: the receipt; None if it is malformed.
        findings: the faults; none if the receipt is valid.
        confirmed: a sentence for each check that found no fault.
    """

    receipt: Receipt | None
    findings: Sequence[FoundFault]
    confirmed: Sequence[str]

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
    shown = evidence or Evidence()
    findings: list[FoundFault] = []
    confirmed: list[str] = []

    def note(found: Sequence[FoundFault], sentence: str) -> None:
        findings.extend(found)
        if not found:
            confirmed.append(sentence)

    note(check_signatures(receipt, trust), "all parties of the receipt signed")
    contradictions = [FoundFault(Fault.CONTRADICTION, each) for each in receipt.contradictions()]
    note(contradictions, "no field contradicts another")
    if shown.subject is not None:
        note(check_subject(receipt, shown.subject), "the subject is one of the removed ones")
    if shown.openings is not None:
        note(check_openings(receipt, shown.openings), "the openings are all subjects of a request")
    if shown.journal is not None:
        note(check_journal(receipt, shown.journal, trust), "the journal agrees with the receipt")
    if shown.previous is not None:
        note(
            check_previous(receipt, shown.previous, trust), "the previous receipt is the named one"
        )
    return Verification(receipt, findings, confirmed)


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
    absent = sorted(trust.parties - {each.party for each in receipt.parties})
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
