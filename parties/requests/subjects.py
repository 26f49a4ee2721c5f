"""Private records of requests: who is to be forgotten, and who is to be notified; never shared.

The subjects of a request are sealed under a key of their own at the requester's party, and so is
each party's list of the recipients of the data; a purge destroys these keys. The list
of forgotten IDs contains HMACs under a key of the party, so that a forgotten ID is recognised when
it comes back, while the list itself reveals no ID.
"""

import hmac
import json
import os
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from hashlib import sha256
from typing import Any, Final

from parties.common.errors import IntegrityError, PolicyError
from parties.data.id_lists import ListedIds
from parties.requests.database import RequestDatabase
from parties.requests.events import (
    EventKind,
    PurgedBody,
    ReadmittedBody,
    RequestedBody,
    body_json,
)
from parties.requests.journal import RequestJournal
from parties.requests.lifecycle import CARRIED_OUT, ENDED, RequestView
from parties.requests.persons import PersonKey, request_message
from parties.session.store.sealing import KeyFile, seal, unseal
from unlearning.receipts.canonical import canonical_bytes
from unlearning.receipts.commitment import SALT_BYTES, subject_commitment
from unlearning.receipts.evidence import Opening, SubjectOpenings
from unlearning.receipts.merkle import merkle_root
from unlearning.receipts.page import DataRecipient, NotificationResult, Notifications

_READMITTED: Final = "readmitted"  # in place of the date of a readmitted ID
_FORGOTTEN_KEY: Final = "forgotten"  # names of keys in the party's key file
_SUBMISSION_KEY: Final = "submissions"
_SUBJECTS_KEY: Final = "subjects-"  # then the ID of the request
_PURGED: Final = b""  # in place of the sealed subjects
_NOTIFICATIONS_KEY: Final = "notifications-"  # then the ID of the request


class SubjectClass(StrEnum):
    """What the party found for an ID of a request."""

    ALIGNED = "aligned"  # the model knows the row
    NOT_COMMON = "not_common"  # this party has the row, but not every other party
    NOT_TRAINED = "not_trained"  # a client has the row, but did not train the model with it
    NOT_HELD = "not_held"  # this party has no such row
    FORGOTTEN = "forgotten"  # the row was forgotten by an earlier request


@dataclass(frozen=True, slots=True)
class Subject:
    """One ID of a request; ``repr`` shows no ID.

    Attributes:
        text: the ID as the requester wrote it.
        id: the ID in normal form.
        found: what the party found.
        salt: 32 random bytes, for the commitment in the receipt.
        label: name of the class that replaces the label of the row; empty if the row is forgotten.
    """

    text: str = field(repr=False)
    id: bytes = field(repr=False)
    found: SubjectClass
    salt: bytes = field(repr=False)
    label: str = field(default="", repr=False)

    @property
    def commitment(self) -> bytes:
        """The salted commitment to the ID, 32 bytes, which the receipt contains."""
        return subject_commitment(self.salt, self.id)


