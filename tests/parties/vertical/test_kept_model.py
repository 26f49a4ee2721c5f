"""A new training beside a kept model: a newer version, or a refusal; forgotten rows stay out."""

import shutil
from contextlib import closing
from pathlib import Path

import pytest
from kept_trio import KeptTrio, train_trio
from three_parties import PARTIES, party

from parties.common.errors import DataError, PolicyError, StorageError
from parties.requests.events import DecisionBody, EventKind
from parties.requests.journal import refuse_open_requests
from parties.requests.lifecycle import RequestState
from parties.requests.subjects import ForgottenList
from parties.session.setup import Begin
from parties.vertical.forgotten_rows import request_rules, without_forgotten_rows
from parties.vertical.kept_model import kept_ids, kept_rows, present_version
from parties.vertical.resume import prepare_start
from unlearning.receipts.receipt import decode_receipt


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> KeptTrio:
    """Three parties that have trained; tests work on copies."""
    return train_trio(tmp_path_factory.mktemp("trained"))


@pytest.fixture
def trio(trained: KeptTrio, tmp_path: Path) -> KeptTrio:
    """A copy of the trained parties."""
    folder = tmp_path / "trio"
    shutil.copytree(trained.folder, folder)
    return KeptTrio(folder, trained.plan)


def forgotten_ids(trio: KeptTrio, name: str) -> list[bytes]:
    """The IDs of a party's whole data that its list of forgotten IDs contains."""
    us = trio.party(name)
    lines = (trio.folder / f"{name}.csv").read_text().splitlines()[1:]
    with closing(trio.desk(name)) as desk:
        every = [line.split(",")[0].encode() for line in lines]
        found = ForgottenList(desk.journal.database, us.keys).among(every)
    return [every[at] for at in found]


def test_forgotten_rows_are_listed_and_no_later_training_uses_them(trio: KeptTrio) -> None:
    before = {name: kept_ids(store, 1) for name, store in trio.models().items()}
    trio.request("left", [3, 5, 8])
    trio.carry_out()
    gone = {name: {ids[row] for row in (3, 5, 8)} for name, ids in before.items()}
    for name in PARTIES:
        assert set(forgotten_ids(trio, name)) == gone[name]
        assert not gone[name] & set(trio.party(name, serves=False).holding.ids)
    request_version = present_version(trio.models()["hub"])
    trio.train()
    for name, store in trio.models().items():
        versions = [each for each in store.files() if each.version]
        assert [each.number for each in versions] == [request_version, request_version + 1]
        assert versions[0].run != versions[1].run
        assert not gone[name] & set(kept_rows(store))
        with closing(trio.desk(name)) as desk:
            assert desk.frozen_rows(request_version + 1) == frozenset()
            # A backup from before the request: its rows are not used.
            assert desk.frozen_rows(1) == {3, 5, 8}


def test_readmitted_row_is_used_again(trio: KeptTrio) -> None:
    request = trio.request("left", [3])
    trio.carry_out()
    (gone,) = forgotten_ids(trio, "left")
    us = trio.party("left")
    with closing(trio.desk("left")) as desk:
        forgotten = ForgottenList(desk.journal.database, us.keys)
        assert forgotten.readmit(desk.journal, [gone], "new contract") == 1
        assert desk.request(request).version_after is not None
    assert gone in set(trio.party("left", serves=False).holding.ids)


def test_data_without_forgotten_rows_has_another_digest(trio: KeptTrio) -> None:
    before = trio.party("left", serves=False).holding
    assert without_forgotten_rows(before, trio.party("left")) is before
    trio.request("left", [3])
    trio.carry_out()
    after = trio.party("left", serves=False).holding
    assert len(after) == len(before) - 1
    assert after.digest != before.digest
    assert trio.party("left", serves=False).holding.digest == after.digest


def test_data_of_forgotten_rows_alone_is_refused(trio: KeptTrio) -> None:
    us = trio.party("left")
    with closing(trio.desk("left")) as desk:
        forgotten = ForgottenList(desk.journal.database, us.keys)
        forgotten.add(us.holding.ids, "01ARZ", "2026-11-24")
    with pytest.raises(DataError, match="all 230 rows of left were forgotten"):
        trio.party("left", serves=False)


def test_open_request_refuses_a_training_until_it_is_withdrawn_or_carried_out(
    trio: KeptTrio,
) -> None:
    requests = [trio.request("left", [row]) for row in range(4)]
    with pytest.raises(PolicyError, match=r"has 4 open requests .* and 1 more") as error:
        prepare_start(trio.party("left", serves=False), Begin.AUTO)
    assert requests[0] in str(error.value)
    assert "vfl unlearn withdraw" in error.value.hint
    with closing(trio.desk("left")) as desk:
        for each in requests[1:]:
            desk.append(EventKind.WITHDRAWN, each, DecisionBody(reason="mistake"))
    left = trio.party("left")
    rules = request_rules(left.agreement)
    with pytest.raises(PolicyError, match="has 1 open requests"):
        refuse_open_requests(left, rules)
    trio.carry_out()
    refuse_open_requests(trio.party("left"), rules)


def test_party_without_a_journal_may_train(trio: KeptTrio) -> None:
    shutil.rmtree(trio.folder / "runs")
    prepare_start(trio.party("left", serves=False), Begin.AUTO)
    assert not (trio.folder / "runs" / "trio" / "left" / "requests.sqlite").exists()


