"""Commands of a person about a recorded request, such as approve, withdraw and purge."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from parties.cli.console import Console
from parties.cli.requests.place import Place, acting_person, read_vertical, vertical_desk
from parties.cli.requests.showing import print_state
from parties.cli.requests.views import own_view, past_retention, recorded_view, view_of
from parties.common.errors import PolicyError
from parties.data.id_lists import list_of_ids
from parties.data.requested_ids import id_columns
from parties.requests.events import (
    DecisionBody,
    Event,
    EventKind,
    ExtendedBody,
    event_time,
    parse_time,
)
from parties.requests.lifecycle import (
    BEFORE_START,
    CARRIED_OUT,
    UNDECIDED,
    RequestView,
    in_order,
    latest_extension,
)
from parties.requests.local_desk import LocalDesk
from parties.requests.persons import PersonKey, PersonRole, decision_message
from parties.session.setup import StartOptions
from parties.vertical.offline.local_desk import read_rows


def decide(
    local: LocalDesk,
    kind: EventKind,
    request: str,
    reason: str,
    key: Path | None,
    console: Console,
) -> None:
    """Approve or reject a request for this party.

    Raises:
        PolicyError: the request is decided already, or this person may not decide.
    """
    view, party = view_of(local, request), local.party.name
    person = acting_person(local, key, PersonRole.APPROVER)
    decided = party in view.approvals | view.rejected_by
    if decided or view.state not in UNDECIDED:
        raise PolicyError(
            f"{party} cannot decide about the request {view.id}: it is {view.state.value}"
            + (f", and {party} has decided already" if decided else ""),
            "the first decision of a party stands; its requester can withdraw a request before it "
            "is carried out",
        )
    if kind is EventKind.APPROVED:
        _refuse_same_person(local, view, person)
    _append_decision(local, kind, view, reason, person)
    print_state(local, view.id, kind.value, console)


def withdraw(
    local: LocalDesk, request: str, reason: str, key: Path | None, console: Console
) -> None:
    """Withdraw a request of this party.

    Raises:
        PolicyError: another party made the request, or it is being carried out.
    """
    view = own_view(local, request)
    person = acting_person(local, key, PersonRole.REQUESTER)
    if view.state not in BEFORE_START:
        raise PolicyError(
            f"the request {view.id} is {view.state.value} and cannot be withdrawn",
            "a request can be withdrawn until it is carried out",
        )
    _append_decision(local, EventKind.WITHDRAWN, view, reason, person)
    print_state(local, view.id, "withdrawn", console)


def extend(
    local: LocalDesk,
    request: str,
    dates: tuple[datetime, datetime],
    reason: str,
    key: Path | None,
    console: Console,
) -> None:
    """Move the due date of a request of this party.

    Args:
        local: the requests of the party.
        request: ID of the request.
        dates: the new due date, and the day on which the requester was informed.
        reason: the reason.
        key: file with the key of the person who acts.
        console: prints the result.

    Raises:
        PolicyError: the request has ended, is due already, or the new date is too late.
    """
    view = own_view(local, request)
    acting_person(local, key, PersonRole.REQUESTER)
    first, until = parse_time(view.content.due_at), dates[0].replace(tzinfo=UTC)
    latest = latest_extension(view.received_at, first)
    if not view.open or local.party.now() > first:
        raise PolicyError(
            f"the due date of the request {view.id} cannot be moved: the request is "
            f"{view.state.value} and was due on {first:%Y-%m-%d}",
            "the due date of an open request can be moved until it has passed",
        )
    if not view.due_at < until <= latest:
        raise PolicyError(
            f"the new due date is {until:%Y-%m-%d}; expected a date after {view.due_at:%Y-%m-%d} "
            f"and not after {latest:%Y-%m-%d}",
            "the due date can be moved by at most two months",
        )
    notice = f"{dates[1]:%Y-%m-%d}"
    body = ExtendedBody(until=event_time(until), notice=notice, reason=reason)
    local.desk.append(EventKind.EXTENDED, view.id, body)
    print_state(local, view.id, "extended", console)


def purge(
    place: Place, local: LocalDesk, request: str | None, key: Path | None, console: Console
) -> None:
    """Delete the private record of one request, or of all whose retention has ended.

    Raises:
        PolicyError: the request has not ended, recipients are still to be notified of it, this
            party has no private record of it, or its data still has a label that the request
            replaced.
    """
    acting_person(local, key, PersonRole.OPERATOR)
    views = [recorded_view(local, request)] if request else past_retention(local)
    waiting = _uncorrected(place, local, [each for each in views if each.corrects])
    if request and waiting:
        raise PolicyError(
            f"the data of {place.party} still has {waiting[views[0].id]} labels that the request "
            f"{views[0].id} replaced",
            "correct the labels in the data before the record of the request is purged",
        )
    for name, count in waiting.items():
        console.print(
            f"kept {name}: the data still has {count} labels that it replaced",
            event="kept",
            request=name,
            labels=count,
        )
    views = [each for each in views if each.id not in waiting]
    for view in views:
        local.subjects.purge(view)
        if view.state in CARRIED_OUT:
            local.desk.renew_page(view)  # without the names of recipients
        console.print(f"purged {view.id}", event="purged", request=view.id)
    if not views:
        console.print("no record to purge", event="purged", request=None)


def _uncorrected(place: Place, local: LocalDesk, views: Sequence[RequestView]) -> dict[str, int]:
    """Return how many labels the data still has that each of some corrections has replaced.

    A later training reads the labels in the data once the records are gone. The last correction of
    a row counts.
    """
    if not any(each.state in CARRIED_OUT for each in views):
        return {}
    config = read_vertical(place)
    rows = read_rows(config, place.party, StartOptions(place.out, place.data, place.certificates))
    classes = config.agreement.labels.classes
    held = {} if rows.labels is None else dict(zip(rows.ids, rows.labels.tolist(), strict=True))
    done = [each for each in local.desk.requests() if each.corrects and each.state in CARRIED_OUT]
    named = {each.id: local.subjects.of(each.id) or [] for each in in_order(done)}
    last = {each.id: each.label for subjects in named.values() for each in subjects if each.label}
    right = {each: classes.index(label) for each, label in last.items()}
    wrong = {each for each, label in right.items() if held.get(each, label) != label}
    found = {view.id: sum(each.id in wrong for each in named.get(view.id, ())) for view in views}
    return {name: count for name, count in found.items() if count}


def readmit(
    place: Place, identities: list[str], reason: str, key: Path | None, console: Console
) -> None:
    """Accept forgotten IDs again, in the vertical mode."""
    with vertical_desk(place) as local:
        acting_person(local, key, PersonRole.APPROVER)
        listed = list_of_ids(identities, id_columns(local.party.settings.data))
        count = local.forgotten.readmit(local.desk.journal, listed.ids, reason)
    console.print(
        f"{count} IDs readmitted, {len(listed) - count} were not on the list of forgotten IDs",
        event="readmitted",
        readmitted=count,
        not_listed=len(listed) - count,
    )


def _refuse_same_person(local: LocalDesk, view: RequestView, person: PersonKey | None) -> None:
    """Refuse an approval that another person must make."""
    requester = view.content.requester
    if not local.party.agreement.requests.separate_persons:
        return
    if person is None and view.origin == local.party.name:
        raise PolicyError(
            "the agreement has requests.separate_persons, so a person must approve the request",
            "give --key FILE with the private key of another person than the requester",
        )
    if person is not None and requester is not None and person.public == requester.key:
        raise PolicyError(
            f"{person.name} made the request {view.id} and may not approve it",
            "another person must approve the request",
        )


def _append_decision(
    local: LocalDesk, kind: EventKind, view: RequestView, reason: str, person: PersonKey | None
) -> None:
    asked: Event = next(
        event for event in local.desk.journal.events(view.id) if event.kind is EventKind.REQUESTED
    )
    message = decision_message(kind, asked, reason)
    signature = None if person is None else person.sign(message)
    local.desk.append(kind, view.id, DecisionBody(reason=reason, person=signature))