class ForgottenList:
    """The HMACs of the IDs that this party has forgotten, or has readmitted since."""

    def __init__(self, database: RequestDatabase, keys: KeyFile) -> None:
        self._database, self._key = database, keys.create(_FORGOTTEN_KEY)

    def __contains__(self, identity: object) -> bool:
        """Return whether the ID in normal form, bytes, is on the list."""
        return isinstance(identity, bytes) and any(
            date != _READMITTED for _, _, date in self._rows_of(identity)
        )

    def __len__(self) -> int:
        """Return the number of forgotten IDs."""
        return len(self._database.rows("forgotten", "date <> ?", (_READMITTED,)))

    def among(self, ids: Iterable[bytes]) -> list[int]:
        """Return the positions of forgotten IDs in ``ids``: the check when data is loaded."""
        return self._among(ids, "date <> ?")

    def readmitted_among(self, ids: Iterable[bytes]) -> list[int]:
        """Return the positions in ``ids`` of IDs that were forgotten, and then readmitted."""
        return self._among(ids, "date = ?")

    def _among(self, ids: Iterable[bytes], condition: str) -> list[int]:
        tags = {tag for tag, *_ in self._database.rows("forgotten", condition, (_READMITTED,))}
        if not tags:
            return []
        return [at for at, each in enumerate(ids) if self._tag(each) in tags]

    def salt(self, identity: bytes) -> bytes:
        """Return the salt, 32 bytes, for the commitment to an ID of a client's list.

        It depends on the party's key, so that the same list has the same commitments when it is
        given again, after a backup without the record of its request was restored.
        """
        return hmac.digest(self._key, b"vfl/salt/v1\n" + identity, sha256)

    def of(self, request: str) -> Container[bytes] | None:
        """Return the IDs that a request was the first to remove, without readmitted ones.

        None if it was the first to remove none.
        """
        rows = self._database.rows("forgotten", "request = ?", (request,))
        tags = frozenset(tag for tag, _, date in rows if date != _READMITTED)
        return _TaggedIds(tags, self._tag) if rows else None

    def add(self, ids: Iterable[bytes], request: str, date: str) -> int:
        """Add IDs that a request has removed on ``date``; return the number of new entries.

        A readmitted ID becomes an entry of the request that was the first to remove it.
        """
        with self._database.transaction():
            return sum(self._add(each, request, date) for each in ids)

    def _add(self, identity: bytes, request: str, date: str) -> bool:
        first = [name for _, name, marked in self._rows_of(identity) if marked == _READMITTED]
        if first:
            self._database.delete("forgotten", "tag = ?", (self._tag(identity),))
        return self._database.insert(
            "forgotten", (self._tag(identity), *(first or [request]), date)
        )

    def _rows_of(self, identity: bytes) -> list[tuple[Any, ...]]:
        return self._database.rows("forgotten", "tag = ?", (self._tag(identity),))

    def readmit(self, journal: RequestJournal, ids: Iterable[bytes], reason: str) -> int:
        """Mark IDs as readmitted, with one event for each request that had removed them.

        Returns:
            The number of readmitted IDs; IDs that are not on the list are skipped.
        """
        with journal.transaction():
            counts: Counter[str] = Counter()
            for each in ids:
                for tag, request, date in self._rows_of(each):
                    if date != _READMITTED:
                        counts[request] += 1
                        self._database.delete("forgotten", "tag = ?", (tag,))
                        self._database.insert("forgotten", (tag, request, _READMITTED))
            for request, count in sorted(counts.items()):
                body = ReadmittedBody(count=count, reason=reason)
                journal.append(EventKind.READMITTED, request, body)
            return counts.total()

    def _tag(self, identity: bytes) -> bytes:
        return hmac.digest(self._key, b"vfl/forgotten/v1\n" + identity, sha256)


@dataclass(frozen=True, slots=True)
class _TaggedIds:
    """IDs of which only the HMACs are known."""

    tags: frozenset[bytes]
    tag_of: Callable[[bytes], bytes]

    def __contains__(self, identity: object) -> bool:
        return isinstance(identity, bytes) and self.tag_of(identity) in self.tags


class NotificationStore:
    """The recipients to whom this party had disclosed the data of each request, and the results."""

    def __init__(self, database: RequestDatabase, keys: KeyFile) -> None:
        self._database, self._keys = database, keys

    def of(self, request: str) -> Notifications | None:
        """Return whom this party has informed; None if it recorded nothing, or has purged it.

        Raises:
            IntegrityError: the record cannot be decrypted.
        """
        found = self._database.rows("notifications", "request = ?", (request,))
        key = self._keys.get(_NOTIFICATIONS_KEY + request)
        if not found or key is None:
            return None
        content = json.loads(_unsealed(key, found[0][1], request, "recipients of the data"))
        recipients = tuple(
            DataRecipient(name, NotificationResult(result), day, reason)
            for name, result, day, reason in content["recipients"]
        )
        return Notifications(recipients, content["informed"])

    def save(self, request: str, notifications: Notifications) -> None:
        """Store whom this party has informed, in place of an earlier record of the request."""
        recipients = [
            [each.name, each.result.value, each.day, each.reason]
            for each in notifications.recipients
        ]
        content = {"recipients": recipients, "informed": notifications.informed}
        key = self._keys.create(_NOTIFICATIONS_KEY + request)
        sealed = seal(key, json.dumps(content).encode(), request.encode())
        with self._database.transaction():
            self._database.delete("notifications", "request = ?", (request,))
            self._database.insert("notifications", (request, sealed))


