"""The request journal: exchange of events, refusals, damage, a full disk, and other processes."""

import re
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from threading import Thread

import pytest
from journals import Federation, content, federation

from parties.common.errors import IntegrityError, StorageError
from parties.requests.events import DecisionBody, Event, EventKind, StartedBody
from parties.requests.journal import RequestJournal
from protocol.errors import IdentityError, LocalProtocolError, RemoteProtocolError


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Federation]:
    with federation(tmp_path) as made:
        yield made


def sent(event: Event, made: Federation, **changes: object) -> bytes:
    """The event with changed fields, signed again by its origin."""
    fields = {name: getattr(event, name) for name in Event.__slots__} | changes
    unsigned = Event(**{**fields, "signature": b""})  # type: ignore[arg-type]
    signature = made.keys[unsigned.origin].sign(unsigned.signing_bytes())
    return Event(**{**fields, "signature": signature}).encode()  # type: ignore[arg-type]


def test_appended_event_follows_the_previous_one(three: Federation) -> None:
    request = three.ask("shop")
    shop = three.journals["shop"]
    first = shop.append(EventKind.APPROVED, request, DecisionBody())
    second = shop.append(EventKind.WITHDRAWN, request, DecisionBody(reason="mistake"))
    assert (first.seq, second.seq) == (2, 3)
    assert second.prev == first.digest
    assert three.journals["shop"].heads() == {"shop": second.digest}
    assert three.journals["shop"].counts() == {"shop": 3}


def test_event_is_on_the_disk_when_append_returns(three: Federation, tmp_path: Path) -> None:
    three.ask("shop")
    copy = tmp_path / "copy"
    shutil.copytree(three.path("shop").parent, copy)  # the file of a process that was killed
    again = RequestJournal(
        copy / "requests.sqlite", "shop", three.keys["shop"].sign, three.verify, three.clock
    )
    assert again.counts() == {"shop": 1}
    again.close()


def test_two_journals_receive_the_events_of_each_other(tmp_path: Path) -> None:
    with federation(tmp_path, ("bank", "shop")) as two:
        request = two.ask("shop")
        two.exchange()
        two.approve(request)
        two.exchange()
        assert two.journals["bank"].heads() == two.journals["shop"].heads()
        kinds = [(each.origin, each.kind) for each in two.journals["shop"].events(request)]
        assert kinds == [
            ("bank", EventKind.JOURNALED),
            ("bank", EventKind.APPROVED),
            ("shop", EventKind.REQUESTED),
            ("shop", EventKind.APPROVED),
        ]


def test_spokes_receive_the_events_of_each_other_through_the_hub(three: Federation) -> None:
    request = three.ask("shop")
    three.ask("post")
    three.exchange()
    three.exchange()
    heads = three.journals["bank"].heads()
    assert heads == three.journals["shop"].heads() == three.journals["post"].heads()
    journaled = {
        each.origin
        for each in three.journals["post"].events(request)
        if each.kind is EventKind.JOURNALED
    }
    assert journaled == {"bank", "post"}


def test_same_event_twice_has_no_second_effect(three: Federation) -> None:
    three.ask("shop")
    records = three.journals["shop"].since({})
    assert len(three.journals["bank"].merge([*records, *records])) == 1
    assert three.journals["bank"].merge(records) == []
    assert three.journals["bank"].counts() == {"shop": 1, "bank": 1}


def test_start_records_the_events_that_the_hub_had_seen(three: Federation) -> None:
    request = three.ask("shop")
    three.exchange()
    body = StartedBody(batch=(request,), version=1, method="retrain")
    started = three.journals["bank"].append(EventKind.STARTED, request, body)
    assert started.body.model_dump()["seen"] == {"shop": 1, "post": 1}


def test_fork_is_refused_by_name(three: Federation) -> None:
    (event,) = three.journals["shop"].events(three.ask("shop"))
    three.exchange()
    other = sent(event, three, body=content((7,)))
    with pytest.raises(RemoteProtocolError, match="number 1 of shop: the journal of shop has a f"):
        three.journals["bank"].merge([other])


