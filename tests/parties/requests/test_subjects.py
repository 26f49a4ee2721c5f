"""Subjects of requests: classes, sealed records, repeated requests, purge, and forgotten IDs."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from journals import Federation, content, federation

from parties.common.errors import IntegrityError, PolicyError
from parties.data.id_lists import ListedIds
from parties.requests.events import DecisionBody, EventKind, new_request_id
from parties.requests.persons import PersonKey, make_person_key, read_person_key
from parties.requests.subjects import (
    ForgottenList,
    Subject,
    SubjectClass,
    SubjectStore,
    aligned_rows,
    classify,
    count_classes,
    named_ids,
    openings,
    subjects_root,
)
from parties.session.store.sealing import KeyFile

ROWS = {b"p1": 5, b"p2": 3}
HELD = {b"p1", b"p2", b"p3"}


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Federation]:
    with federation(tmp_path, ("bank", "shop")) as made:
        yield made


@pytest.fixture
def keys(two: Federation) -> KeyFile:
    return KeyFile(two.path("shop").parent)


@pytest.fixture
def store(two: Federation, keys: KeyFile) -> SubjectStore:
    return SubjectStore(two.journals["shop"], keys)


@pytest.fixture
def forgotten(two: Federation, keys: KeyFile) -> ForgottenList:
    return ForgottenList(two.journals["shop"].database, keys)


def listed(*texts: str) -> ListedIds:
    lines = tuple(range(1, len(texts) + 1))
    return ListedIds(texts, tuple(text.encode() for text in texts), lines)


def submit(
    made: Federation,
    store: SubjectStore,
    subjects: Sequence[Subject],
    person: PersonKey | None = None,
) -> tuple[str, bool]:
    body = content(aligned_rows(subjects, ROWS))
    name = new_request_id(made.clock.now)
    return store.submit(body, subjects, person, made.views("shop"), name)


def test_ids_are_classified(forgotten: ForgottenList) -> None:
    forgotten.add([b"p4", b"p1"], "request", "2026-11-02")
    subjects = classify(listed("p1", "p2", "p3", "p4", "p5"), HELD, ROWS, forgotten)
    assert [each.found for each in subjects] == [
        SubjectClass.ALIGNED,
        SubjectClass.ALIGNED,
        SubjectClass.NOT_COMMON,
        SubjectClass.FORGOTTEN,
        SubjectClass.NOT_HELD,
    ]
    assert count_classes(subjects) == {
        "aligned": 2, "not_common": 1, "not_held": 1, "forgotten": 1,
    }  # fmt: skip
    assert aligned_rows(subjects, ROWS) == (3, 5)
    assert len({each.salt for each in subjects}) == 5


def test_subjects_can_be_proved_from_their_openings(forgotten: ForgottenList) -> None:
    subjects = classify(listed("p1", "p2", "p9"), HELD, ROWS, forgotten)
    found = openings("01KARVB9G0000000000000000G", subjects)
    assert found.root() == subjects_root(subjects)
    assert len(found.subjects) == 2


def test_request_is_journaled_with_its_sealed_subjects(
    two: Federation, store: SubjectStore, forgotten: ForgottenList
) -> None:
    subjects = classify(listed("alice", "p1"), HELD, ROWS, forgotten)
    request, new = submit(two, store, subjects)
    assert new
    assert store.of(request) == subjects
    (event,) = two.journals["shop"].events(request)
    assert event.body.model_dump()["subjects_root"] == subjects_root(subjects)
    two.journals["shop"].close()
    folder = two.path("shop").parent
    assert all(b"alice" not in path.read_bytes() for path in folder.iterdir())
    two.open("shop")


def test_same_list_is_the_same_request(
    two: Federation, store: SubjectStore, forgotten: ForgottenList
) -> None:
    first = submit(two, store, classify(listed("p1", "p2"), HELD, ROWS, forgotten))
    again = submit(two, store, classify(listed("p2", "p1"), HELD, ROWS, forgotten))
    other = submit(two, store, classify(listed("p2"), HELD, ROWS, forgotten))
    assert (again, other[1]) == ((first[0], False), True)
    assert two.journals["shop"].counts() == {"shop": 2}


def test_withdrawn_request_can_be_made_again(
    two: Federation, store: SubjectStore, forgotten: ForgottenList
) -> None:
    subjects = classify(listed("p1"), HELD, ROWS, forgotten)
    first, _ = submit(two, store, subjects)
    two.journals["shop"].append(EventKind.WITHDRAWN, first, DecisionBody())
    second, new = submit(two, store, subjects)
    assert new
    assert second != first
    assert submit(two, store, subjects) == (second, False)


def test_requester_signs_the_request(
    two: Federation, store: SubjectStore, forgotten: ForgottenList, tmp_path: Path
) -> None:
    make_person_key(tmp_path / "anna.key")
    person = read_person_key(tmp_path / "anna.key")
    submit(two, store, classify(listed("p1"), HELD, ROWS, forgotten), person)
    (view,) = two.views("shop")
    assert view.content.requester is not None
    assert view.content.requester.name == "anna"


def test_purge_deletes_the_private_record_of_an_ended_request(
    two: Federation, store: SubjectStore, forgotten: ForgottenList, keys: KeyFile
) -> None:
    request, _ = submit(two, store, classify(listed("p1"), HELD, ROWS, forgotten))
    (view,) = two.views("shop")
    with pytest.raises(PolicyError, match="is pending, so its record is still needed"):
        store.purge(view)
    two.journals["shop"].append(EventKind.WITHDRAWN, request, DecisionBody())
    (view,) = two.views("shop")
    store.purge(view)
    assert store.of(request) is None
    assert keys.get(f"subjects-{request}") is None
    assert two.journals["shop"].database.rows("submissions") == []
    assert two.views("shop")[0].purged == {"shop"}


def test_purged_request_whose_rows_an_earlier_one_removed_names_none(
    two: Federation, store: SubjectStore, forgotten: ForgottenList
) -> None:
    first, _ = submit(two, store, classify(listed("p1", "p2"), HELD, ROWS, forgotten))
    second, _ = submit(two, store, classify(listed("p2"), HELD, ROWS, forgotten))
    forgotten.add([b"p1", b"p2"], first, "2026-11-02")
    assert forgotten.add([b"p2"], second, "2026-11-02") == 0
    for each in (first, second):
        two.journals["shop"].append(EventKind.WITHDRAWN, each, DecisionBody())
    for view in two.views("shop"):
        store.purge(view)
    before, after = (named_ids(each, store, forgotten) for each in (first, second))
    assert before is not None
    assert b"p1" in before
    assert after == frozenset()
    assert named_ids(new_request_id(two.clock.now), store, forgotten) is None


def test_subjects_under_another_key_are_refused(
    two: Federation, store: SubjectStore, forgotten: ForgottenList, keys: KeyFile
) -> None:
    request, _ = submit(two, store, classify(listed("p1"), HELD, ROWS, forgotten))
    keys.destroy(f"subjects-{request}")
    keys.create(f"subjects-{request}")
    with pytest.raises(IntegrityError, match="cannot be decrypted"):
        store.of(request)


def test_forgotten_id_is_recognised_until_it_is_readmitted(
    two: Federation, forgotten: ForgottenList
) -> None:
    request = two.ask("shop")
    assert forgotten.add([b"p1", b"p2"], request, "2026-11-02") == 2
    assert forgotten.add([b"p1"], request, "2026-11-03") == 0
    assert b"p1" in forgotten
    assert forgotten.among([b"p3", b"p2", b"p1"]) == [1, 2]
    journal = two.journals["shop"]
    assert forgotten.readmit(journal, [b"p1", b"p3"], "new contract") == 1
    assert forgotten.among([b"p1", b"p2"]) == [1]
    event = journal.events(request)[-1]
    assert event.kind is EventKind.READMITTED
    assert event.body.model_dump() == {"count": 1, "reason": "new contract"}
    assert (len(forgotten), forgotten.readmitted_among([b"p1", b"p2", b"p3"])) == (1, [0])
    assert forgotten.readmit(journal, [b"p1"], "again") == 0
    assert forgotten.readmit(journal, [b"p2"], "new contract") == 1
    left = forgotten.of(request)
    assert left is not None
    assert b"p1" not in left, "all were readmitted"
    assert forgotten.add([b"p1"], "a later request", "2026-11-04") == 1
    assert b"p1" in forgotten
    assert forgotten.of("a later request") is None
    again = forgotten.of(request)
    assert again is not None
    assert (b"p1" in again, b"p2" in again) == (True, False)


def test_list_of_forgotten_ids_reveals_none(two: Federation, forgotten: ForgottenList) -> None:
    forgotten.add([b"alice"], "request", "2026-11-02")
    ((tag, *_),) = two.journals["shop"].database.rows("forgotten")
    other = ForgottenList(two.journals["bank"].database, KeyFile(two.path("bank").parent))
    other.add([b"alice"], "request", "2026-11-02")
    ((other_tag, *_),) = two.journals["bank"].database.rows("forgotten")
    assert tag != other_tag
    assert len(tag) == 32


def test_repr_shows_no_id(forgotten: ForgottenList) -> None:
    assert "p1" not in repr(classify(listed("p1"), HELD, ROWS, forgotten))
