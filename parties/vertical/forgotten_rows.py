"""What earlier requests mean for the data of a training: rows left out, and labels replaced."""

from collections import Counter
from dataclasses import replace
from hashlib import sha256

import numpy as np

from configs.agreement import VerticalAgreement
from parties.common.errors import DataError, StorageError
from parties.data.holding import Holding, select_rows
from parties.requests.journal import RequestJournal, journal_of
from parties.requests.lifecycle import (
    CARRIED_OUT,
    RequestRules,
    in_order,
    largest_version,
    requests_of,
)
from parties.requests.subjects import ForgottenList, SubjectStore
from parties.session.party import StartedParty


def request_rules(agreement: VerticalAgreement) -> RequestRules:
    """What the states of requests depend on, from the agreement."""
    separate = agreement.requests.separate_persons
    joined = {
        name: each.since.isoformat() for name, each in agreement.parties.items() if each.since
    }
    return RequestRules(tuple(agreement.parties), agreement.active, separate, joined)


def newest_request_version(party: StartedParty, hub: str) -> int:
    """The largest number of a version that a request made, by the party's journal; 0 if none.

    Args:
        party: the party.
        hub: name of the active party, which makes versions.

    Raises:
        IntegrityError: the journal is damaged.
    """
    with journal_of(party) as journal:
        return 0 if journal is None else largest_version(journal.events(), hub)


def without_forgotten_rows(holding: Holding, party: StartedParty) -> Holding:
    """The rows of a party without those whose IDs are on its list of forgotten IDs.

    The digest of the result differs from that of ``holding`` if rows were left out, so that no
    unfinished training with these rows is resumed.

    Raises:
        DataError: all rows were forgotten.
        IntegrityError: the journal is damaged.
    """
    with journal_of(party) as journal:
        gone = [] if journal is None else _forgotten(journal, party, holding)
    if not gone:
        return holding
    if len(gone) == len(holding):
        raise DataError(
            f"all {len(holding)} rows of {party.name} were forgotten", "add rows to the data"
        )
    party.progress.warn(
        f"{len(gone)} rows of the data were forgotten by an earlier request; they are left out"
    )
    left = select_rows(holding, np.delete(np.arange(len(holding)), gone))
    ids = b"\n".join(sorted(holding.ids[row] for row in gone))
    return replace(left, digest=sha256(holding.digest + sha256(ids).digest()).digest())


def with_corrected_labels(
    holding: Holding, party: StartedParty, agreement: VerticalAgreement
) -> Holding:
    """The rows of the active party with the labels that requests have corrected.

    The private records of these requests have the labels, until they are purged. A label of a class
    that the agreement does not have any more is ignored.

    Args:
        holding: the party's rows; without labels, they are returned unchanged.
        party: the party.
        agreement: the agreement.

    Raises:
        IntegrityError: the journal is damaged.
        StorageError: the labels of a request are lost.
    """
    if holding.labels is None:
        return holding
    classes = agreement.labels.classes
    with journal_of(party) as journal:
        corrected = {} if journal is None else _corrected(journal, party, agreement)
    labels, unknown = holding.labels.copy(), Counter[str]()
    for row, each in enumerate(holding.ids):
        label = corrected.get(each)
        if label in classes:
            labels[row] = classes.index(label)
        elif label is not None:
            unknown[label] += 1
    for label, count in sorted(unknown.items()):
        party.progress.warn(
            f"{count} labels that requests have corrected are of the class {label!r}, which the "
            "agreement does not have any more: the labels of the data are used"
        )
    changed = int((labels != holding.labels).sum())
    if not changed:
        return holding
    party.progress.warn(
        f"{changed} labels of the data differ from those that requests have corrected: the "
        "corrected ones are used; correct the data, too"
    )
    digest = sha256(holding.digest + sha256(labels.tobytes()).digest()).digest()
    return replace(holding, labels=labels, digest=digest)


def _corrected(
    journal: RequestJournal, party: StartedParty, agreement: VerticalAgreement
) -> dict[bytes, str]:
    """The corrected labels, by ID; that of the latest request counts."""
    store, found = SubjectStore(journal, party.keys), dict[bytes, str]()
    for view in in_order(requests_of(journal.events(), request_rules(agreement))):
        if not (view.corrects and view.state in CARRIED_OUT) or party.name in view.purged:
            continue  # a record is purged only when the data has the labels
        subjects = store.of(view.id)
        if subjects is None:
            raise StorageError(
                f"the labels that the request {view.id} corrected are lost: the journal was "
                "restored from an older backup",
                f"correct them in the data, then run vfl unlearn purge --request {view.id}",
            )
        found |= {each.id: each.label for each in subjects if each.label}
    return found


def forgotten_count(party: StartedParty) -> int:
    """The number of common rows that requests have removed, by the party's list.

    Raises:
        IntegrityError: the journal is damaged.
    """
    with journal_of(party) as journal:
        return 0 if journal is None else len(ForgottenList(journal.database, party.keys))


def _forgotten(journal: RequestJournal, party: StartedParty, holding: Holding) -> list[int]:
    return ForgottenList(journal.database, party.keys).among(holding.ids)
