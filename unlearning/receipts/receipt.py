"""The receipt of an unlearning run: its fields, canonical bytes, digest and signatures.

A receipt is one JSON object in canonical form (RFC 8785). It names no person: subjects and models
stand in it as salted commitments. All parties sign the same bytes.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias

from pydantic import AfterValidator, Field, model_validator

from unlearning.guarantee import STRONGEST, Guarantee
from unlearning.receipts.canonical import canonical_bytes, read_canonical
from unlearning.receipts.errors import ReceiptError, UnknownVersion
from unlearning.receipts.journal_export import Departure
from unlearning.receipts.keys import PartyKey
from unlearning.receipts.table import (
    Count,
    Day,
    Hash,
    JsonTable,
    KeyId,
    Minute,
    Number,
    PartyName,
    Ulid,
    Word,
    table_of,
)

SIGNING_DOMAIN = b"vfl/receipt/v1\n"
NO_HASH = "0" * 64  # stands where there is no earlier receipt or event
MAX_PARTIES = 1024
MAX_RECEIPT_BYTES = 16 << 20
MAX_SIGNATURES = MAX_PARTIES + 64  # those of the parties, and of witnesses
LIMITS = (
    "This receipt attests that the named parties ran the named algorithm on the committed inputs; "
    "it does not prove absence of influence by itself."
)


class RequestKind(StrEnum):
    """What a request asks to remove, or to replace."""

    ROWS = "rows"
    LABEL = "label"
    LABELS_PART = "labels_part"
    CLIENT = "client"  # rows of the client that took the request
    CORRECTION = "correction"  # replaces the labels of rows, which stay in the model
    PARTY = "party"  # the columns of a party that left
    COLUMNS = "columns"  # some columns of the party that took the request, which stays


class RequesterKind(StrEnum):
    """Who asked for the removal."""

    SUBJECT = "subject"
    REPRESENTATIVE = "representative"
    CONTROLLER = "controller"
    COURT = "court"


class LegalBasis(StrEnum):
    """Why rows had to be removed, or labels replaced.

    The first six are the points of GDPR Article 17(1); the seventh is the right to rectification.
    """

    NOT_NEEDED = "gdpr-17-1-a"
    CONSENT_WITHDRAWN = "gdpr-17-1-b"
    OBJECTION = "gdpr-17-1-c"
    UNLAWFUL = "gdpr-17-1-d"
    LEGAL_OBLIGATION = "gdpr-17-1-e"
    CHILD = "gdpr-17-1-f"
    RECTIFICATION = "gdpr-16"
    CONTRACT = "contract"
    OTHER_LAW = "other-law"
    NOT_STATED = "not-stated"


class ArtefactKind(StrEnum):
    """What a party destroyed or kept."""

    MODEL = "model"
    CHECKPOINT = "checkpoint"
    CODES = "codes"
    EMBEDDINGS = "embeddings"
    PREDICTIONS = "predictions"
    SOURCE_DATA = "source-data"
    BACKUP = "backup"
    FORGOTTEN_LIST = "forgotten-list"
    JOURNAL = "journal"


class RetentionReason(StrEnum):
    """Why a party keeps something after the removal."""

    REPLAY_WINDOW = "replay-window"
    PREVENT_RETURN = "prevent-return"
    PROOF = "proof"
    OTHER_PURPOSE = "other-purpose"
    LEGAL_DUTY = "legal-duty"
    BACKUP_CYCLE = "backup-cycle"


class AuditLevel(StrEnum):
    """How much was measured after the removal."""

    NONE = "none"
    QUICK = "quick"
    FULL = "full"


AUDIT_LIMITS = {
    AuditLevel.NONE: (
        "Nothing was measured, so the receipt says nothing about the model after the removal."
    ),
    AuditLevel.QUICK: (
        "The model was not compared with a Retrain, so the receipt cannot say how far it is from a "
        "model that never had the rows."
    ),
    AuditLevel.FULL: (
        "The model was compared with a few Retrains by the listed tests, so the receipt cannot "
        "exclude a trace that these tests do not find."
    ),
}


class Relation(StrEnum):
    """How a measured value must stand to its threshold."""

    AT_MOST = "at-most"
    AT_LEAST = "at-least"


def _ascending(names: Sequence[str]) -> bool:
    return all(a < b for a, b in pairwise(names))


def _sorted_names(values: tuple[str, ...]) -> tuple[str, ...]:
    if not _ascending(values):
        raise ValueError("the entries must be in ascending order, each once")
    return values


Label: TypeAlias = Annotated[str, Field(min_length=1, max_length=100)]
Labels: TypeAlias = Annotated[tuple[Label, ...], AfterValidator(_sorted_names)]
Profile: TypeAlias = dict[Word, Annotated[str, Field(max_length=100)]]


class ReceiptParty(JsonTable):
    """A party that took part, and the key with which it signs."""

    party: PartyName
    role: Literal["active", "passive", "server", "client"]
    key_id: KeyId
    spki_sha256: Hash


class ReceiptRequest(JsonTable):
    """A request that the run carried out.

    Attributes:
        request_id: ULID of the request.
        origin: the party that took the request.
        kind: what it asks to remove.
        classes: the labels, if the request names labels.
        requester_kind: who asked.
        legal_basis_code: why.
        received_at: when the party received it.
        due_at: when it had to be carried out.
        subjects_root: Merkle root over the commitments of its subjects; None if the request names
            labels and no subjects.
        count_bucket: how many rows were removed, as a range between powers of two.
        departure: the party that left; None of a request of another kind.
        columns_left: how many columns of the origin left, by its own statement; None of a request
            of another kind.
    """

    absent_if_none: ClassVar[frozenset[str]] = frozenset({"departure", "columns_left"})

    request_id: Ulid
    origin: PartyName
    kind: RequestKind
    classes: Labels = ()
    requester_kind: RequesterKind
    legal_basis_code: LegalBasis
    received_at: Minute
    due_at: Minute
    subjects_root: Hash | None
    count_bucket: Annotated[str, Field(pattern=r"^(0|1|[1-9][0-9]{0,18}-[1-9][0-9]{0,18})$")]
    departure: Departure | None = None
    columns_left: Annotated[int, Field(ge=1, lt=2**31)] | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        by_index = self.kind in (RequestKind.ROWS, RequestKind.CORRECTION)
        if by_index and (self.subjects_root is None or self.classes):
            raise ValueError("a request for rows has a root of subjects and no classes")
        if self.kind in (RequestKind.LABEL, RequestKind.LABELS_PART) and not self.classes:
            raise ValueError("a request for labels names its classes")
        leaves = self.kind is RequestKind.PARTY
        if leaves is not (self.departure is not None) or (leaves and self.classes):
            raise ValueError("a request of the kind party, and no other, names who left")
        fewer = self.kind is RequestKind.COLUMNS
        if fewer is not (self.columns_left is not None) or (fewer and self.classes):
            raise ValueError("a request of the kind columns, and no other, says how many left")
        first = int(self.count_bucket.partition("-")[0])
        if self.count_bucket != count_bucket(first):
            raise ValueError("the range of a count is 0, 1, 2-3, 4-7, 8-15 and so on")
        return self


class StatedGuarantee(JsonTable):
    """The guarantee of the method, in the vocabulary of ``Guarantee``, with its numbers.

    Attributes:
        kind: the kind of guarantee.
        epsilon: ε, and ``delta`` is δ, of a certified guarantee; else None.
        bound: bound on the distance to Retrain, of a distance-certified guarantee; else None.
    """

    kind: Guarantee
    epsilon: Number | None = None
    delta: Number | None = None
    bound: Number | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        given = (self.epsilon is not None, self.delta is not None, self.bound is not None)
        certified = self.kind is Guarantee.CERTIFIED
        if given != (certified, certified, self.kind is Guarantee.DISTANCE_CERTIFIED):
            raise ValueError(
                "epsilon and delta belong to the kind certified, and bound to distance-certified"
            )
        if any(float(each) < 0 for each in (self.epsilon, self.delta, self.bound) if each):
            raise ValueError("the numbers of a guarantee must not be negative")
        return self


class AuditResult(JsonTable):
    """A measured value beside its threshold.

    Attributes:
        name: the test, for example ``utility``.
        metric: what was measured, for example ``accuracy``.
        value: the measured value.
        relation: how the value must stand to the threshold.
        threshold: the threshold, fixed before the run.
        n: number of rows or models behind the value.
        passed: whether the value stands to the threshold as required.
    """

    name: Word
    metric: Word
    value: Number
    relation: Relation
    threshold: Number
    n: Count
    passed: bool


class Audit(JsonTable):
    """The audit after the run: its level, what this level cannot say, and the results."""

    level: AuditLevel
    cannot_say: str
    results: Annotated[tuple[AuditResult, ...], Field(max_length=256)] = ()

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.cannot_say != AUDIT_LIMITS[self.level]:
            raise ValueError("cannot_say must be the fixed sentence of the audit level")
        if self.level is AuditLevel.NONE and self.results:
            raise ValueError("the audit level none has no results")
        return self


class Destroyed(JsonTable):
    """Something that a party destroyed, and when."""

    id: Word
    kind: ArtefactKind
    destroyed_at: Minute


class Retained(JsonTable):
    """Something that a party still has, why, and until when; None if no end is fixed."""

    id: Word
    kind: ArtefactKind
    reason: RetentionReason
    until: Day | None


class Recipients(JsonTable):
    """How many recipients of the data a party has to notify of the removal (GDPR Article 19)."""

    count: Count
    notified: Count
    failed: Count

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.notified + self.failed > self.count:
            raise ValueError("more recipients were notified or failed than there are")
        return self


class PartyStatement(JsonTable):
    """What a party states about itself. No other party vouches for it.

    Attributes:
        party: the party.
        model_before: commitment to the party's part of the model before the run.
        model_after: commitment to its part after the run.
        numeric_profile: versions and settings on which the numbers depend, such as ``threads``.
        artefacts_destroyed: what the party destroyed.
        artefacts_retained: what it keeps, and why.
        art19: recipients that it has to notify; None if the party states nothing about them.
        journal_head: digest of the party's newest event in the journal of requests.
    """

    party: PartyName
    model_before: Hash
    model_after: Hash
    numeric_profile: Annotated[Profile, Field(max_length=64)]
    artefacts_destroyed: Annotated[tuple[Destroyed, ...], Field(max_length=4096)]
    artefacts_retained: Annotated[tuple[Retained, ...], Field(max_length=4096)]
    art19: Recipients | None
    journal_head: Hash


class ReceiptSignature(JsonTable):
    """A signature of the receipt."""

    party: PartyName
    key_id: KeyId
    signature: Annotated[str, Field(pattern=r"^[0-9a-f]{128}$")]


class Receipt(JsonTable):
    """What was removed, where and how, as the parties attest it.

    Attributes:
        receipt_id: ULID of the receipt.
        federation: name of the federation.
        parties: the parties, by name.
        requests: the requests that were carried out together, by ULID.
        completed_at: when the last party had completed.
        clock_anomaly: whether a clock went backwards, or clocks disagreed, during the run.
        plan_hash: digest of the agreement.
        code_version: version of the program.
        wheel_sha256: digest of the installed wheel; None for a run from a checkout.
        method: the unlearning method, and ``method_params_hash`` is the digest of its settings.
        guarantee: the guarantee of the method.
        version_before: number of the model's version before the run.
        version_after: number of the version that the run made.
        transcript_root: hash of all messages of the run.
        audit: what was measured afterwards.
        statements: what each party states about itself, by name.
        limits: the fixed sentence on what a receipt does not prove.
        prev_receipt_hash: digest of the federation's previous receipt; zeros for the first.
        signatures: the signatures, by party and key; they are not part of the digest.
    """

    type: Literal["vfl-unlearning-receipt"] = "vfl-unlearning-receipt"
    version: Literal[1] = 1
    receipt_id: Ulid
    federation: PartyName
    parties: Annotated[tuple[ReceiptParty, ...], Field(min_length=1, max_length=MAX_PARTIES)]
    requests: Annotated[tuple[ReceiptRequest, ...], Field(min_length=1, max_length=4096)]
    completed_at: Minute
    clock_anomaly: bool
    plan_hash: Hash
    code_version: Annotated[str, Field(pattern=r"^[0-9A-Za-z.+-]{1,64}$")]
    wheel_sha256: Hash | None
    method: Word
    method_params_hash: Hash
    guarantee: StatedGuarantee
    version_before: Count
    version_after: Count
    transcript_root: Hash
    audit: Audit
    statements: tuple[PartyStatement, ...]
    limits: str = LIMITS
    prev_receipt_hash: Hash
    signatures: Annotated[tuple[ReceiptSignature, ...], Field(max_length=MAX_SIGNATURES)] = ()

    @model_validator(mode="after")
    def _check(self) -> Self:
        names = [each.party for each in self.parties]
        if not _ascending(names):
            raise ValueError("the parties must be in ascending order, each once")
        if not _ascending([each.request_id for each in self.requests]):
            raise ValueError("the requests must be in ascending order, each once")
        if [each.party for each in self.statements] != names:
            raise ValueError("there must be one statement of each party, in the order of parties")
        if any(each.origin not in names for each in self.requests):
            raise ValueError("the origin of a request must be one of the parties")
        if any(each.party in names for each in self.departures):
            raise ValueError("a party that left must not be one of the parties")
        if not _ascending([f"{each.party} {each.key_id}" for each in self.signatures]):
            raise ValueError("the signatures must be in ascending order, each key once")
        if self.limits != LIMITS:
            raise ValueError("limits must be the fixed sentence on what a receipt does not prove")
        return self

    @property
    def departures(self) -> list[Departure]:
        """The parties that left, whose columns the new version does not use."""
        return [each.departure for each in self.requests if each.departure is not None]

    @property
    def columns_left(self) -> dict[str, int]:
        """How many columns left of each party that stays; the new version does not use them."""
        return {
            each.origin: each.columns_left
            for each in self.requests
            if each.columns_left is not None
        }

    @property
    def repeated_columns(self) -> list[str]:
        """The parties of which several requests say how many of their columns left."""
        owners = Counter(each.origin for each in self.requests if each.columns_left is not None)
        return sorted(name for name, count in owners.items() if count > 1)

    @property
    def overstatement(self) -> str:
        """Why the method cannot give the guarantee, as a sentence; empty if it can.

        A method that had nothing to do, because no model was trained on the rows, changes no
        parameter: then the guarantee is not that of the method. What clients state is not used: a
        client that was restored from a backup had another model before.
        """
        strongest = STRONGEST.get(self.method, Guarantee.EXACT)
        clients = {each.party for each in self.parties if each.role == "client"}
        changed = any(
            each.model_before != each.model_after
            for each in self.statements
            if each.party not in clients
        )
        if not changed or self.guarantee.kind.rank >= strongest.rank:
            return ""
        return (
            f"the guarantee {self.guarantee.kind.value} is stronger than {strongest.value}, the "
            f"strongest one of the method {self.method}, which changed the model"
        )

    @property
    def signed_content(self) -> bytes:
        """The canonical bytes without the signatures."""
        content = self.to_json()
        del content["signatures"]
        return canonical_bytes(content)

    @property
    def signing_bytes(self) -> bytes:
        """The bytes that every party signs."""
        return SIGNING_DOMAIN + self.signed_content

    @property
    def digest(self) -> str:
        """SHA-256 of the canonical bytes without the signatures: 64 hexadecimal digits."""
        return hashlib.sha256(self.signed_content).hexdigest()

    @property
    def parties_without_signature(self) -> list[str]:
        """The parties whose signature by the named key is absent; signatures are not verified."""
        present = {(each.party, each.key_id) for each in self.signatures}
        return [each.party for each in self.parties if (each.party, each.key_id) not in present]

    def encode(self) -> bytes:
        """Return the canonical bytes, as a receipt's file contains them."""
        return canonical_bytes(self.to_json())

    def contradictions(self) -> Iterator[str]:
        """Yield a sentence for each pair of fields that cannot both be true."""
        yield from self._contradictions_of_requests()
        if self.overstatement:
            yield self.overstatement
        for statement in self.statements:
            for destroyed in statement.artefacts_destroyed:
                if destroyed.destroyed_at > self.completed_at and not self.clock_anomaly:
                    yield f"{statement.party} destroyed {destroyed.id} after the completion"
        if self.version_after <= self.version_before:
            yield f"version {self.version_after} follows version {self.version_before}"
        for result in self.audit.results:
            if result.passed != _holds(result):
                yield f"the audit result {result.name} ({result.metric}) has a wrong verdict"

    def _contradictions_of_requests(self) -> Iterator[str]:
        for each in self.requests:
            where = f"request {each.request_id}"
            if each.due_at < each.received_at:
                yield f"{where} was due before it was received"
            if self.completed_at < each.received_at and not self.clock_anomaly:
                yield f"{where} was completed before it was received, without a clock anomaly"
        for name in self.repeated_columns:
            yield f"{name} states more than once how many of its columns left"


