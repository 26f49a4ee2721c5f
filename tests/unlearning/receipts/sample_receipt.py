"""A receipt of two parties with its journal, subjects and keys, the same at every call.

The keys are made from words and protect nothing.
"""

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from unlearning.guarantee import Guarantee
from unlearning.receipts.canonical import canonical_bytes
from unlearning.receipts.commitment import model_commitment
from unlearning.receipts.evidence import Opening, SubjectOpenings, SubjectProof, subject_proof
from unlearning.receipts.journal_export import EVENT_DOMAIN
from unlearning.receipts.keys import PartyKey, TrustedKey, TrustFile
from unlearning.receipts.receipt import (
    AUDIT_LIMITS,
    NO_HASH,
    ArtefactKind,
    Audit,
    AuditLevel,
    AuditResult,
    Destroyed,
    LegalBasis,
    PartyStatement,
    Receipt,
    ReceiptParty,
    ReceiptRequest,
    Recipients,
    Relation,
    RequesterKind,
    RequestKind,
    Retained,
    RetentionReason,
    StatedGuarantee,
    count_bucket,
    sign_receipt,
    with_signatures,
)
from unlearning.receipts.table import minute_text, number_text

BEGIN = datetime(2027, 3, 1, 9, 30, 12, tzinfo=UTC)
PARTIES = ("bank", "shop")
REQUEST = "01JQ8Z6M3V5T7W9X1Y3Z5A7B9C"
RECEIPT = "01JQ9ABCDEFGHJKMNPQRSTVWXY"
IDS = [("anna", "1970"), ("bert", "1981"), ("cora", "1992"), ("dora", "2003"), ("emil", "2014")]


def digest(*words: str) -> str:
    """SHA-256 of words, 64 hexadecimal digits."""
    return hashlib.sha256(" ".join(words).encode()).hexdigest()


def private_key(party: str) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(bytes.fromhex(digest("test key of", party)))


def party_key(party: str, owner: str | None = None) -> PartyKey:
    """The key that is named after ``party``, as a key of ``owner``."""
    return PartyKey(owner or party, private_key(party).public_key().public_bytes_raw())


def trust(*parties: str) -> TrustFile:
    keys = [TrustedKey(party=each, public_key=party_key(each).public.hex()) for each in parties]
    return TrustFile(federation="people", keys=tuple(keys))


def openings() -> SubjectOpenings:
    subjects = [Opening(id=each, salt=digest("salt", *each)) for each in IDS]
    return SubjectOpenings(request_id=REQUEST, subjects=tuple(subjects))


def proof(index: int) -> SubjectProof:
    commitments = [each.commitment for each in openings().subjects]
    return subject_proof(REQUEST, commitments, commitments[index])


# --- the journal ----------------------------------------------------------------------------------


def signed_event(content: Mapping[str, Any], key: str | None = None) -> dict[str, Any]:
    """An event with the signature of its origin, or of another key."""
    signer = private_key(key or content["origin"])
    signature = signer.sign(EVENT_DOMAIN + canonical_bytes(dict(content))).hex()
    return {**content, "signature": signature}


def event_digest(event: Mapping[str, Any]) -> str:
    return hashlib.sha256(canonical_bytes(dict(event))).hexdigest()