def test_event_after_another_predecessor_is_refused_by_name(three: Federation) -> None:
    request = three.ask("shop")
    three.exchange()
    event = three.journals["shop"].append(EventKind.APPROVED, request, DecisionBody())
    with pytest.raises(RemoteProtocolError, match="event 2 of shop does not follow event 1"):
        three.journals["bank"].merge([sent(event, three, prev="1" * 64)])


def test_gap_is_refused_by_name(three: Federation) -> None:
    three.approve(three.ask("shop"), "shop")
    with pytest.raises(RemoteProtocolError, match="event 2 of shop leaves a gap: expected event 1"):
        three.journals["bank"].merge(three.journals["shop"].since({"shop": 1}))


def test_wrong_signature_is_refused_by_name(three: Federation) -> None:
    (event,) = three.journals["shop"].events(three.ask("shop"))
    forged = Event(**{n: getattr(event, n) for n in Event.__slots__} | {"signature": b"\0" * 64})
    with pytest.raises(IdentityError, match="event 1 of shop: the signature of shop is wrong"):
        three.journals["bank"].merge([forged.encode()])


def test_event_that_another_party_signed_is_refused(three: Federation) -> None:
    (event,) = three.journals["shop"].events(three.ask("shop"))
    three.keys["shop"], key = three.keys["post"], three.keys["shop"]
    forged = sent(event, three)
    three.keys["shop"] = key
    with pytest.raises(IdentityError, match="signature of shop is wrong"):
        three.journals["bank"].merge([forged])


def test_event_of_an_unknown_party_is_refused(three: Federation, tmp_path: Path) -> None:
    with federation(tmp_path / "other", ("thief",)) as other:
        other.ask("thief")
        with pytest.raises(IdentityError, match="event 1 of thief: no key of thief is known"):
            three.journals["bank"].merge(other.journals["thief"].since({}))


def test_bytes_that_are_no_event_are_refused(three: Federation) -> None:
    with pytest.raises(RemoteProtocolError, match="received an event that is not valid"):
        three.journals["bank"].merge([b"{}"])


def test_refused_events_leave_nothing_behind(three: Federation) -> None:
    three.ask("shop")
    with pytest.raises(RemoteProtocolError):
        three.journals["bank"].merge([*three.journals["shop"].since({}), b"{}"])
    assert three.journals["bank"].counts() == {}


def test_used_request_id_is_refused(three: Federation) -> None:
    request = three.ask("shop")
    with pytest.raises(LocalProtocolError, match="exists already"):
        three.ask("shop", request=request)
    three.ask("post", request=request)
    three.exchange("shop")
    with pytest.raises(RemoteProtocolError, match="event 1 of post uses the ID of a request of sh"):
        three.journals["bank"].merge(three.journals["post"].since({}))


def test_event_that_is_not_valid_is_not_appended(three: Federation) -> None:
    with pytest.raises(LocalProtocolError, match="rows of a request must be ascending"):
        three.ask("shop", rows=(2, 1))
    with pytest.raises(LocalProtocolError, match="'request'"):
        three.ask("shop", request="7")
    assert three.journals["shop"].counts() == {}


def test_restored_backup_receives_its_own_events_back(three: Federation, tmp_path: Path) -> None:
    three.ask("shop")
    shop = three.journals["shop"]
    shop.close()
    shutil.copy(three.path("shop"), tmp_path / "backup")
    three.open("shop")
    request = three.ask("shop")
    three.exchange("shop")
    three.journals["shop"].close()
    shutil.copy(tmp_path / "backup", three.path("shop"))
    restored = three.open("shop")
    found = restored.merge(three.journals["bank"].since(restored.counts()))
    assert request in {each.request for each in found}
    assert restored.heads() == three.journals["bank"].heads()
    restored.close()


