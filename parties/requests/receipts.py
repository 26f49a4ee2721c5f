"""Receipts of a party: built from the journal, so that all parties build the same bytes.

A batch of requests has one receipt. Its ID is that of the first request.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Final, Literal, cast

from parties.common.atomic_file import make_folder, write_atomically
from parties.common.errors import IntegrityError
from parties.requests.events import (
    CompletedBody,
    Event,
    EventKind,
    IntroducedBody,
    LeftBody,
    RequestedBody,
    SignedBody,
    StartedBody,
    StatedBody,
    VerifiedBody,
    parse_time,
)
from parties.requests.lifecycle import CARRIED_OUT, RequestView
from unlearning.guarantee import Guarantee
from unlearning.receipts.canonical import MAX_INTEGER, canonical_bytes
from unlearning.receipts.errors import ReceiptError
from unlearning.receipts.journal_export import Departure
from unlearning.receipts.keys import PartyKey, TrustedKey, TrustFile
from unlearning.receipts.page import Notifications, receipt_page
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
    ReceiptSignature,
    Relation,
    RequesterKind,
    RequestKind,
    Retained,
    RetentionReason,
    StatedGuarantee,
    count_bucket,
    decode_receipt,
    with_signatures,
)
from unlearning.receipts.table import minute_text, table_of

FOLDER: Final = "receipts"
TRUST: Final = "trust.json"
_VERSION: Final = re.compile("[0-9A-Za-z.+-]{1,64}")  # as a receipt names the program
Role = Literal["active", "passive", "server", "client"]
# Figures of utility beside those of Retrains: name in the journal, and metric of the receipt.
_COMPARED: Final = (
    ("test", "loss-of-test-accuracy-against-retrains"),
    ("test_r2", "loss-of-test-r2-against-retrains"),
    ("retained_probability", "loss-of-retained-answer-probability-against-retrains"),
)
# Figures of utility: name in the journal, metric of the receipt, and name of the number of rows.
_UTILITY: Final = (
    ("validation", "loss-of-validation-accuracy", "validation_rows"),
    ("validation_r2", "loss-of-validation-r2", "validation_rows"),
    (
        "retained_probability",
        "loss-of-retained-answer-probability",
        "retained_probability_rows",
    ),
)
# Distances from the Retrains: name in the journal, and metric of the receipt.
_DISTANCES: Final = {
    "js_ratio": "distance-from-retrains-on-forgotten-rows",
    "difference_ratio": "difference-from-retrains-on-forgotten-rows",
    "odds_ratio": "log-odds-distance-from-retrains-on-forgotten-rows",
}
# Events that count only if the hub made them.
_OF_HUB: Final = (StartedBody, VerifiedBody, CompletedBody)
# Events that a party still makes after it has left.
_AFTER_LEAVING: Final = (EventKind.NOTIFIED, EventKind.PURGED)


@dataclass(frozen=True, slots=True)
class Federation:
    """What receipts say about the federation, from the agreement."""

    name: str
    roles: Mapping[str, Role]  # role of each party
    plan_hash: str  # digest of the agreement
    params_hash: str  # digest of the settings of the unlearning method
    guard: float  # largest loss of accuracy on validation rows

    @property
    def hub(self) -> str:
        """The party that carries out requests: the active party or the server."""
        return next(name for name, role in self.roles.items() if role in ("active", "server"))


def build_receipt(
    federation: Federation,
    view: RequestView,
    views: Mapping[str, RequestView],
    events: Sequence[Event],
    keys: Mapping[str, str],
) -> Receipt | None:
    """Build the receipt of the batch of ``view``; None if a party has not stated its part yet.

    None also if the agreement named other parties at that time.

    Args:
        federation: what receipts say about the federation.
        view: a verified request of the batch.
        views: all requests, by ID.
        events: all events of the journal.
        keys: public key of each party, 64 hexadecimal digits.
    """
    events = _that_count(events, federation.hub)
    batch = [views[each] for each in view.batch]
    version = view.version_after
    stated = _statements(events, batch, version)
    same = all(each.version_after == version for each in batch)
    if version is None or stated.keys() != set(federation.roles) or not same:
        return None
    completed_at = max(event.time for event in stated.values())
    return Receipt(
        receipt_id=min(view.batch),
        federation=federation.name,
        parties=tuple(
            _party(name, federation.roles[name], keys[name]) for name in sorted(federation.roles)
        ),
        requests=tuple(_request(each, events) for each in sorted(batch, key=lambda each: each.id)),
        completed_at=_minute(completed_at),
        clock_anomaly=any(each.clock_anomaly for each in batch),
        plan_hash=federation.plan_hash,
        code_version=_code_version(cast(StatedBody, each.body) for each in stated.values()),
        wheel_sha256=None,
        method=view.method,
        method_params_hash=_settings_hash(federation, view),
        guarantee=_guarantee(events, view),
        version_before=view.version_before or 0,
        version_after=version,
        transcript_root=_root(
            cast(StatedBody, stated[name].body).transcript for name in sorted(stated)
        ),
        audit=_audit(events, view, federation.guard),
        statements=tuple(_statement(name, stated[name], batch) for name in sorted(stated)),
        prev_receipt_hash=_previous(events, view),
    )


def signed_receipt(receipt: Receipt, events: Iterable[Event], keys: Mapping[str, str]) -> Receipt:
    """Return the receipt with all signatures that the journal has."""
    found = {
        event.origin: event.body.signature
        for event in events
        if isinstance(event.body, SignedBody)
        and event.request == receipt.receipt_id
        and event.body.receipt == receipt.digest
    }
    signatures = [
        ReceiptSignature(
            party=name, key_id=PartyKey(name, bytes.fromhex(keys[name])).key_id, signature=each
        )
        for name, each in sorted(found.items())
    ]
    return with_signatures(receipt, signatures)


def write_receipt(folder: Path, receipt: Receipt) -> Path:
    """Write a receipt into the folder of receipts; return its path.

    An equal receipt stays. The file of an earlier receipt is never replaced by another content.

    Raises:
        IntegrityError: another receipt with this ID exists.
        StorageError: the file cannot be written.
    """
    make_folder(folder)
    path = folder / f"{receipt.receipt_id}.json"
    content = receipt.encode()
    if path.exists():
        if path.read_bytes() != content:
            raise IntegrityError(
                f"{path} contains another receipt", "keep it, and move it to another folder"
            )
        return path
    write_atomically(path, content)
    return path


def lost_receipt(view: RequestView, party: str) -> tuple[str, str]:
    """What to say of a receipt whose file is lost, and what to do: a message and a hint.

    Args:
        view: a certified request of the batch.
        party: the party that lost the file.
    """
    name = f"{min(view.batch)}.json"
    others = sorted(view.signatures - {party})
    return (
        f"the file {name} of a receipt is lost, and cannot be written again from the journal: "
        "the agreement, or the key of a party, is another one than at that time",
        f"copy {FOLDER}/{name} from the folder of {' or '.join([*others, 'a backup'])}: it has the "
        "same bytes; vfl unlearn receipt checks it",
    )


def set_aside(folder: Path, name: str, digest: str) -> None:
    """Rename the receipt ``name`` and its page if it is an earlier one than that of ``digest``.

    Raises:
        IntegrityError: the file of the receipt is damaged.
    """
    path = folder / f"{name}.json"
    found = read_receipt(path).digest if path.exists() else digest
    if found != digest:
        for each in (path.with_suffix(".html"), path):
            if each.exists():
                each.rename(each.with_stem(f"{name} {found[:8]}"))


def read_receipt(path: Path) -> Receipt:
    """Read the file of a receipt of this party.

    Raises:
        IntegrityError: the file is damaged.
    """
    try:
        return decode_receipt(path.read_bytes())
    except ReceiptError as error:
        raise IntegrityError(
            f"{path} is not valid: {error}",
            "remove the file, and start vfl serve: it writes the receipt again, or says from which "
            "party to copy it",
        ) from error


def write_page(
    folder: Path,
    receipt: Receipt,
    party: str,
    now: datetime,
    notified: Mapping[str, Notifications],
    later: Sequence[Departure],
) -> Path:
    """Write the page of a receipt, in place of an earlier page; return its path.

    Args:
        folder: the folder of receipts.
        receipt: the receipt.
        party: the party whose page it is.
        now: the present time.
        notified: whom the party has informed, by the ID of the request.
        later: statements of parties that left, which arrived after the receipt was made.

    Raises:
        StorageError: the file cannot be written.
    """
    make_folder(folder)
    path = folder / f"{receipt.receipt_id}.html"
    write_atomically(path, receipt_page(receipt, now, party, notified, later).encode())
    return path


def write_trust(
    folder: Path,
    federation: str,
    keys: Mapping[str, str],
    left: Mapping[str, int],
    events: Iterable[Event] = (),
    views: Sequence[RequestView] = (),
) -> None:
    """Write ``trust.json``, the public keys of all parties, with which receipts are verified.

    Compare the keys with those of the other parties over another channel before you rely on them.

    Args:
        folder: the folder of receipts.
        federation: name of the federation.
        keys: newest public key of each party, 64 hexadecimal digits.
        left: number of the first version without it, by party that left.
        events: all events of the journal, with the earlier keys that verify earlier receipts.
        views: all requests, which say since when a party signs their receipts.

    Raises:
        StorageError: the file cannot be written.
    """
    events = [*events]
    introduced = _introduced(events)
    since = {name: _since(name, events, views, left.get(name, MAX_INTEGER)) for name in keys}
    listed = tuple(
        TrustedKey(party=name, public_key=each, until=left.get(name), since=since[name])
        for name in sorted(keys)
        for each in dict.fromkeys([*introduced.get(name, ()), keys[name]])
    )
    content = canonical_bytes(TrustFile(federation=federation, keys=listed).to_json())
    make_folder(folder)
    write_atomically(folder / TRUST, content)


def _introduced(events: Iterable[Event]) -> dict[str, list[str]]:
    """Return the keys that each party has introduced, the oldest one first."""
    found: dict[str, list[str]] = {}
    for event in sorted(events, key=lambda each: each.seq):
        if isinstance(event.body, IntroducedBody):
            found.setdefault(event.origin, []).append(event.body.key)
    return found


def _since(
    name: str, events: Iterable[Event], views: Iterable[RequestView], until: int
) -> int | None:
    """Return the first version whose receipt a party signs; None if it has signed all receipts.

    Only versions before ``until`` count, the first one without the party.
    """
    own = {each.request for each in events if each.origin == name and each.kind is EventKind.SIGNED}
    made = {each.id: each.first_version or 0 for each in views if each.state in CARRIED_OUT}
    without = max((at for each, at in made.items() if each not in own and at < until), default=None)
    if without is None:
        return None
    later = [at for each, at in made.items() if each in own and at > without]
    return min(later, default=without + 1)


def left_parties(views: Iterable[RequestView], present: Iterable[str]) -> dict[str, int]:
    """Return the number of the first version without it, by party that left for good.

    Args:
        views: all requests.
        present: the parties of the agreement, some of which may have left and joined again.
    """
    return {
        str(each.content.party): each.version_after
        for each in views
        if each.content.party is not None
        and each.content.party not in {*present}
        and each.version_after is not None
    }


def departure_of(name: str, events: Iterable[Event], version: int) -> Departure:
    """Return what a party that left has stated, by its ``events``.

    A statement does not count if the party has taken part in requests again after it, or if it is
    from before ``version``, the newest version with the party: it then is of an earlier departure.
    """
    own = [each for each in events if each.origin == name and each.kind not in _AFTER_LEAVING]
    newest = max(own, key=lambda each: each.seq, default=None)
    body = None if newest is None else newest.body
    left = isinstance(body, LeftBody) and body.version >= version
    statement = json.loads(newest.encode()) if newest is not None and left else None
    return table_of(Departure, {"party": name, "statement": statement}, f"the statement of {name}")


def params_hash(settings: str) -> str:
    """SHA-256 of the settings of a method, as canonical JSON: 64 hexadecimal digits."""
    return sha256(settings.encode()).hexdigest()


def _that_count(events: Iterable[Event], hub: str) -> list[Event]:
    """Return the events without those of other parties that only the ``hub`` makes."""
    return [each for each in events if each.origin == hub or not isinstance(each.body, _OF_HUB)]


def _statements(
    events: Iterable[Event], batch: Sequence[RequestView], version: int | None
) -> dict[str, Event]:
    """The last statement of each party that has made one for every request of the batch."""
    found: dict[str, dict[str, Event]] = {}
    names = {each.id for each in batch}
    for event in events:
        if (
            isinstance(event.body, StatedBody)
            and event.body.version == version
            and event.request in names
        ):
            found.setdefault(event.origin, {})[event.request] = event
    return {
        name: max(each.values(), key=lambda event: event.seq)
        for name, each in found.items()
        if each.keys() == names
    }


def _code_version(stated: Iterable[StatedBody]) -> str:
    """The oldest version of the program that a party states; ``unknown`` if none states one.

    Every party knows the statements, so that parties with different versions make equal receipts.
    """
    found = {each.profile.get("vfl", "") for each in stated}
    valid = [each for each in found if _VERSION.fullmatch(each)]
    return min(valid, key=_age, default="unknown")


def _age(version: str) -> tuple[list[int], str]:
    """What orders versions: their numbers, then their text."""
    return [int(each) for each in re.findall("[0-9]+", version)], version


def _party(name: str, role: Role, key: str) -> ReceiptParty:
    own = PartyKey(name, bytes.fromhex(key))
    return ReceiptParty(party=name, role=role, key_id=own.key_id, spki_sha256=own.spki_sha256)


def _departure(view: RequestView, events: Iterable[Event]) -> Departure | None:
    """The party that left by a request, with the statement that the hub had at the start.

    So all parties make the same receipt, whenever the statement reaches them.
    """
    name = view.content.party
    if name is None:
        return None
    start = _last_start(view, events)
    last = cast(StartedBody, start.body).seen.get(name, 0)
    known = (each for each in events if each.seq <= last)
    return departure_of(name, known, view.version_before or 0)


def _last_start(view: RequestView, events: Iterable[Event]) -> Event:
    """The last event that starts to carry out a request."""
    starts = [
        each for each in events if isinstance(each.body, StartedBody) and each.request == view.id
    ]
    return max(starts, key=lambda each: each.seq)


def _request(view: RequestView, events: Sequence[Event]) -> ReceiptRequest:
    content: RequestedBody = view.content
    known = {each.value for each in LegalBasis}
    basis = content.ground if content.ground in known else LegalBasis.OTHER_LAW.value
    return ReceiptRequest(
        request_id=view.id,
        origin=view.origin,
        kind=RequestKind(content.kind),
        classes=tuple(sorted(content.classes)),
        requester_kind=RequesterKind(content.requester_kind),
        legal_basis_code=LegalBasis(basis),
        received_at=minute_text(view.received_at),
        due_at=minute_text(view.due_at),
        subjects_root=content.subjects_root,
        count_bucket=count_bucket(len(view.rows or ()) if view.count is None else view.count),
        departure=_departure(view, events),
        columns_left=content.columns,
    )


def _settings_hash(federation: Federation, view: RequestView) -> str:
    """Digest of the settings of the method; a training has those of the whole agreement."""
    return federation.plan_hash if view.content.by_training else federation.params_hash


def _statement(name: str, event: Event, batch: Iterable[RequestView]) -> PartyStatement:
    """The statement of a party; only a request that forgets rows extends the forgotten list."""
    body, time = cast(StatedBody, event.body), _minute(event.time)
    forgets = any(not each.corrects and not each.content.by_training for each in batch)
    listed = Retained(
        id="forgotten-list",
        kind=ArtefactKind.FORGOTTEN_LIST,
        reason=RetentionReason.PREVENT_RETURN,
        until=None,
    )
    return PartyStatement(
        party=name,
        model_before=body.before,
        model_after=body.after,
        numeric_profile=body.profile,
        artefacts_destroyed=tuple(
            Destroyed(id=each.id, kind=ArtefactKind(each.kind), destroyed_at=time)
            for each in body.destroyed
        ),
        artefacts_retained=(
            Retained(
                id="source-data",
                kind=ArtefactKind.SOURCE_DATA,
                reason=RetentionReason.OTHER_PURPOSE,
                until=None,
            ),
            *(
                Retained(
                    id=each.id,
                    kind=ArtefactKind(each.kind),
                    reason=RetentionReason.OTHER_PURPOSE
                    if each.until is None
                    else RetentionReason.REPLAY_WINDOW,
                    until=each.until,
                )
                for each in body.keeps
            ),
            *([listed] if forgets else []),
            Retained(
                id="journal", kind=ArtefactKind.JOURNAL, reason=RetentionReason.PROOF, until=None
            ),
        ),
        art19=None,
        journal_head=event.digest,
    )


def joined_figures(figures: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Return the figures of all parts of a batch: before the first part, and after the last one."""
    found: dict[str, str] = {}
    for part in figures:
        known = {name for name in part if name in found and not name.endswith("_after")}
        found |= {name: value for name, value in part.items() if name not in known}
    return found


