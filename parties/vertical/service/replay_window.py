"""The versions that a party keeps for a replay of a request, until an agreed day."""

from dataclasses import dataclass
from datetime import date, timedelta

from parties.requests.duties import RequestDesk
from parties.requests.events import ErasedBody, EventKind, StatedBody, StoredItem
from parties.session.store.model_store import ModelStore
from parties.vertical.engine.party import VerticalParty

_MODEL = "model-"  # then the number of a file, in the ID of a stored item


def model_item(number: int, kind: str = "model", until: date | None = None) -> StoredItem:
    """Describe the file ``number`` of the store, for a statement."""
    day = None if until is None else until.isoformat()
    return StoredItem.model_validate({"id": f"{_MODEL}{number}", "kind": kind, "until": day})


def model_number(item: StoredItem) -> int | None:
    """Return the number of a file that ``model_item`` described; None for another item."""
    return int(item.id.removeprefix(_MODEL)) if item.id.startswith(_MODEL) else None


@dataclass(frozen=True, slots=True)
class KeptVersion:
    """A version that is kept, the last day of its window, and a request that states it."""

    until: date
    request: str


class ReplayWindow:
    """The versions from before requests that one party keeps for ``requests.replay_days``.

    Its own statements say what is kept until when, and its events when it was erased.
    """

    def __init__(self, desk: RequestDesk, party: VerticalParty, store: ModelStore) -> None:
        self._desk, self._party, self._store = desk, party, store
        self._checked: date | None = None  # the day on which expired versions were erased

    @property
    def today(self) -> date:
        """The present day, in UTC."""
        return self._party.now().date()

    def kept(self) -> dict[int, KeptVersion]:
        """Return the versions that this party stated as kept and has not erased, by number."""
        found: dict[int, KeptVersion] = {}
        for event in self._desk.journal.events():
            if event.origin != self._party.name:
                continue
            if isinstance(event.body, StatedBody):
                for item in event.body.keeps:
                    number = model_number(item)
                    if number is not None and item.until is not None:
                        found[number] = KeptVersion(date.fromisoformat(item.until), event.request)
            elif isinstance(event.body, ErasedBody):
                for item in event.body.items:
                    found.pop(model_number(item) or 0, None)
        return found

    def with_parent(self, parent: int | None) -> dict[int, date]:
        """Return what is kept once the version that follows ``parent`` is stated."""
        kept = {
            number: each.until
            for number, each in self.kept().items()
            if each.until >= self.today and number in {file.number for file in self._store.files()}
        }
        days = self._party.agreement.requests.replay_days
        if days and parent is not None:
            kept.setdefault(parent, self.today + timedelta(days=days))
        return kept

    def erase_expired(self) -> None:
        """Erase the versions whose window has ended, keys first, and record it; once a day."""
        if self._checked == self.today:
            return
        for number, each in self.kept().items():
            if each.until < self.today:
                self._store.erase(number)
                body = ErasedBody(items=(model_item(number),))
                self._desk.append(EventKind.ERASED, each.request, body)
                self._party.progress.note(
                    f"the days for a replay are over: erased version {number}"
                )
        self._checked = self.today