def test_clock_that_is_set_back_keeps_the_order(three: Federation) -> None:
    request = three.ask("shop")
    three.clock.now = three.clock.now.replace(year=2025)
    three.approve(request, "shop")
    first, second = three.journals["shop"].events()
    assert (first.seq, second.seq) == (1, 2)
    assert second.time < first.time
    (view,) = three.views("shop")
    assert view.clock_anomaly
    assert view.approvals == {"shop"}


def test_signatures_of_stored_events_are_verified(three: Federation) -> None:
    three.ask("shop")
    three.journals["shop"].check_signatures()
    three.keys["shop"] = three.keys["post"]
    with pytest.raises(IntegrityError, match="event 1 of shop: the signature of shop is wrong"):
        three.journals["shop"].check_signatures()


# --- damage ---------------------------------------------------------------------------------------


def filled(folder: Path) -> Federation:
    """Closed journals of two parties, with 40 events and private rows at the shop."""
    with federation(folder, ("bank", "shop")) as made:
        for number in range(12):
            request = made.ask("shop", rows=tuple(range(number, number + 5)))
            made.exchange()
            made.approve(request, "bank")
            made.journals["shop"].database.insert("subjects", (request, b"sealed"))
        made.exchange()
    return made


def content_of(made: Federation) -> tuple[list[bytes], list[tuple[object, ...]]]:
    journal = made.open("shop")
    try:
        return journal.since({}), journal.database.rows("subjects")
    finally:
        journal.close()


def spoiled(made: Federation, expected: object, at: int, bit: int) -> str:
    """Change one byte of the file; return what happened: the error or "equal"."""
    path = made.path("shop")
    before = path.read_bytes()
    path.write_bytes(before[:at] + bytes([before[at] ^ (1 << bit)]) + before[at + 1 :])
    try:
        found = content_of(made)
    except (IntegrityError, StorageError) as error:
        return type(error).__name__ if str(path) in str(error) else "an error without the path"
    else:
        assert found == expected, f"byte {at} of the file: a wrong state was taken for right"
        return "equal"
    finally:
        for name in path.parent.iterdir():
            name.unlink()
        path.write_bytes(before)


def test_damage_in_the_header_of_each_record_is_found(tmp_path: Path) -> None:
    made = filled(tmp_path)
    records, _ = expected = content_of(made)
    data = made.path("shop").read_bytes()
    for record in records:
        at = data.index(record[:200])
        for offset in (-70, -65, -8, -4, -3, -2, -1, 0, 1):  # the cell's header, digest and record
            assert spoiled(made, expected, at + offset, bit=2) == "IntegrityError"


def test_damage_at_random_bytes_of_records_is_found(tmp_path: Path) -> None:
    made, random = filled(tmp_path), Random(7)
    records, _ = expected = content_of(made)
    data = made.path("shop").read_bytes()
    for _ in range(200):
        record = random.choice(records)
        at = data.index(record[:200]) + random.randrange(200)
        assert spoiled(made, expected, at, random.randrange(8)) == "IntegrityError"


def test_damage_anywhere_in_the_file_is_found_or_harmless(tmp_path: Path) -> None:
    made, random = filled(tmp_path), Random(11)
    expected = content_of(made)
    size = made.path("shop").stat().st_size
    places = [*range(100), *(random.randrange(size) for _ in range(300))]
    found = [spoiled(made, expected, at, random.randrange(8)) for at in places]
    assert found.count("IntegrityError") > 100


def test_lost_events_and_lost_private_rows_are_found(tmp_path: Path) -> None:
    made = filled(tmp_path)
    for table in ("subjects", "events"):
        copy = made.path("shop").read_bytes()
        with sqlite3.connect(made.path("shop")) as connection:
            connection.execute(f"DELETE FROM {table}")
        connection.close()
        with pytest.raises(IntegrityError, match="lost"):
            made.open("shop")
        made.path("shop").write_bytes(copy)


