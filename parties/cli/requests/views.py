"""Views of the requests in a journal, by ID and by state."""

from datetime import timedelta

from parties.common.errors import PolicyError, UsageProblem
from parties.requests.events import event_time
from parties.requests.lifecycle import CARRIED_OUT, ENDED, RequestView
from parties.requests.local_desk import LocalDesk


def view_of(local: LocalDesk, request: str) -> RequestView:
    """Return the request with this ID.

    Raises:
        UsageProblem: no request has the ID.
    """
    for view in local.desk.requests():
        if view.id == request:
            return view
    raise UsageProblem(
        f"no request has the ID {request[:40]}", "vfl unlearn list shows the IDs of all requests"
    )


def own_view(local: LocalDesk, request: str) -> RequestView:
    """Return the request with this ID, which was made at this party.

    Raises:
        UsageProblem: no request has the ID.
        PolicyError: another party made the request.
    """
    view = view_of(local, request)
    if view.origin != local.party.name:
        raise PolicyError(
            f"the request {view.id} was made at {view.origin}", f"ask {view.origin} to do this"
        )
    return view


def recorded_view(local: LocalDesk, request: str) -> RequestView:
    """Return a request of which this party has a private record that may be purged.

    Raises:
        UsageProblem: no request has the ID.
        PolicyError: another party has the record, or the record is still needed.
    """
    view = view_of(local, request)
    if not _has_record(local, view):
        return own_view(local, request)
    recipients, _ = local.desk.to_inform(view)
    if recipients:
        raise PolicyError(
            f"the record of the request {view.id} is still needed: the number of recipients of the "
            f"data to notify is {recipients}",
            "record the results with vfl unlearn notify first",
        )
    return view


def _has_record(local: LocalDesk, view: RequestView) -> bool:
    own = view.origin == local.party.name
    return own or local.desk.notifications.of(view.id) is not None


def past_retention(local: LocalDesk) -> list[RequestView]:
    """Return ended requests with a private record whose last event is older than the retention."""
    days = local.party.settings.requests.retention_days
    before = event_time(local.party.now() - timedelta(days=days))
    last: dict[str, str] = {}
    for event in local.desk.journal.events():
        last[event.request] = max(event.time, last.get(event.request, ""))
    return [
        view
        for view in local.desk.requests()
        if view.state in ENDED | CARRIED_OUT
        and local.party.name not in view.purged
        and last[view.id] < before
        and _has_record(local, view)
        and not local.desk.to_inform(view)[0]
    ]


def still_to_inform(local: LocalDesk, view: RequestView) -> str:
    """Return in words whom this party still has to inform about a request; empty if nobody."""
    recipients, requester = local.desk.to_inform(view)
    words = [f"recipients of the data to notify: {recipients}"] if recipients else []
    words += ["the requester is to be informed"] if requester else []
    return ", ".join(words)
