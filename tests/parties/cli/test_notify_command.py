"""``vfl unlearn notify``: recipients with results, the state notified, the page, every refusal."""

import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path

import pytest
from kept_trio import KeptTrio, train_trio
from unlearn_desk import Desk, known

from parties.cli.notify_actions import Informed
from parties.common.errors import UsageProblem
from parties.requests.events import EventKind, NotifiedBody
from parties.requests.lifecycle import RequestState
from parties.requests.receipts import FOLDER

pytestmark = pytest.mark.slow  # a request is carried out
TODAY = datetime.now().astimezone().date()
STANDING = '[settings.left.requests]\nrecipients = ["Acme Analytics", "Old Archive"]\n'
ACME = ("--recipient", "Acme Analytics")
ARCHIVE = ("--recipient", "Old Archive")
DONE = ("--result", "notified")


@dataclass
class Certified:
    """Three parties and a certified request of the party left, which a person made."""

    desk: Desk
    request: str

    def folder(self, party: str = "left") -> Path:
        return self.desk.folder / "runs" / "trio" / party

    def page(self, party: str = "left") -> str:
        return (self.folder(party) / FOLDER / f"{self.request}.html").read_text()

    def exchange(self) -> None:
        """Send the events of left to right, over the hub."""
        with (
            closing(self.desk.trio.desk("left")) as left,
            closing(self.desk.trio.desk("right")) as right,
        ):
            right.merge(left.journal.since(right.journal.counts()), {})


@pytest.fixture(scope="module")
def certified(tmp_path_factory: pytest.TempPathFactory) -> Certified:
    folder = tmp_path_factory.mktemp("certified") / "trio"
    folder.mkdir()
    trio = train_trio(folder)
    desk = Desk(trio)
    trio.recipients["left"] = ("Acme Analytics", "Old Archive")
    desk.write({"left": STANDING})
    words = ("--for", "subject", "--received", TODAY - timedelta(days=20))
    request = desk.event("request", "--id", known(desk, 1)[0], *words)["request"]
    waiting = desk.event("request", "--label", "b", party="right")["request"]
    desk.refused(8, "is pending, so there is nothing to notify yet", "notify", request)
    desk.event("withdraw", waiting, party="right")
    trio.carry_out()
    return Certified(desk, request)


@pytest.fixture
def one(certified: Certified, tmp_path: Path) -> Certified:
    shutil.copytree(certified.desk.folder, tmp_path / "trio")
    copy = Desk(KeptTrio(tmp_path / "trio", certified.desk.trio.plan))
    copy.write({"left": STANDING})
    return Certified(copy, certified.request)


def test_certified_request_starts_with_the_standing_recipients(one: Certified) -> None:
    acme, archive, summary = one.desk.events("notify", one.request)
    assert (acme["recipient"], acme["result"], acme["day"]) == ("Acme Analytics", "open", "")
    assert archive["recipient"] == "Old Archive"
    assert (summary["state"], summary["open"], summary["requester_open"]) == ("certified", 2, True)
    assert "Old Archive" in one.page()
    (_, *reminders) = one.desk.events("status")
    assert [each["event"] for each in reminders] == ["to_inform"]
    assert [each["event"] for each in one.desk.events("status", party="right")] == ["status"]


def test_request_is_notified_when_nobody_is_left_to_inform(one: Certified) -> None:
    desk, receipt = one.desk, one.folder() / FOLDER / f"{one.request}.json"
    before, day = sha256(receipt.read_bytes()).digest(), TODAY - timedelta(days=2)
    found = desk.events("notify", one.request, *ACME, *DONE, "--on", day)[-1]
    assert (found["state"], found["open"]) == ("certified", 1)
    words = (*ARCHIVE, "--result", "failed", "--reason", "it was dissolved")
    found = desk.events("notify", one.request, *words)[-1]
    assert (found["state"], found["open"], found["requester_open"]) == ("certified", 0, True)
    found = desk.events("notify", one.request, "--requester", "--on", day)[-1]
    assert (found["state"], found["requester_informed"]) == ("notified", str(day))
    assert desk.trio.view("left", one.request).notified == {
        "left": NotifiedBody(recipients=2, failed=1)
    }
    page = one.page()
    assert f"failed: it was dissolved</td><td>{TODAY.day} {TODAY:%B %Y}" in page
    assert f"notified</td><td>{day.day} {day:%B %Y}" in page
    assert f"informed on {day.day} {day:%B %Y}." in page
    assert sha256(receipt.read_bytes()).digest() == before
    assert [each["event"] for each in desk.events("status")] == ["status"]
    shown = desk.event("show", one.request)
    assert shown["notified"] == {"left": {"recipients": 2, "failed": 1}}


def test_other_parties_receive_counts_and_no_name(one: Certified) -> None:
    one.desk.events("notify", one.request, *ACME, *ARCHIVE, *DONE, "--requester")
    one.exchange()
    view = one.desk.trio.view("right", one.request)
    assert view.state is RequestState.NOTIFIED
    assert view.notified["left"] == NotifiedBody(recipients=2)
    for each in one.folder("right").rglob("*"):
        assert each.is_dir() or b"Acme" not in each.read_bytes()
    for each in one.folder().glob("*"):  # the page alone shows names
        assert each.is_dir() or b"Acme" not in each.read_bytes()


