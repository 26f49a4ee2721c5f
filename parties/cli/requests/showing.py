"""Commands that print requests and their state."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from configs.agreement import VerticalAgreement
from parties.cli.console import Console
from parties.cli.requests.views import still_to_inform, view_of
from parties.common.errors import StorageError
from parties.requests.events import event_time
from parties.requests.lifecycle import CARRIED_OUT, RequestView
from parties.requests.local_desk import LocalDesk
from parties.requests.receipts import FOLDER, lost_receipt
from parties.requests.subjects import Subject, SubjectClass, count_classes
from parties.vertical.kept_model import party_models, present_version


def list_requests(local: LocalDesk, console: Console) -> None:
    """Print one line for each request."""
    for view in local.desk.requests():
        fields = _fields(local, view)
        kind = f"{view.content.kind} {view.content.party or view.content.columns or ''}"
        console.print(
            f"{view.id}  {view.state.value:11}  due {fields['due_at'][:10]}  "
            f"{kind:11}  {_row_count(view):>7} rows  from {view.origin}" + _alarm(fields),
            event="request",
            **fields,
        )


def show_request(local: LocalDesk, request: str, console: Console, *, with_ids: bool) -> None:
    """Print what is known about one request; with ``with_ids``, also its IDs and their classes.

    The names of columns that left are printed at their owner only, and all figures of the audit at
    the party that measured them, until the next version.

    Raises:
        StorageError: this party has no IDs of the request.
    """
    view = view_of(local, request)
    fields = _fields(local, view) | {"receipt_file": _receipt_file(local, view)}
    subjects = local.subjects.of(view.id)
    if subjects is not None:
        vertical = isinstance(local.party.agreement, VerticalAgreement)
        unused = SubjectClass.NOT_TRAINED if vertical else SubjectClass.NOT_COMMON
        fields |= {"found": count_classes(subjects, unused)}
    if figures := _figures(local, view):
        fields |= {"figures": figures}
    lines = [f"{name.replace('_', ' ')}: {shown_value(value)}" for name, value in fields.items()]
    console.print("\n".join(lines), event="request", **fields)
    if local.desk.lacks_receipt(view):
        console.warn("; ".join(lost_receipt(view, local.party.name)))
    if with_ids:
        if subjects is None:
            raise StorageError(
                f"this party has no IDs of the request {view.id}",
                f"only {view.origin} has the IDs, until its record is purged",
            )
        print_subjects(subjects, console)


def print_status(local: LocalDesk, console: Console) -> None:
    """Print how many requests are in each state, frozen rows, and reminders.

    Reminders are of due dates, and of those who are to be informed about a request.
    """
    views = local.desk.requests()
    states = Counter(view.state.value for view in views)
    frozen = len(local.desk.frozen_rows(present_version(party_models(local.party))))
    words = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
    console.print(
        f"{len(views)} requests" + (f": {words}" if words else "") + f"; {frozen} frozen rows",
        event="status",
        requests=len(views),
        states=dict(sorted(states.items())),
        frozen_rows=frozen,
    )
    for view in views:
        fields = _fields(local, view)
        if fields["reminder"] is not None or view.clock_anomaly:
            console.print(
                f"{view.id}  {view.state.value}  due {fields['due_at'][:10]}{_alarm(fields)}",
                event="reminder",
                **fields,
            )
        if any(local.desk.to_inform(view)):
            console.print(
                f"{view.id}  {view.state.value}  due {fields['due_at'][:10]}  "
                f"{still_to_inform(local, view)}: see vfl unlearn notify {view.id}",
                event="to_inform",
                **fields,
            )


def print_subjects(subjects: Iterable[Subject], console: Console) -> None:
    """Print the rows of a request, one line each."""
    for each in subjects:
        console.print(
            f"{each.found.value}  {each.text}",
            event="subject",
            found=each.found.value,
            id=each.text,
        )


def print_request(
    local: LocalDesk, request: str, new: bool, found: dict[str, int], console: Console
) -> None:
    """Print a request that was made, and what its list contained."""
    view = view_of(local, request)
    words = f"{shown_value(found)}\n" if found else ""
    same = "" if new else " (the same request exists already)"
    console.print(
        f"{words}request {request}{same}: {view.state.value}, due {view.due_at:%Y-%m-%d}",
        event="request",
        request=request,
        party=local.party.name,
        new=new,
        found=found,
        state=view.state.value,
        due_at=event_time(view.due_at),
    )


def print_state(local: LocalDesk, request: str, action: str, console: Console) -> None:
    """Print what a person did with a request, and the state that it has now."""
    view = view_of(local, request)
    console.print(
        f"{action} {request}: {view.state.value}, due {view.due_at:%Y-%m-%d}",
        event=action,
        request=request,
        state=view.state.value,
        due_at=event_time(view.due_at),
    )


def _fields(local: LocalDesk, view: RequestView) -> dict[str, Any]:
    """Return a view as JSON; it contains no ID of a subject."""
    now, content = local.party.now(), view.content
    return {
        "request": view.id,
        "state": view.state.value,
        "origin": view.origin,
        "kind": content.kind,
        "leaves": content.party,
        "columns": content.columns,
        "classes": list(content.classes),
        "rows": None if _row_count(view) == "?" else int(_row_count(view)),
        "ground": content.ground,
        "requester": content.requester_name,
        "received_at": event_time(view.received_at),
        "due_at": event_time(view.due_at),
        "extended": view.extended,
        "reminder": view.reminder(now),
        "expired": view.expired(now),
        "journaled": sorted(view.journaled),
        "approvals": sorted(view.approvals),
        "rejected_by": sorted(view.rejected_by),
        "reason": view.reason,
        "method": view.method,
        "fallback": None
        if view.fallback is None
        else {"version": view.fallback.version, "absent": list(view.fallback.absent)},
        "version_before": view.version_before,
        "version_after": view.version_after,
        "receipt": view.receipt,
        "signatures": sorted(view.signatures),
        "clock_anomaly": view.clock_anomaly,
        "ignored_events": view.ignored,
        "purged": sorted(view.purged),
        "notified": {
            name: {"recipients": each.recipients, "failed": each.failed}
            for name, each in sorted(view.notified.items())
        },
    }


def _figures(local: LocalDesk, view: RequestView) -> dict[str, str]:
    """What this party measured for a request that made the newest version; else empty."""
    newest = party_models(local.party).newest_version()
    facts = None if newest is None else newest.version
    if facts is None or view.id not in facts.requests:
        return {}
    found: dict[str, str] = facts.own.get("audit", {})
    return found


def _receipt_file(local: LocalDesk, view: RequestView) -> str | None:
    """The file of a request's receipt at this party; None without one."""
    path = local.party.state / FOLDER / f"{min(view.batch, default=view.id)}.json"
    return str(path) if view.state in CARRIED_OUT and path.exists() else None


def _row_count(view: RequestView) -> str:
    if view.count is not None:
        return str(view.count)
    if view.content.count is not None:
        return str(view.content.count)
    if view.rows is None or view.content.kind == "client":
        return "?"
    return str(len(view.rows))


def _alarm(fields: dict[str, Any]) -> str:
    """Return the end of a line: how much of the time to the due date has passed."""
    words = []
    if fields["expired"]:
        words.append("PAST DUE")
    elif fields["reminder"] is not None:
        words.append(f"{fields['reminder']} % of the time has passed")
    if fields["clock_anomaly"]:
        words.append("the clock of a party was set back")
    return "".join(f"  {each}" for each in words)


def shown_value(value: object) -> str:
    """Return a value of an event as text for a terminal."""
    if isinstance(value, dict):
        parts = [
            f"{name} ({shown_value(each)})"
            if isinstance(each, dict)
            else f"{shown_value(each)} {name.replace('_', ' ')}"
            for name, each in value.items()
        ]
        return ", ".join(parts) or "none"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value in (None, "") else str(value)