def receipt_figures(figures: Mapping[str, str], *, with_tests: bool) -> dict[str, str]:
    """Return what a receipt needs of the figures of a batch, for the journal of all parties.

    The receipt has differences of accuracies, so an accuracy is given minus that of the new model.
    From the accuracies themselves, a party that names a row in a request could compute whether the
    model predicts the label of this row.

    Args:
        figures: all figures of the batch.
        with_tests: whether figures of test rows are included.
    """
    pairs = [(f"{name}_before", f"{name}_after", rows) for name, _, rows in _UTILITY]
    compared = [name for name, _ in _COMPARED if with_tests or not name.startswith("test")]
    pairs += [(f"{name}_retrain", f"{name}_after", "retrains") for name in compared]
    found = dict[str, str]()
    for first, after, count in pairs:
        if {first, after, count} <= figures.keys():
            difference = float(figures[first]) - float(figures[after])
            found |= {first: f"{difference:.4f}", after: "0.0000", count: figures[count]}
    kept = {"retrains", *_DISTANCES, *(f"{name}_limit" for name in _DISTANCES)}
    return found | {name: value for name, value in figures.items() if name in kept}


def stated_guarantee(kind: str, numbers: Mapping[str, str | None]) -> StatedGuarantee:
    """Return a guarantee with its numbers; heuristic if they are not those of its kind.

    So no certificate is claimed without its numbers.

    Args:
        kind: a value of ``Guarantee``.
        numbers: by name, ``epsilon`` and ``delta``, or ``bound``.
    """
    try:
        return StatedGuarantee(kind=Guarantee(kind), **numbers)
    except ValueError:  # also that of pydantic
        return StatedGuarantee(kind=Guarantee.HEURISTIC)