def test_every_party_records_its_own_recipients(one: Certified) -> None:
    (empty,) = one.desk.events("notify", one.request, party="right")
    assert (empty["recipients"], empty["open"], empty["requester_open"]) == (0, 0, False)
    found = one.desk.events("notify", one.request, "--recipient", "Bureau", *DONE, party="right")
    assert found[-1]["state"] == "certified"  # only the party of the requester informs the person
    assert one.desk.trio.view("right", one.request).notified == {
        "right": NotifiedBody(recipients=1)
    }
    assert "Bureau" in one.page("right")
    assert "Bureau" not in one.page("left")
    desk = one.desk
    desk.refused(8, "was made at left", "notify", one.request, "--requester", party="right")
    assert desk.event("purge", "--request", one.request, party="right")["request"] == one.request


def test_same_result_again_makes_no_event_and_a_later_recipient_does(one: Certified) -> None:
    words = (*ACME, *ARCHIVE, *DONE, "--requester")
    for more in (words, words, ("--recipient", "Found Later", "--result", "open")):
        found = one.desk.events("notify", one.request, *more)[-1]
    assert (found["state"], found["open"]) == ("notified", 1)
    assert one.desk.events("status")[1]["event"] == "to_inform"
    one.desk.events("notify", one.request, "--recipient", "Found Later", *DONE)
    with closing(one.desk.trio.desk("left")) as left:
        events = left.journal.events(one.request)
    bodies = [each.body for each in events if each.kind is EventKind.NOTIFIED]
    assert bodies == [NotifiedBody(recipients=2), NotifiedBody(recipients=3)]


def test_name_without_disclosure_leaves_the_list(one: Certified) -> None:
    words = ("--result", "not-a-recipient")
    assert len(one.desk.events("notify", one.request, *ARCHIVE, *words)) == 2
    desk = one.desk
    desk.refused(2, "is not on the list", "notify", one.request, *ARCHIVE, *words)


def test_purge_waits_for_open_recipients_and_deletes_the_names(one: Certified) -> None:
    desk = one.desk
    desk.refused(8, "recipients of the data to notify is 2", "purge", "--request", one.request)
    desk.events("notify", one.request, *ACME, *ARCHIVE, *DONE)
    assert "Old Archive" in one.page()
    desk.event("purge", "--request", one.request)
    assert "Old Archive" not in one.page()
    assert [each["event"] for each in desk.events("status")] == ["status"]
    desk.refused(8, "was purged", "notify", one.request)
    with closing(desk.trio.desk("left")) as left:
        assert left.notifications.of(one.request) is None
        assert left.journal.database.rows("notifications") == []
    keys = json.loads((one.folder() / "keys.json").read_text())
    assert f"notifications-{one.request}" not in keys["keys"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (ACME, "expected --recipient and --result together"),
        (DONE, "expected --recipient and --result together"),
        ((*ACME, *DONE, "--reason", "x"), "--reason must be given with --result failed"),
        ((*ACME, "--result", "failed"), "--reason must be given with --result failed"),
        ((*ACME, "--result", "failed", "--reason", "x" * 1001), "--reason has 1001 characters"),
        (("--recipient", " ", *DONE), "the name of a recipient has 1 to 200 printable"),
        (("--recipient", "a\nb", *DONE), "the name of a recipient has 1 to 200 printable"),
        (("--recipient", "x" * 201, *DONE), "the name of a recipient has 1 to 200 printable"),
        (("--on", "2026-11-24"), "no result is given"),
        ((*ACME, "--result", "open", "--on", "2026-11-24"), "no result is given"),
        ((*ACME, *DONE, "--on", "2999-01-01"), "--on lies in the future"),
        ((*ACME, *DONE, "--on", "2020-01-01"), "--on lies before the request was received"),
    ],
)
def test_wrong_options_are_refused(
    certified: Certified, options: tuple[str, ...], message: str
) -> None:
    certified.desk.refused(2, message, "notify", certified.request, *options)


def test_unknown_result_and_unknown_request_are_refused(certified: Certified) -> None:
    certified.desk.refused(2, "no request has the ID 01K", "notify", "01K")
    result = certified.desk.run("notify", certified.request, *ACME, "--result", "done")
    assert result.exit_code == 2
    assert "not-a-recipient" in result.output


def test_damaged_receipt_is_refused_and_nothing_is_recorded(one: Certified) -> None:
    path = one.folder() / FOLDER / f"{one.request}.json"
    path.write_bytes(path.read_bytes()[:-1])
    one.desk.refused(9, "is not valid", "notify", one.request, *ACME, *DONE)
    assert one.desk.events("notify", one.request)[0]["result"] == "open"


@pytest.fixture
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Sets the local time zone, in the form of POSIX."""

    def change(name: str) -> None:
        monkeypatch.setenv("TZ", name)
        time.tzset()

    yield change
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("name", "hour", "today"),
    [("NZST-12", 20, "2026-11-25"), ("UTC0", 20, "2026-11-24"), ("PST8", 3, "2026-11-23")],
)
def test_day_of_a_result_is_a_local_day(
    certified: Certified, zone: Callable[[str], None], name: str, hour: int, today: str
) -> None:
    zone(name)
    now = datetime(2026, 11, 24, hour, tzinfo=UTC)
    view = replace(certified.desk.trio.view("left", certified.request), received_at=now)
    day = datetime.fromisoformat(today)
    assert Informed(requester=True).day(view, now) == today
    assert Informed(requester=True, on=day).day(view, now) == today
    tomorrow = Informed(requester=True, on=day + timedelta(days=1))
    with pytest.raises(UsageProblem, match="lies in the future"):
        tomorrow.day(view, now)
    yesterday = Informed(requester=True, on=day - timedelta(days=1))
    with pytest.raises(UsageProblem, match=f"before the request was received, {today}"):
        yesterday.day(view, now)
