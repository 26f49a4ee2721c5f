"""Requests of the active party to correct labels of a kept model, inside a test."""

from collections.abc import Mapping
from datetime import timedelta

from parties.requests.duties import RequestDesk
from parties.requests.events import RequestedBody, event_time, new_request_id
from parties.requests.subjects import Subject, SubjectClass, SubjectStore, subjects_root
from parties.vertical.engine.party import VerticalParty
from parties.vertical.kept_model import kept_rows, party_models


def submit_correction(party: VerticalParty, desk: RequestDesk, wanted: Mapping[int, str]) -> str:
    """Request that common rows get these labels; return the ID of the request."""
    desk.attend()
    place = {row: each for each, row in kept_rows(party_models(party)).items()}
    subjects = [
        Subject(place[row].decode(), place[row], SubjectClass.ALIGNED, bytes(32), label)
        for row, label in sorted(wanted.items())
    ]
    now = party.now()
    body = RequestedBody(
        kind="correction",
        rows=tuple(sorted(wanted)),
        ground="gdpr-16",
        received_at=event_time(now),
        due_at=event_time(now + timedelta(days=30)),
        subjects_root=subjects_root(subjects),
    )
    store, views = SubjectStore(desk.journal, party.keys), desk.requests()
    request, _ = store.submit(body, subjects, None, views, new_request_id(now), again=True)
    desk.attend()
    return request