def chain(origin: str, *kinds_and_bodies: tuple[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """The first events of a party, all for the one request."""
    events: list[dict[str, Any]] = []
    for seq, (kind, body) in enumerate(kinds_and_bodies, 1):
        moment = BEGIN + timedelta(minutes=seq)
        content = {
            "origin": origin, "seq": seq, "prev": event_digest(events[-1]) if events else NO_HASH,
            "time": f"{moment:%Y-%m-%dT%H:%M:%SZ}", "request": REQUEST, "kind": kind, "body": body,
        }  # fmt: skip
        events.append(signed_event(content))
    return events


def journal() -> list[dict[str, Any]]:
    """The events of both parties up to their statements."""
    (requested,) = chain("shop", ("requested", {"kind": "rows", "rows": [1, 5]}))
    return [requested, *chain("bank", ("journaled", {}), ("started", {"batch": [REQUEST]}))]


def journal_with_end(*receipts: str, origin: str = "bank") -> list[dict[str, Any]]:
    """The journal, and the events in which a party, by right the bank, names receipts."""
    events = journal()
    for each in receipts:
        own = [event for event in events if event["origin"] == origin]
        last = {
            "origin": origin, "seq": len(own) + 1, "prev": event_digest(own[-1]),
            "time": "2027-03-01T10:00:00Z", "request": REQUEST, "kind": "completed",
            "body": {"receipt": each},
        }  # fmt: skip
        events.append(signed_event(last))
    return events


def export(events: list[dict[str, Any]]) -> bytes:
    return b"".join(canonical_bytes(each) + b"\n" for each in events)


# --- the receipt ----------------------------------------------------------------------------------


def statement(party: str) -> PartyStatement:
    own = [each for each in journal() if each["origin"] == party]
    before, after = (
        model_commitment(
            bytes.fromhex(digest("salt", party, when)), bytes.fromhex(digest("model", party, when))
        ).hex()
        for when in ("before", "after")
    )
    return PartyStatement(
        party=party,
        model_before=before,
        model_after=after,
        numeric_profile={"threads": "1", "torch": "2.11.0"},
        artefacts_destroyed=(
            Destroyed(id="version-6", kind=ArtefactKind.MODEL, destroyed_at=minute_text(BEGIN)),
        ),
        artefacts_retained=(
            Retained(
                id="forgotten", kind=ArtefactKind.FORGOTTEN_LIST,
                reason=RetentionReason.PREVENT_RETURN, until="2030-03-01",
            ),
        ),
        art19=Recipients(count=2, notified=1, failed=0),
        journal_head=event_digest(own[-1]),
    )  # fmt: skip


def request() -> ReceiptRequest:
    return ReceiptRequest(
        request_id=REQUEST,
        origin="shop",
        kind=RequestKind.ROWS,
        requester_kind=RequesterKind.SUBJECT,
        legal_basis_code=LegalBasis.CONSENT_WITHDRAWN,
        received_at=minute_text(BEGIN - timedelta(hours=3)),
        due_at=minute_text(BEGIN + timedelta(days=30)),
        subjects_root=openings().root(),
        count_bucket=count_bucket(len(IDS)),
    )


def unsigned() -> Receipt:
    """The receipt before anybody signed."""
    utility = AuditResult(
        name="utility", metric="accuracy", value=number_text(0.951), relation=Relation.AT_LEAST,
        threshold=number_text(0.94), n=360, passed=True,
    )  # fmt: skip
    quick = AuditLevel.QUICK
    roles = {"bank": "active", "shop": "passive"}
    return Receipt(
        receipt_id=RECEIPT,
        federation="people",
        parties=tuple(
            ReceiptParty(
                party=each, role=roles[each], key_id=party_key(each).key_id,
                spki_sha256=party_key(each).spki_sha256,
            )
            for each in PARTIES
        ),
        requests=(request(),),
        completed_at=minute_text(BEGIN + timedelta(minutes=20)),
        clock_anomaly=False,
        plan_hash=digest("agreement"),
        code_version="0.3.0",
        wheel_sha256=None,
        method="retrain",
        method_params_hash=digest("settings"),
        guarantee=StatedGuarantee(kind=Guarantee.EXACT),
        version_before=6,
        version_after=7,
        transcript_root=digest("transcript"),
        audit=Audit(level=quick, cannot_say=AUDIT_LIMITS[quick], results=(utility,)),
        statements=tuple(map(statement, PARTIES)),
        prev_receipt_hash=NO_HASH,
    )  # fmt: skip


def signed(receipt: Receipt, *parties: str) -> Receipt:
    """The receipt with the signatures of ``parties``, by default of both."""
    return with_signatures(
        receipt,
        (
            sign_receipt(receipt, party_key(each), statement(each), NO_HASH, private_key(each).sign)
            for each in parties or PARTIES
        ),
    )