def _holds(result: AuditResult) -> bool:
    value, threshold = float(result.value), float(result.threshold)
    return value <= threshold if result.relation is Relation.AT_MOST else value >= threshold


def count_bucket(count: int) -> str:
    """Return the range between powers of two that contains ``count``: 0, 1, 2-3, 4-7, 8-15, ….

    A receipt gives this range and not the exact number.
    """
    if count < 2:
        return str(count)
    low = 1 << (count.bit_length() - 1)
    return f"{low}-{2 * low - 1}"


def decode_receipt(data: bytes) -> Receipt:
    """Return the receipt in ``data``. Signatures and contradictions are not checked.

    Raises:
        CanonicalError: ``data`` is not canonical JSON.
        UnknownVersion: the receipt has another version than 1.
        ReceiptError: the JSON object is no receipt.
    """
    value = read_canonical(data, "the receipt")
    if not isinstance(value, dict) or value.get("type") != "vfl-unlearning-receipt":
        raise ReceiptError("the file is no unlearning receipt", "give the file <request id>.json")
    if value.get("version") != 1:
        raise UnknownVersion(
            f"the receipt has version {value.get('version')!r}, and this program knows version 1",
            "use a newer vfl-verify",
        )
    receipt = table_of(Receipt, value, "the receipt")
    if receipt.encode() != data:
        raise ReceiptError("the receipt is malformed: a field is missing")
    return receipt


