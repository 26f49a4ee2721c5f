"""The desk for requests of one party: its journal, and what the party does by itself.

The party introduces the key of its events, acknowledges requests, and approves them if its policy
is automatic.
"""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from datetime import timedelta

from parties.common.atomic_file import make_folder
from parties.common.errors import IntegrityError, StorageError
from parties.requests.events import (
    CompletedBody,
    DecisionBody,
    Event,
    EventBody,
    EventKind,
    JournaledBody,
    NotifiedBody,
    SignedBody,
    StatedBody,
    event_time,
    new_request_id,
)
from parties.requests.journal import JOURNAL, RequestJournal
from parties.requests.lifecycle import (
    BEFORE_START,
    CARRIED_OUT,
    ENDED,
    UNDECIDED,
    RequestRules,
    RequestState,
    RequestView,
    follow_each_other,
    frozen_rows,
    ready_batch,
    requests_of,
    undone_requests,
)
from parties.requests.persons import requester_is_valid
from parties.requests.receipts import (
    FOLDER,
    Federation,
    build_receipt,
    departure_of,
    left_parties,
    lost_receipt,
    read_receipt,
    set_aside,
    signed_receipt,
    write_page,
    write_receipt,
    write_trust,
)
from parties.requests.signing import EventKeys
from parties.requests.subjects import ForgottenList, NotificationStore, SubjectStore
from parties.session.party import PartyContext
from unlearning.receipts.page import DataRecipient, NotificationResult, Notifications
from unlearning.receipts.receipt import Receipt

MOST_REASON = 200  # characters of a reason that a policy gives
MOVED = (
    "a later training, or a return to an earlier version, has numbered the rows anew: request the "
    "same IDs again"
)