class SubjectStore:
    """The subjects of the requests that this party made."""

    def __init__(self, journal: RequestJournal, keys: KeyFile) -> None:
        self._journal, self._database, self._keys = journal, journal.database, keys

    def of(self, request: str) -> list[Subject] | None:
        """Return the subjects of a request; None if this party has none, or has purged them.

        Raises:
            IntegrityError: the subjects cannot be decrypted.
        """
        found = self._database.rows("subjects", "request = ?", (request,))
        key = self._keys.get(_SUBJECTS_KEY + request)
        if not found or key is None:
            return None
        content = _unsealed(key, found[0][1], request, "subjects")
        return [
            Subject(text, bytes.fromhex(identity), SubjectClass(kind), bytes.fromhex(salt), *label)
            for text, identity, kind, salt, *label in json.loads(content)
        ]

    def submit(
        self,
        content: RequestedBody,
        subjects: Sequence[Subject],
        person: PersonKey | None,
        views: Iterable[RequestView],
        request: str,
        *,
        again: bool = False,
    ) -> tuple[str, bool]:
        """Journal a request, unless the same one exists and was neither rejected nor withdrawn.

        The list of a client's request whose record is not in a restored backup is stored again.

        Args:
            content: the request, without the signature of the requester.
            subjects: the subjects of a request by rows.
            person: the requester, who signs the request.
            views: all requests.
            request: ID of the new request.
            again: whether a request that was carried out may be made again, for new rows.

        Returns:
            The ID of the request, and whether it is new.
        """
        if subjects:
            content = content.model_copy(update={"subjects_root": subjects_root(subjects)})
        digest = self._submission(content, subjects)
        with self._journal.transaction():
            lost = self._without_record(content, views)
            if lost is not None:
                self._store(lost, subjects)
                self._database.insert("submissions", (digest, lost))
                return lost, False
            final = ENDED | CARRIED_OUT if again else ENDED
            ended = {each.id for each in views if each.state in final}
            for _, known in self._database.rows("submissions", "digest = ?", (digest,)):
                if known not in ended:
                    return known, False
            if person is not None:
                signature = person.sign(request_message(content))
                content = content.model_copy(update={"requester": signature})
            if subjects:
                self._store(request, subjects)
            self._database.insert("submissions", (digest, request))
            self._journal.append(EventKind.REQUESTED, request, content)
        return request, True

    def _store(self, request: str, subjects: Iterable[Subject]) -> None:
        key = self._keys.create(_SUBJECTS_KEY + request)
        self._database.delete("subjects", "request = ?", (request,))
        self._database.insert(
            "subjects", (request, seal(key, _encoded(subjects), request.encode()))
        )

    def _without_record(self, content: RequestedBody, views: Iterable[RequestView]) -> str | None:
        """The request with the same list whose record this party lacks; None if there is none."""
        for view in views:
            same = view.content.has_list and view.content.subjects_root == content.subjects_root
            if same and view.state not in ENDED and self.of(view.id) is None:
                return view.id
        return None

    def forget_labels(self, ids: Container[bytes]) -> None:
        """Remove the labels of rows from the records of corrections, because they are forgotten."""
        with self._journal.transaction():
            for request, _ in self._database.rows("subjects"):
                subjects = self.of(request) or []
                if any(each.label and each.id in ids for each in subjects):
                    kept = [replace(s, label="") if s.id in ids else s for s in subjects]
                    self._database.delete("subjects", "request = ?", (request,))
                    self._store(request, kept)

    def purged(self, request: str) -> bool:
        """Return whether this database had the record of a request, and has purged it.

        The event alone does not say so: a restored backup gets it back from the other parties.
        """
        return bool(
            self._database.rows("subjects", "request = ? AND sealed = ?", (request, _PURGED))
        )

    def purge(self, view: RequestView) -> None:
        """Delete the private records of a request; their keys are destroyed first.

        Raises:
            PolicyError: the request is not finished.
        """
        if view.state not in ENDED | CARRIED_OUT:
            raise PolicyError(
                f"the request {view.id} is {view.state.value}, so its record is still needed",
                "purge a request after it has ended",
            )
        self._keys.destroy(_SUBJECTS_KEY + view.id, _NOTIFICATIONS_KEY + view.id)
        with self._journal.transaction():
            self._database.delete("subjects", "request = ?", (view.id,))
            self._database.insert("subjects", (view.id, _PURGED))
            self._database.delete("notifications", "request = ?", (view.id,))
            self._database.delete("submissions", "request = ?", (view.id,))
            self._journal.append(EventKind.PURGED, view.id, PurgedBody())

    def _submission(self, content: RequestedBody, subjects: Iterable[Subject]) -> str:
        """Keyed digest of what is requested, by which a repeated request is recognised."""
        named = {"kind", "classes", "fraction", "seed"}
        what = {key: each for key, each in body_json(content).items() if key in named}
        what["ids"] = sorted(each.id.hex() + each.label for each in subjects)
        return self._keys.mac(_SUBMISSION_KEY, canonical_bytes(what)).hex()