def _guarantee(events: Iterable[Event], view: RequestView) -> StatedGuarantee:
    verified = _verified(events, view)
    return stated_guarantee(
        verified.guarantee,
        {"epsilon": verified.epsilon, "delta": verified.delta, "bound": verified.bound},
    )


def _audit(events: Iterable[Event], view: RequestView, guard: float) -> Audit:
    verified = _verified(events, view)
    level = AuditLevel(verified.level)
    figures = verified.audit
    results = []
    for name, metric, rows in _UTILITY:
        if not {f"{name}_before", f"{name}_after"} <= figures.keys():
            continue
        lost = float(figures[f"{name}_before"]) - float(figures[f"{name}_after"])
        results.append(
            AuditResult(
                name="utility",
                metric=metric,
                value=f"{lost:.4f}",
                relation=Relation.AT_MOST,
                threshold=f"{guard:.4f}",
                n=int(figures[rows]),
                passed=float(f"{lost:.4f}") <= float(f"{guard:.4f}"),
            )
        )
    results += _comparison(figures, guard)
    return Audit(level=level, cannot_say=AUDIT_LIMITS[level], results=tuple(results))


def _comparison(figures: Mapping[str, str], guard: float) -> Iterator[AuditResult]:
    """The results of a comparison with Retrains; none without a comparison."""
    for name, metric in _COMPARED:
        if not {f"{name}_retrain", f"{name}_after"} <= figures.keys():
            continue
        lost = float(figures[f"{name}_retrain"]) - float(figures[f"{name}_after"])
        yield AuditResult(
            name="comparison",
            metric=metric,
            value=f"{lost:.4f}",
            relation=Relation.AT_MOST,
            threshold=f"{guard:.4f}",
            n=int(figures["retrains"]),
            passed=float(f"{lost:.4f}") <= float(f"{guard:.4f}"),
        )
    for name, metric in _DISTANCES.items():
        if not {name, f"{name}_limit"} <= figures.keys():
            continue
        yield AuditResult(
            name="comparison",
            metric=metric,
            value=figures[name],
            relation=Relation.AT_MOST,
            threshold=figures[f"{name}_limit"],
            n=int(figures["retrains"]),
            passed=float(figures[name]) <= float(figures[f"{name}_limit"]),
        )


def _verified(events: Iterable[Event], view: RequestView) -> VerifiedBody:
    return next(
        event.body
        for event in events
        if isinstance(event.body, VerifiedBody)
        and event.request == view.id
        and event.body.version == view.version_after
    )


def _previous(events: Iterable[Event], view: RequestView) -> str:
    """Digest of the receipt that the hub completed before that of ``view``."""
    events = [*events]
    found, started = NO_HASH, _last_start(view, events).seq
    for event in sorted(events, key=lambda each: each.seq):
        if isinstance(event.body, CompletedBody):
            if event.request in view.batch and event.seq > started:
                break
            found = event.body.receipt
    return found


def _root(parts: Iterable[str]) -> str:
    return sha256("".join(parts).encode()).hexdigest()


def _minute(time: str) -> str:
    return minute_text(parse_time(time))
