"""The page of a receipt: dated HTML for a privacy officer and a data subject, without scripts.

Jinja escapes every text on the page. A page shows signatures but does not verify them, so the page
names the command that does.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from unlearning.guarantee import Guarantee
from unlearning.receipts.journal_export import Departure
from unlearning.receipts.receipt import (
    NO_HASH,
    ArtefactKind,
    AuditLevel,
    LegalBasis,
    Receipt,
    ReceiptRequest,
    RequesterKind,
    RequestKind,
    RetentionReason,
    StatedGuarantee,
)
from unlearning.receipts.table import minute_text

_REQUESTERS = {
    RequesterKind.SUBJECT: "the person whose data it is",
    RequesterKind.REPRESENTATIVE: "a representative of the person whose data it is",
    RequesterKind.CONTROLLER: "the organisation itself",
    RequesterKind.COURT: "a court or an authority",
}
_BASES = {
    LegalBasis.NOT_NEEDED: "The data are no longer needed (GDPR Article 17(1)(a)).",
    LegalBasis.CONSENT_WITHDRAWN: "Consent was withdrawn (GDPR Article 17(1)(b)).",
    LegalBasis.OBJECTION: "There was an objection to the processing (GDPR Article 17(1)(c)).",
    LegalBasis.UNLAWFUL: "The processing was unlawful (GDPR Article 17(1)(d)).",
    LegalBasis.LEGAL_OBLIGATION: "A law requires the erasure (GDPR Article 17(1)(e)).",
    LegalBasis.CHILD: "The data were collected from a child (GDPR Article 17(1)(f)).",
    LegalBasis.RECTIFICATION: "The data were inaccurate (GDPR Article 16).",
    LegalBasis.CONTRACT: "A contract requires the removal.",
    LegalBasis.OTHER_LAW: "Another law requires the removal.",
    LegalBasis.NOT_STATED: "No legal basis was stated.",
}
_GUARANTEES = {
    Guarantee.EXACT: (
        "Exact: the method gives a model that is bit-equal to one trained without the rows."
    ),
    Guarantee.CERTIFIED: (
        "Certified with ε = {epsilon} and δ = {delta}: under the assumptions of the method, the "
        "model cannot be told apart from one that was trained without the rows, up to ε and δ."
    ),
    Guarantee.DISTANCE_CERTIFIED: (
        "Distance-certified: the parameters differ by at most {bound} from those of a model that "
        "was trained without the rows."
    ),
    Guarantee.AUDITED: "Audited: strong attacks found no trace of the rows, at a stated power.",
    Guarantee.KKT_REPORT: (
        "KKT report: the receipt states how well an optimisation problem was solved, and not that "
        "the rows were forgotten."
    ),
    Guarantee.HEURISTIC: "Heuristic: there are measurements, but no proof.",
}
_ARTEFACTS = {
    ArtefactKind.MODEL: "model",
    ArtefactKind.CHECKPOINT: "checkpoint",
    ArtefactKind.CODES: "codes of rows",
    ArtefactKind.EMBEDDINGS: "embeddings",
    ArtefactKind.PREDICTIONS: "predictions",
    ArtefactKind.SOURCE_DATA: "source data",
    ArtefactKind.BACKUP: "backup",
    ArtefactKind.FORGOTTEN_LIST: "list of forgotten IDs, under a key",
    ArtefactKind.JOURNAL: "journal of requests",
}
_REASONS = {
    RetentionReason.REPLAY_WINDOW: "The run can be repeated and compared in the agreed time.",
    RetentionReason.PREVENT_RETURN: "It prevents that removed data come back.",
    RetentionReason.PROOF: "It proves that the request was carried out.",
    RetentionReason.OTHER_PURPOSE: "The organisation may use the data for another purpose.",
    RetentionReason.LEGAL_DUTY: "A law requires that it is kept.",
    RetentionReason.BACKUP_CYCLE: "It disappears when the backup is overwritten.",
}
_AUDITS = {
    AuditLevel.NONE: "No measurement was made after the removal.",
    AuditLevel.QUICK: "A quick audit was made after the removal.",
    AuditLevel.FULL: "A full audit was made after the removal.",
}


class NotificationResult(StrEnum):
    """Result of notifying a recipient of the data about the removal (GDPR Article 19)."""

    OPEN = "open"
    NOTIFIED = "notified"
    FAILED = "failed"  # the notification is impossible, or a disproportionate effort


@dataclass(frozen=True, slots=True)
class DataRecipient:
    """A recipient to whom this party had disclosed the data; no other party learns the name.

    Attributes:
        name: name of the recipient.
        result: result of the notification.
        day: day of the result, for example ``2027-03-02``; empty while it is open.
        reason: why the notification failed; otherwise empty.
    """

    name: str
    result: NotificationResult = NotificationResult.OPEN
    day: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Notifications:
    """Whom one party has informed that a request was carried out.

    Attributes:
        recipients: the recipients of the data.
        informed: day on which the requester was informed (GDPR Article 12(3)); empty before.
    """

    recipients: tuple[DataRecipient, ...] = ()
    informed: str = ""

    def count(self, result: NotificationResult) -> int:
        """Return the number of recipients with this result."""
        return sum(each.result is result for each in self.recipients)


def receipt_page(
    receipt: Receipt,
    made_at: datetime,
    party: str = "",
    notified: Mapping[str, Notifications] | None = None,
    later: Sequence[Departure] = (),
) -> str:
    """Return the page of a receipt.

    Args:
        receipt: the receipt, with the signatures that exist.
        made_at: when the page is made.
        party: the party whose page it is; empty for a page without private parts.
        notified: whom this party has informed, by the ID of the request.
        later: statements of parties that left, which arrived after the receipt was made.

    Raises:
        ReceiptError: ``made_at`` has no time zone.
    """
    names = [each.party for each in receipt.parties]
    return (
        _templates()
        .get_template("receipt.html")
        .render(
            receipt=receipt,
            names=_joined(names),
            made_at=minute_text(made_at),
            party=party,
            notified=notified or {},
            requests=[(each, _removed(each, receipt.version_after)) for each in receipt.requests],
            departures=_departures(receipt, later),
            left=_joined([each.party for each in receipt.departures]),
            columns=_joined([_columns(*each) for each in receipt.columns_left.items()]),
            guarantee=_guarantee(receipt),
            audit=_AUDITS[receipt.audit.level],
            unsigned=receipt.parties_without_signature,
            first=receipt.prev_receipt_hash == NO_HASH,
            corrects=all(each.kind is RequestKind.CORRECTION for each in receipt.requests),
        )
    )


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        minute=_minute,
        day=_day,
        artefact=lambda kind: _ARTEFACTS[ArtefactKind(kind)],
        second=lambda text: _minute(f"{text[:16]}Z"),
        reason=_REASONS.__getitem__,
        basis=_BASES.__getitem__,
        requester=_REQUESTERS.__getitem__,
    )
    return environment


def _minute(text: str) -> str:
    moment = datetime.strptime(text, "%Y-%m-%dT%H:%MZ")
    return f"{moment.day} {moment:%B %Y, %H:%M} UTC"


def _day(text: str | None) -> str:
    if not text:
        return "no end is fixed"
    moment = datetime.strptime(text, "%Y-%m-%d")
    return f"{moment.day} {moment:%B %Y}"


def _departures(receipt: Receipt, later: Sequence[Departure]) -> list[tuple[Departure, bool]]:
    """The parties that left, each with whether its statement arrived after the receipt."""
    arrived = {each.party: each for each in later}
    return [
        (arrived[each.party], True)
        if each.statement is None and each.party in arrived
        else (each, False)
        for each in receipt.departures
    ]


def _removed(request: ReceiptRequest, version: int) -> str:
    """What a request removed, as a sentence; ``version``: number of the new version."""
    if request.departure is not None:
        return (
            f"The columns of {request.departure.party}, which left: version {version} of the model "
            "was trained without them, from new weights. No parameter of an earlier version was "
            "used."
        )
    if request.columns_left is not None:
        columns = _columns(request.origin, request.columns_left)
        return (
            f"{columns}, as {request.origin} states; no other organisation knows its columns. "
            f"Version {version} of the model was trained without them, from new weights. No "
            "parameter of an earlier version was used."
        )
    count = request.count_bucket.replace("-", " to ")
    rows = "1 row" if count == "1" else f"{count} rows"
    if request.kind is RequestKind.ROWS:
        return f"Of the persons that the request names, {rows} were in the model."
    if request.kind is RequestKind.CORRECTION:
        return f"The labels of {rows} in the model were replaced; the rows stay in the model."
    if request.kind is RequestKind.CLIENT:
        named = f" with the label {_joined(request.classes)}" if request.classes else ""
        return f"Rows{named} of the client {request.origin} had to be removed: {rows}."
    whole = "All rows" if request.kind is RequestKind.LABEL else "A part of the rows"
    labels = _joined(request.classes)
    return f"{whole} with the label {labels} had to be removed; {rows} were in the model."


def _columns(name: str, count: int) -> str:
    return f"1 column of {name}" if count == 1 else f"{count} columns of {name}"


def _guarantee(receipt: Receipt) -> str:
    stated: StatedGuarantee = receipt.guarantee
    trained = receipt.departures or receipt.columns_left
    if trained and stated.kind is Guarantee.EXACT:
        return "Exact: the model was trained without the columns, and from new weights."
    return _GUARANTEES[stated.kind].format(
        epsilon=stated.epsilon, delta=stated.delta, bound=stated.bound
    )


def _joined(names: Sequence[str]) -> str:
    *first, last = names or [""]
    return f"{', '.join(first)} and {last}" if first else last