def named_ids(
    request: str, subjects: SubjectStore, forgotten: ForgottenList
) -> Container[bytes] | None:
    """Return the IDs of the rows that a request of this party names.

    After a purge of the private record, these are the IDs that the request was the first to remove,
    which may be none. None if this party has neither the record of the request nor forgotten its
    rows.
    """
    found = subjects.of(request)
    if found is None:
        return forgotten.of(request) or (frozenset() if subjects.purged(request) else None)
    return frozenset(each.id for each in found if each.found is SubjectClass.ALIGNED)


def classify(
    listed: ListedIds,
    held: Container[bytes],
    rows: Container[bytes],
    forgotten: ForgottenList,
    otherwise: SubjectClass = SubjectClass.NOT_COMMON,
) -> list[Subject]:
    """Return the subjects of a list of IDs, each with what the party found.

    Args:
        listed: the list.
        held: the IDs of all rows of the party.
        rows: the IDs of the rows that the model knows.
        forgotten: the IDs that were forgotten earlier.
        otherwise: the class of a row that the party has, but the model does not know.
    """

    def found(identity: bytes) -> SubjectClass:
        if identity in rows:
            return SubjectClass.ALIGNED
        if identity in forgotten:
            return SubjectClass.FORGOTTEN
        return otherwise if identity in held else SubjectClass.NOT_HELD

    return [
        Subject(text, identity, found(identity), os.urandom(SALT_BYTES))
        for text, identity in zip(listed.texts, listed.ids, strict=True)
    ]


def count_classes(
    subjects: Iterable[Subject], unused: SubjectClass = SubjectClass.NOT_TRAINED
) -> dict[str, int]:
    """Return the number of subjects of each class, by the name of the class.

    ``unused`` is the class that the mode of the run does not have.
    """
    counts = Counter(each.found for each in subjects)
    return {each.value: counts[each] for each in SubjectClass if each is not unused}


def subjects_root(subjects: Iterable[Subject]) -> str:
    """Return the Merkle root over the commitments of the aligned subjects, in hexadecimal."""
    aligned = (each for each in subjects if each.found is SubjectClass.ALIGNED)
    return merkle_root(each.commitment for each in aligned).hex()


def aligned_rows(subjects: Iterable[Subject], rows: Mapping[bytes, int]) -> tuple[int, ...]:
    """Return the ascending common indices of the aligned subjects."""
    aligned = (each for each in subjects if each.found is SubjectClass.ALIGNED)
    return tuple(sorted(rows[each.id] for each in aligned))


def openings(request: str, subjects: Iterable[Subject]) -> SubjectOpenings:
    """Return ID and salt of each aligned subject, for ``vfl-verify``; the file stays private."""
    return SubjectOpenings(
        request_id=request,
        subjects=tuple(
            Opening(id=tuple(each.text.split("\t")), salt=each.salt.hex())
            for each in subjects
            if each.found is SubjectClass.ALIGNED
        ),
    )


def _unsealed(key: bytes, sealed: bytes, request: str, what: str) -> bytes:
    content = unseal(key, sealed, request.encode())
    if content is None:
        raise IntegrityError(
            f"the {what} of the request {request} cannot be decrypted",
            "restore the journal and the key file from the same backup",
        )
    return content


def _encoded(subjects: Iterable[Subject]) -> bytes:
    return json.dumps(
        [
            [each.text, each.id.hex(), each.found.value, each.salt.hex()]
            + ([each.label] if each.label else [])
            for each in subjects
        ]
    ).encode()