def test_changed_event_with_a_new_digest_is_found(tmp_path: Path) -> None:
    made = filled(tmp_path)
    with sqlite3.connect(made.path("shop")) as connection:
        connection.execute("UPDATE events SET seq = 99 WHERE origin = 'shop' AND seq = 3")
    connection.close()
    with pytest.raises(IntegrityError, match=r"event 4 of shop does not follow|was changed"):
        made.open("shop")


def test_file_of_another_program_is_refused(tmp_path: Path) -> None:
    made = Federation(tmp_path, ("bank",))
    made.path("bank").parent.mkdir()
    made.path("bank").write_bytes(b"not a database" * 100)
    with pytest.raises(IntegrityError, match="is damaged: NOTADB"):
        made.open("bank")


def test_file_of_another_format_is_refused(tmp_path: Path) -> None:
    made = filled(tmp_path)
    with sqlite3.connect(made.path("shop")) as connection:
        connection.execute("PRAGMA user_version = 9")
    connection.close()
    with pytest.raises(IntegrityError, match="has format 9; expected format 2"):
        made.open("shop")


# --- files, disks and processes -------------------------------------------------------------------


def test_only_this_account_can_read_the_file(three: Federation) -> None:
    assert three.path("shop").stat().st_mode & 0o077 == 0


def fill(made: Federation) -> list[bytes]:
    """Append events at the shop until the disk is full; return the events before the failure."""
    try:
        while made.ask("shop", rows=tuple(range(3000))):
            before = made.journals["shop"].since({})
    except StorageError as error:
        expect_full(error)
    return before


def expect_full(error: StorageError) -> None:
    assert re.search(r"requests.sqlite: (FULL|IOERR\w*), nothing was changed", str(error))
    assert "disk" in error.hint


def test_full_file_changes_nothing_and_work_continues_afterwards(three: Federation) -> None:
    database = three.journals["shop"].database
    database.query("PRAGMA max_page_count = 40")
    before = fill(three)
    assert three.journals["shop"].since({}) == before
    database.query("PRAGMA max_page_count = 100000")
    three.ask("shop")
    assert three.journals["shop"].counts() == {"shop": len(before) + 1}


@pytest.mark.slow
def test_full_disk_changes_nothing_and_work_continues_afterwards(tmp_path: Path) -> None:
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(tmp_path)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("this account may not mount a file system")
    try:
        (tmp_path / "ballast").write_bytes(bytes(500_000))
        with federation(tmp_path, ("shop",)) as made:
            before = fill(made)
            assert made.journals["shop"].since({}) == before
            (tmp_path / "ballast").unlink()
            made.ask("shop")
            assert made.journals["shop"].counts() == {"shop": len(before) + 1}
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


def test_folder_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "bank").write_text("a file")
    with pytest.raises(StorageError, match=r"cannot use .*requests.sqlite"):
        Federation(tmp_path, ("bank",)).open("bank")


def test_two_processes_append_to_one_journal(three: Federation) -> None:
    other = Federation(three.folder, three.names)
    threads = []
    for made in (three, other):
        if made is other:
            other.open("shop")
        threads.append(Thread(target=lambda made=made: [made.ask("shop") for _ in range(20)]))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    other.journals["shop"].close()
    assert three.journals["shop"].counts() == {"shop": 40}
    assert [each.seq for each in three.journals["shop"].events()] == list(range(1, 41))


def test_file_that_another_process_keeps_locked_is_reported(
    three: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    with sqlite3.connect(three.path("shop"), isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        three.journals["shop"].database.query("PRAGMA busy_timeout = 50")
        with pytest.raises(StorageError, match="was locked by another process"):
            three.ask("shop")
        other.execute("ROLLBACK")
    other.close()
    three.ask("shop")


def test_transaction_that_fails_leaves_nothing_behind(three: Federation) -> None:
    shop = three.journals["shop"]
    with suppress(KeyError), shop.transaction():
        request = three.ask("shop")
        shop.database.insert("subjects", (request, b"sealed"))
        raise KeyError
    assert shop.counts() == {}
    assert shop.database.rows("subjects") == []