class RequestDesk:
    """A party's journal of requests, open as long as the party serves.

    Attributes:
        journal: the journal.
        keys: the keys that sign events.
        rules: what the states of requests depend on.
        forgotten: the list of forgotten IDs.
        notifications: whom the party has informed about requests that were carried out.
    """

    def __init__(
        self,
        party: PartyContext,
        rules: RequestRules,
        federation: Federation,
        *,
        automatic: bool,
        recipients: Sequence[str] = (),
        refusal: Callable[[RequestView], str] = lambda _: "",
        row_ids: Callable[[], Sequence[bytes]] = tuple,
    ) -> None:
        """Open the journal in the party's folder.

        Args:
            party: the party.
            rules: what the states of requests depend on.
            federation: what receipts say about the federation.
            automatic: whether the party approves every request by itself.
            recipients: recipients of the party's data, to notify of every request.
            refusal: returns why the policy rejects a request; empty if it does not.
            row_ids: returns the party's IDs by common index in the present model, with empty bytes
                for rows that were erased; empty without a model, or without common indices.

        Raises:
            StorageError: the journal cannot be used.
            IntegrityError: the journal is damaged.
        """
        self._party, self.rules, self._automatic = party, rules, automatic
        self._refusal, self._row_ids = refusal, row_ids
        self._federation, self._recipients = federation, recipients
        self.keys = EventKeys(party)
        make_folder(party.state)
        path = party.state / JOURNAL
        sign, verify = self.keys.sign, self.keys.verify
        self.journal = RequestJournal(path, party.name, sign, verify, party.now)
        self._seen: dict[str, int] | None = None
        self._views: list[RequestView] = []
        self.keys.load(self.journal.events())
        self.forgotten = ForgottenList(self.journal.database, party.keys)
        self.notifications = NotificationStore(self.journal.database, party.keys)
        self._reminded: set[tuple[str, int]] = set()
        self._lost = set[str]()  # requests of whose receipts this desk has warned

    def forget_ids(self, ids: Sequence[bytes], requests: Sequence[str]) -> None:
        """Add the IDs of the rows that these requests forget to the list of forgotten IDs.

        ``ids`` are the IDs by common index; empty bytes for rows that were erased before.
        """
        for name in requests:
            view = self.request(name)
            rows = () if view.corrects else view.rows or ()
            gone = [ids[row] for row in rows if ids[row]]
            self.remember(name, gone)
            SubjectStore(self.journal, self._party.keys).forget_labels(set(gone))

    def remember(self, request: str, ids: Iterable[bytes]) -> None:
        """Add the IDs of rows that a request has removed to the list of forgotten IDs."""
        self.forgotten.add(ids, request, event_time(self._party.now())[:10])

    def has_stated(self, request: str, version: int) -> bool:
        """Return whether this party has stated what it did for the version ``version``."""
        return any(
            isinstance(event.body, StatedBody)
            and event.origin == self._party.name
            and event.body.version == version
            for event in self.journal.events(request)
        )

    def close(self) -> None:
        """Close the journal."""
        self.journal.close()

    def requests(self) -> list[RequestView]:
        """Return all requests; events of another process of this party are included."""
        counts = self.journal.counts()
        if counts != self._seen:
            self._views = requests_of(self.journal.events(), self.rules)
            self._seen = counts
        return self._views

    def request(self, name: str) -> RequestView:
        """Return the request with the ID ``name``."""
        return next(each for each in self.requests() if each.id == name)

    def frozen_rows(self, version: int) -> frozenset[int]:
        """Return the rows of a version, as common indices, that no prediction may use."""
        return frozen_rows(self.requests(), version)

    def ready(
        self, window: timedelta, method: str, version: int, unfit: Container[str] = ()
    ) -> tuple[RequestView, ...]:
        """Return the requests to carry out now by ``method``, from version ``version``.

        These are the requests of an interrupted batch; else those that the version does not know,
        because it comes from a backup that is older than they are; else those in quarantine, if
        another method put them there; else the requests whose window has ended. Requests that
        forget rows come before those that correct labels, except in a restored version. Requests
        that are ``unfit``, by their IDs, are left out of what did not start yet.

        Raises:
            StorageError: the version is older than requests that a later training preceded.
        """
        views = [each for each in self.requests() if not each.content.by_training]
        running = [each for each in views if each.state is RequestState.RUNNING]
        if running:
            batch = [each for each in views if each.id in running[0].batch]
            return tuple(each for each in batch if each.state not in ENDED)
        if undone := undone_requests(views, version):
            if not follow_each_other(undone, version):
                raise StorageError(
                    f"version {version} of the model is older than requests that were carried out "
                    "after a later training, whose rows have other numbers",
                    "restore a newer backup at all parties, or train again",
                )
            return undone
        views = [each for each in views if each.id not in unfit]
        held = [each for each in views if each.state is RequestState.QUARANTINED]
        retried = tuple(each for each in held if each.method != method)
        chosen = retried or ready_batch(views, self._party.now(), window)
        return tuple(each for each in chosen if not each.corrects) or chosen

    def append(self, kind: EventKind, request: str, body: EventBody) -> Event:
        """Sign and store an event of this party, after the one that introduces its key."""
        with self.journal.transaction():
            if kind is not EventKind.INTRODUCED:
                self._introduce()
            return self.journal.append(kind, request, body)

    def merge(
        self, encoded: Iterable[bytes], theirs: Mapping[str, int], *, attends: bool = True
    ) -> bool:
        """Store events of other parties; then do what this party does by itself.

        Args:
            encoded: the events.
            theirs: the number of events that the other party has of each origin.
            attends: whether this party may append events. It may not while other parties are
                absent: if its journal was restored from a backup, they may have later events of it.

        Returns:
            Whether this party has all its own events. It has not after its journal was restored
            from a backup; it appends nothing until the others have returned its later events.

        Raises:
            IdentityError: a signature is wrong, or a party introduced no key.
            RemoteProtocolError: an event is invalid, or does not follow the events before it.
        """
        name = self._party.name
        with self.journal.transaction():
            if attends and theirs.get(name, 0) <= self.journal.counts().get(name, 0):
                self._introduce()  # before the journal acknowledges a new request
            new = self.journal.merge(encoded, acknowledges=attends)
        self._renew_pages_of_departures(new)
        if theirs.get(name, 0) > self.journal.counts().get(name, 0):
            return False
        if attends:
            self.attend()
            self._remind()
        return True

    def _remind(self) -> None:
        """Warn once at 50, 80 and 100 % of the time until a request is due."""
        now = self._party.now()
        for view in self.requests():
            percent = view.reminder(now)
            if percent is not None and (view.id, percent) not in self._reminded:
                self._reminded.add((view.id, percent))
                self._party.progress.warn(
                    f"request {view.id} is {view.state.value}; {percent} % of the time until it is "
                    f"due, {view.due_at:%Y-%m-%d}, have passed"
                )

    def attend(self) -> None:
        """Introduce the own key, approve requests by the party's policy, and sign receipts.

        Raises:
            IntegrityError: the hub completed a request with another receipt than this party builds.
        """
        with self.journal.transaction():  # a second process of this party waits
            self._introduce()
            self._acknowledge()
            self._withdraw_moved()
            if any(each.state in UNDECIDED for each in self.requests()):
                self._decide()
            for view in self.requests():
                if view.state is RequestState.VERIFIED:
                    self._sign(view)
        with self.journal.transaction():  # so that one process at a time writes a receipt
            for view in self.requests():
                if view.state in CARRIED_OUT and view.id == min(view.batch):
                    self._write(view)

    def _acknowledge(self) -> None:
        """Journal the requests that became known while other parties were absent."""
        for view in self.requests():
            if view.state is RequestState.PENDING and self._party.name not in view.journaled:
                self.append(EventKind.JOURNALED, view.id, JournaledBody())

    def _withdraw_moved(self) -> None:
        """Withdraw own requests whose numbers name other rows in the present model.

        A training that ended after the request, and a rollback beyond a training, number the rows
        anew.
        """
        for view in self.requests():
            rows = view.content.rows
            if rows is None or view.origin != self._party.name or view.state not in BEFORE_START:
                continue
            ids = self._row_ids()
            subjects = SubjectStore(self.journal, self._party.keys).of(view.id)
            if not ids or subjects is None:
                continue
            named = {each.id for each in subjects}
            if all(row < len(ids) and (not ids[row] or ids[row] in named) for row in rows):
                continue
            self.append(EventKind.WITHDRAWN, view.id, DecisionBody(reason=MOVED))
            self._party.progress.warn(f"the request {view.id} is withdrawn: {MOVED}")

    def _introduce(self) -> None:
        """Introduce the own key, unless this or another process of the party did so."""
        if self.keys.introduction() is None:
            return
        self.keys.load(self.journal.events())
        introduction = self.keys.introduction()
        if introduction is not None:
            name = new_request_id(self._party.now())
            self.append(EventKind.INTRODUCED, name, introduction)
            self.keys.load(self.journal.events())

    def _decide(self) -> None:
        """Approve requests, and reject those whose requester's signature is not valid.

        Nothing is decided unless the policy is automatic. Where persons are separate, a person
        decides about the party's own requests. No person decides about a party or columns that
        left: the training without them has taken place. Another process of this party may do the
        same, so the caller has opened a transaction.
        """
        decided = {
            event.request
            for event in self.journal.events()
            if event.origin == self._party.name
            and event.kind in (EventKind.APPROVED, EventKind.REJECTED)
        }
        for view in self.requests():
            own = self.rules.separate_persons and view.origin == self._party.name
            by_person = not view.content.by_training and (own or not self._automatic)
            if view.content.kind == "columns" and not self._owner_approved(view):
                continue  # a person may reject it
            if view.state not in UNDECIDED or view.id in decided or by_person:
                continue
            reason = self._refusal(view)
            if not requester_is_valid(view.content):
                reason = "the signature of the requester is not valid"
            if reason:
                self.append(EventKind.REJECTED, view.id, DecisionBody(reason=reason[:MOST_REASON]))
            else:
                self.append(EventKind.APPROVED, view.id, DecisionBody())

    def _owner_approved(self, view: RequestView) -> bool:
        """Whether the origin of a request has approved it, or is this party."""
        return view.origin in {self._party.name, *view.approvals}

    def receipt(self, view: RequestView) -> Receipt | None:
        """Return the receipt of the batch of a verified request, with the signatures so far.

        None if a party has not stated its part yet.
        """
        events = self.journal.events()
        views = {each.id: each for each in self.requests()}
        keys = self.keys.known
        if keys.keys() < set(self.rules.parties):
            return None
        receipt = build_receipt(self._federation, view, views, events, keys)
        return None if receipt is None else signed_receipt(receipt, events, keys)

    def _sign(self, view: RequestView) -> None:
        """Complete a verified request (the hub), and sign the receipt that the hub completed.

        Raises:
            IntegrityError: the receipt contradicts itself, or is another one than this party
                builds.
        """
        receipt = self.receipt(view)
        if receipt is None:
            return
        self._require_consistent(receipt)
        if view.receipt is None:
            if self._party.name == self.rules.hub:
                self.append(EventKind.COMPLETED, view.id, CompletedBody(receipt=receipt.digest))
            else:
                return
        elif view.receipt != receipt.digest:
            raise IntegrityError(
                f"{self.rules.hub} completed the request {view.id} with another receipt than "
                f"{self._party.name} builds from its journal",
                "use the same version of vfl and the same agreement at all parties",
            )
        if self._party.name not in view.signatures:
            signature = self.keys.sign(receipt.signing_bytes).hex()
            body = SignedBody(receipt=receipt.digest, signature=signature)
            self.append(EventKind.SIGNED, view.id, body)

    def _require_consistent(self, receipt: Receipt) -> None:
        """Refuse to sign a receipt whose columns or guarantee cannot be true.

        Raises:
            IntegrityError: the receipt contradicts itself.
        """
        hub, refuses = self.rules.hub, f"so {self._party.name} does not sign their receipt"
        if receipt.repeated_columns:
            raise IntegrityError(
                f"{hub} carried out several requests about columns of "
                f"{', '.join(receipt.repeated_columns)} together, {refuses}",
                f"ask {hub} why: one request says how many columns of a party left",
            )
        if receipt.overstatement:
            names = ", ".join(each.request_id for each in receipt.requests)
            raise IntegrityError(
                f"{hub} claims too much for the requests {names}, {refuses}: "
                f"{receipt.overstatement}",
                f"ask {hub} why, and use the same version of vfl at all parties",
            )

    def _write(self, view: RequestView) -> None:
        """Write the receipt of a certified batch, unless its file exists."""
        folder = self._party.state / FOLDER
        if view.starts > 1:  # perhaps done again, after a backup was restored
            set_aside(folder, view.id, str(view.receipt))
        if (folder / f"{view.id}.json").exists():
            return
        receipt = self.receipt(view)
        if receipt is None or receipt.parties_without_signature:
            if self.lacks_receipt(view) and view.id not in self._lost:
                self._lost.add(view.id)
                self._party.progress.warn("; ".join(lost_receipt(view, self._party.name)))
        else:
            # The receipt comes last: its file shows that nothing is left to write.
            events, views = self.journal.events(), self.requests()
            left = left_parties(views, self.rules.parties)
            write_trust(folder, self._federation.name, self.keys.known, left, events, views)
            self._expect_notifications(view)
            self._write_page(view, receipt)
            path = write_receipt(folder, receipt)
            self._party.progress.note(f"receipt of {len(view.batch)} requests: {path}")

    def lacks_receipt(self, view: RequestView) -> bool:
        """Return whether this party has signed the receipt of a request, and its file is lost."""
        if view.state not in CARRIED_OUT or self._party.name not in view.signatures:
            return False
        return not (self._party.state / FOLDER / f"{min(view.batch)}.json").exists()

    def _expect_notifications(self, view: RequestView) -> None:
        """Record that the recipients in the party's settings are to be notified of a batch."""
        names = dict.fromkeys(() if view.content.by_training else self._recipients)
        for request in view.batch:
            purged = self._party.name in self.request(request).purged
            if names and not purged and self.notifications.of(request) is None:
                found = Notifications(tuple(DataRecipient(each) for each in names))
                self.notifications.save(request, found)

    def renew_page(self, view: RequestView) -> None:
        """Write the page of a receipt again, with whom this party has informed by now.

        The receipt itself is read from its file, because it never changes. Without the file, there
        is no page.

        Raises:
            StorageError: the page cannot be written.
            IntegrityError: the file of the receipt is damaged.
        """
        path = self._party.state / FOLDER / f"{min(view.batch)}.json"
        if not path.exists():
            return
        self._write_page(view, read_receipt(path))

    def _write_page(self, view: RequestView, receipt: Receipt) -> None:
        """Write the page of a certified batch with whom this party has informed."""
        found = {each: self.notifications.of(each) for each in sorted(view.batch)}
        known = {name: each for name, each in found.items() if each is not None}
        folder, events = self._party.state / FOLDER, self.journal.events()
        later = [
            departure_of(each.party, events, receipt.version_before) for each in receipt.departures
        ]
        arrived = [each for each in later if each.statement is not None]
        write_page(folder, receipt, self._party.name, self._party.now(), known, arrived)

    def _renew_pages_of_departures(self, new: Iterable[Event]) -> None:
        """Write the pages of receipts again that lack a statement among the ``new`` events."""
        left = {each.origin for each in new if each.kind is EventKind.LEFT}
        for view in self.requests() if left else []:
            if view.state in CARRIED_OUT and view.content.party in left:
                self.renew_page(view)

    def notify(self, view: RequestView, notifications: Notifications) -> None:
        """Store whom this party has informed about a certified request, and write its page again.

        When nobody is left to inform, the other parties receive the number of recipients.

        Raises:
            StorageError: the record or the page cannot be written; nothing has changed.
            IntegrityError: the file of the receipt is damaged.
        """
        with self.journal.transaction():
            view = self.request(view.id)
            self.notifications.save(view.id, notifications)
            open_recipients, requester = self.to_inform(view)
            if not open_recipients and not requester:
                failed = notifications.count(NotificationResult.FAILED)
                body = NotifiedBody(recipients=len(notifications.recipients), failed=failed)
                if view.notified.get(self._party.name) != body:
                    self.append(EventKind.NOTIFIED, view.id, body)
            self.renew_page(view)

    def to_inform(self, view: RequestView) -> tuple[int, bool]:
        """Return whom this party still has to inform about a request that was carried out.

        Returns:
            The number of recipients without a result, and whether the requester is to be informed:
            at the party that took the request, unless it made the request of its own accord.
        """
        if view.state not in CARRIED_OUT or self._party.name in view.purged:
            return 0, False
        found = self.notifications.of(view.id) or Notifications()
        asked = view.origin == self._party.name and view.content.requester_kind != "controller"
        return found.count(NotificationResult.OPEN), asked and not found.informed