def sign_receipt(
    receipt: Receipt,
    key: PartyKey,
    statement: PartyStatement,
    previous: str,
    sign: Callable[[bytes], bytes],
) -> ReceiptSignature:
    """Return a party's signature, after the party has checked what it signs.

    Args:
        receipt: the receipt that a peer sent.
        key: the party's own key, whose private part ``sign`` uses.
        statement: what the party states about itself.
        previous: digest of the newest receipt that the party signed; ``NO_HASH`` if there is none.
        sign: returns the Ed25519 signature of its argument.

    Raises:
        ReceiptError: the receipt contradicts itself, has another statement of this party, does not
            follow the previous receipt, or does not name the party with this key.
    """
    who = f"receipt {receipt.receipt_id}"
    if found := next(receipt.contradictions(), None):
        raise ReceiptError(f"{who} contradicts itself: {found}")
    named = (key.party, key.key_id, key.spki_sha256)
    if named not in [(each.party, each.key_id, each.spki_sha256) for each in receipt.parties]:
        raise ReceiptError(f"{who} does not name {key.party} with key {key.key_id}")
    if statement not in receipt.statements or statement.party != key.party:
        raise ReceiptError(f"{who} changes the statement that {key.party} made about itself")
    if receipt.prev_receipt_hash != previous:
        raise ReceiptError(
            f"{who} follows receipt {receipt.prev_receipt_hash[:16]}…, but the newest receipt that "
            f"{key.party} signed is {previous[:16]}…",
            "the parties must sign their receipts in one order",
        )
    signature = sign(receipt.signing_bytes)
    return ReceiptSignature(party=key.party, key_id=key.key_id, signature=signature.hex())


def with_signatures(receipt: Receipt, signatures: Iterable[ReceiptSignature]) -> Receipt:
    """Return the receipt with further signatures.

    Raises:
        ReceiptError: a key has signed before with another signature.
    """
    by_key = {(each.party, each.key_id): each for each in receipt.signatures}
    for each in signatures:
        if by_key.setdefault((each.party, each.key_id), each) != each:
            raise ReceiptError(f"{each.party} sent two different signatures of one receipt")
    ordered: list[Any] = [by_key[name].to_json() for name in sorted(by_key)]
    return table_of(Receipt, receipt.to_json() | {"signatures": ordered}, "the receipt")