def test_training_beside_a_kept_model_is_announced_as_a_newer_version(trio: KeptTrio) -> None:
    events: list[dict[str, object]] = []
    us = party(trio.folder, "left", trio.plan, events)
    prepare_start(us, Begin.AUTO)
    assert any("version 1 of the model stays" in str(each) for each in events)


def test_training_that_keeps_nothing_is_refused_beside_a_kept_model(trio: KeptTrio) -> None:
    plan = trio.plan | {"requests": {"keep": "nothing"}}
    us = party(trio.folder, "left", plan, [])
    with pytest.raises(StorageError, match="keeps version 1 of the model") as error:
        prepare_start(us, Begin.AUTO)
    assert "vfl models remove --all" in error.value.hint


def test_training_of_another_architecture_becomes_a_newer_version(trio: KeptTrio) -> None:
    first = trio.models()["hub"].files()
    other = KeptTrio(trio.folder, trio.plan | {"top": {"kind": "mlp", "hidden": [7]}})
    other.train()
    for store in other.models().values():
        assert [each.number for each in store.files()] == [1, 2]
        assert store.offer().numbers == (2,)
    assert other.models()["hub"].files()[0] == first[0]
    with pytest.raises(StorageError, match="trained with another agreement: top differ"):
        trio.models()["hub"].offer()


def test_next_start_finishes_an_erasure_and_names_it(trio: KeptTrio) -> None:
    events: list[dict[str, object]] = []
    us = party(trio.folder, "left", trio.plan, events)
    us.keys.destroy("model 1")
    prepare_start(us, Begin.AUTO)
    assert any("removed 000001.sealed" in str(each) for each in events)
    assert not trio.models()["left"].files()


def test_backup_of_one_party_from_before_a_request_is_not_used(
    trio: KeptTrio, trained: KeptTrio
) -> None:
    request = trio.request("left", [3, 5])
    trio.carry_out()
    state = Path("runs") / "trio" / "right"
    shutil.rmtree(trio.folder / state)
    shutil.copytree(trained.folder / state, trio.folder / state)
    with pytest.raises(StorageError, match="keep no common version"):
        trio.carry_out()
    assert trio.view("left", request).state.value == "certified"
    assert present_version(trio.models()["left"]) > 1


def restore(trio: KeptTrio, trained: KeptTrio, *names: str) -> None:
    """Put files and folders of every party back, as from a backup of after the training."""
    for party_name in PARTIES:
        state = Path("runs") / "trio" / party_name
        for name in names:
            kept, backup = trio.folder / state / name, trained.folder / state / name
            if kept.is_dir():
                shutil.rmtree(kept)
            if backup.is_dir():
                shutil.copytree(backup, kept)
            else:
                kept.unlink()
                shutil.copy(backup, kept)


def test_requests_that_a_restored_model_does_not_know_are_done_again_first(
    trio: KeptTrio, trained: KeptTrio
) -> None:
    requests = [trio.request("left", [3, 5]), trio.request("right", [8])]
    trio.carry_out()
    gone = {name: kept_ids(store, 1) for name, store in trained.models().items()}
    before = trio.view("hub", requests[0])
    restore(trio, trained, "models", "keys.json")
    later = trio.request("hub", [13])
    trio.carry_out()
    for name, store in trio.models().items():
        assert not {gone[name][row] for row in (3, 5, 8, 13)} & set(kept_rows(store))
        assert [each.number for each in store.files()] == [present_version(store)]
    again = {each: trio.view("left", each) for each in requests}
    for view in again.values():
        assert (view.state, view.starts) == (RequestState.CERTIFIED, 2)
        assert view.version_before == 1
        assert view.batch == tuple(requests)
    after = trio.view("right", later)
    assert after.version_before == again[requests[0]].version_after
    assert after.version_before > (before.version_after or 0)


def test_request_that_is_done_again_has_a_new_receipt_and_the_earlier_one_stays(
    trio: KeptTrio, trained: KeptTrio
) -> None:
    request = trio.request("left", [3, 5])
    trio.carry_out()
    folder = trio.folder / "runs" / "trio" / "hub" / "receipts"
    first = decode_receipt((folder / f"{request}.json").read_bytes())
    restore(trio, trained, "models", "keys.json")
    trio.carry_out()
    second = decode_receipt((folder / f"{request}.json").read_bytes())
    kept = folder / f"{request} {first.digest[:8]}.json"
    assert decode_receipt(kept.read_bytes()) == first
    assert kept.with_suffix(".html").exists()
    assert second.prev_receipt_hash == first.digest
    assert second.parties_without_signature == []
    assert second.version_before == first.version_before
    trio.carry_out()  # nothing is left to do
    assert decode_receipt((folder / f"{request}.json").read_bytes()) == second


def test_backup_from_before_a_later_training_and_its_requests_is_refused(
    trio: KeptTrio, trained: KeptTrio
) -> None:
    trio.train()
    trio.request("left", [3])
    trio.carry_out()
    restore(trio, trained, "models", "keys.json")
    with pytest.raises(StorageError, match="carried out after a later training"):
        trio.carry_out()


def test_training_after_all_versions_were_removed_has_a_new_number(trio: KeptTrio) -> None:
    trio.request("left", [3])
    trio.carry_out()
    for store in trio.models().values():
        store.prune(1 + present_version(store), versions=True)
    trio.train()
    for name, store in trio.models().items():
        with closing(trio.desk(name)) as desk:
            assert desk.frozen_rows(present_version(store)) == frozenset()
