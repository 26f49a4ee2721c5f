"""A training that goes on from a kept version: new rows, a party that leaves, one that joins."""

import shutil
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import three_parties
import torch
from kept_trio import TRAINING, KeptTrio, train_trio
from three_parties import PARTIES, agreement, certify, write_data

from configs.errors import ConfigError
from parties.common.errors import PolicyError, StorageError
from parties.data.party_settings import VerticalPartySettings
from parties.data.sources.csv_source import CsvData
from parties.requests.lifecycle import RequestState
from parties.session.setup import NEWEST
from parties.session.store.model_store import StoredFile
from parties.vertical.alignment.align import Alignment, align_active
from parties.vertical.alignment.differencing import refuse_small_change
from parties.vertical.alignment.psi_input import PsiInput
from parties.vertical.engine.networks import FIRST_TOP_LAYER, KeptPart
from parties.vertical.engine.optimiser import UpdateRule
from parties.vertical.engine.party import VerticalParty
from parties.vertical.engine.party_state import unpack_ids
from parties.vertical.forgotten_rows import forgotten_count
from parties.vertical.kept_model import kept_rows
from parties.vertical.orders import OrderCheck
from parties.vertical.resume import party_checkpoints
from protocol import vfl_pb2
from protocol.dataclass_codec import encode
from protocol.errors import ProtocolError, RemoteProtocolError
from protocol.hub import Hub

FEW = {"unlearning": {"method": "fine-tune", "compare": (), "retrains": 0}}
VOTES = {
    "hub": {"role": "active", "width": 3},
    "left": {"role": "passive", "width": 3},
    "right": {"role": "passive", "width": 3},
}
FIXED = {"codes": "fixed", "keep_embeddings": True}
RATES = {"top_learning_rate": 1e-12, "joint_rate": 1e-12, "joint_epochs": 1.0}
STILL = {**TRAINING, "continued": RATES}  # changes nothing visibly


def every(trio: KeptTrio, version: str = NEWEST) -> dict[str, str]:
    """Every party goes on from the same version."""
    return dict.fromkeys(trio.names, version)


def newest(trio: KeptTrio, name: str) -> StoredFile:
    """The newest version of a party."""
    found = trio.models()[name].newest_version()
    assert found is not None
    return found


def network(trio: KeptTrio, name: str) -> Mapping[str, torch.Tensor]:
    """The parameters of the newest version of a party."""
    store = trio.models()[name]
    found: Mapping[str, torch.Tensor] = store.read(newest(trio, name).number).tensors["network 0"]
    return found


def statistics(trio: KeptTrio, name: str) -> Any:
    """The preprocessing of the newest version of a party."""
    store = trio.models()[name]
    return store.read(newest(trio, name).number).values["fitted"][0]


def without(plan: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The agreement without a party."""
    left = {each: entry for each, entry in plan["parties"].items() if each != name}
    return {**plan, "parties": left}


def leave_out(folder: Path, ids: Iterable[bytes]) -> None:
    """Remove rows from the files of all parties."""
    gone = {each.decode() for each in ids}
    for name in PARTIES:
        lines = (folder / f"{name}.csv").read_text().splitlines()
        left = [line for line in lines if line.split(",")[0] not in gone]
        (folder / f"{name}.csv").write_text("\n".join(left) + "\n")


def keep_first_rows(folder: Path, rows: int) -> dict[str, str]:
    """Leave only some rows in the files of all parties, and return the whole files."""
    whole = {name: (folder / f"{name}.csv").read_text() for name in PARTIES}
    for name, text in whole.items():
        head, *lines = text.splitlines()
        some = [line for line in lines if int(line.split(",")[0][1:]) < rows]
        (folder / f"{name}.csv").write_text("\n".join([head, *some]) + "\n")
    return whole


@pytest.fixture
def trio(tmp_path: Path) -> KeptTrio:
    """Three parties with a kept model."""
    return train_trio(tmp_path, **FEW)


def test_new_rows_are_learned_from_the_kept_parameters_and_preprocessing(tmp_path: Path) -> None:
    write_data(tmp_path)
    certify(tmp_path)
    whole = keep_first_rows(tmp_path, 200)
    trio = train_again(tmp_path)
    before = {name: network(trio, name) for name in PARTIES}
    fitted = {name: statistics(trio, name) for name in PARTIES}
    old, divided = kept_rows(trio.models()["left"]), sets_by_id(trio, "left")
    for name, text in whole.items():
        (tmp_path / f"{name}.csv").write_text(text)
    first = newest(trio, "hub").number
    trio.plan = {**trio.plan, "training": STILL}
    trio.train(versions=every(trio))
    new = kept_rows(trio.models()["left"])
    assert set(old) < set(new)
    assert len(new) > 200
    later = sets_by_id(trio, "left")
    for part, ids in divided.items():  # rows of the version keep their place
        assert ids < later[part]
    for name in PARTIES:
        assert sets_by_id(trio, name) == later
        made = newest(trio, name)
        assert made.number == first + 1
        assert made.version is not None
        assert (made.version.made_by, made.version.parent) == ("training", first)
        assert statistics(trio, name) == fitted[name]  # not fitted again
        now = network(trio, name)
        assert all(torch.allclose(now[key], before[name][key], atol=1e-9) for key in now)


def sets_by_id(trio: KeptTrio, name: str) -> dict[str, set[bytes]]:
    """The IDs of the training, validation and test rows of the newest version."""
    content = trio.models()[name].read(newest(trio, name).number)
    ids, rows = unpack_ids(content.tensors["ids"]), content.tensors["rows"]
    return {part: {ids[row] for row in rows[part]} for part in ("train", "validation", "test")}


def train_again(folder: Path) -> KeptTrio:
    """Train on the files that lie in the folder."""
    trio = KeptTrio(folder, agreement(training=TRAINING, **FEW))
    trio.train()
    return trio


def test_only_the_top_model_and_joint_epochs_are_trained(trio: KeptTrio) -> None:
    plan = {**TRAINING, "continued": {"top_epochs": 3, "joint_epochs": 2.0}}
    trio.plan = {**trio.plan, "training": plan}
    metrics = trio.train(versions=every(trio))
    assert len(metrics["training"]["steps"]) == 5  # no epoch of a local fit


def test_new_weights_differ_from_the_kept_ones(trio: KeptTrio) -> None:
    """The control of the test above: without --from, the same settings give another model."""
    before = network(trio, "left")
    trio.plan = {**trio.plan, "training": {**TRAINING, "learning_rate": 1e-12}}
    trio.train()
    now = network(trio, "left")
    assert not any(torch.allclose(now[key], before[key], atol=1e-3) for key in now)


def test_a_forgotten_row_does_not_come_back(trio: KeptTrio) -> None:
    rows = kept_rows(trio.models()["left"])
    gone = sorted(rows)[:3]
    request = trio.request("left", [rows[each] for each in gone])
    with pytest.raises(PolicyError, match="open requests"):
        trio.train(versions=every(trio))
    trio.carry_out()
    made = newest(trio, "hub").number
    trio.train(versions=every(trio))
    assert newest(trio, "hub").number > made
    assert not set(gone) & set(kept_rows(trio.models()["left"]))
    assert trio.view("left", request).state is RequestState.CERTIFIED


def test_forgotten_and_known_rows_do_not_cross_the_intersection(
    trio: KeptTrio, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files of all parties still have the forgotten rows."""
    rows = kept_rows(trio.models()["left"])
    gone = sorted(rows)[:3]
    trio.request("left", [rows[each] for each in gone])
    trio.carry_out()
    crossing: list[bytes] = []
    begin = PsiInput.begin

    def recorded(self: PsiInput, buckets: int, completed: int) -> None:
        crossing.extend(self.ids)
        begin(self, buckets, completed)

    monkeypatch.setattr(PsiInput, "begin", recorded)
    trio.train(versions=every(trio))
    first = min(set(rows) - set(gone))
    assert {*crossing} & {*rows} == {first}
    assert all(ids_in(trio.folder, name) >= set(gone) for name in PARTIES)
    assert set(kept_rows(trio.models()["left"])) == set(rows) - set(gone)


def test_too_few_new_rows_are_refused_when_a_training_goes_on(trio: KeptTrio) -> None:
    trio.plan = {**trio.plan, "psi": {"minimum": 10, "differencing": 5}}
    trio.train(versions=every(trio))  # from here on the number of common rows is known
    for name in PARTIES:
        with (trio.folder / f"{name}.csv").open("a") as file:
            file.write("".join(f"q{row},0,0,0{',a' * (name == 'hub')}\n" for row in range(3)))
    with pytest.raises(PolicyError, match=r"differ by less than psi\.differencing = 5"):
        trio.train(versions=every(trio))


def test_another_alignment_after_the_rows_is_refused(
    trio: KeptTrio, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hub would learn a difference of two sets of its own rows."""

    def twice(party: VerticalParty, hub: Hub) -> Alignment:
        found = align_active(party, hub)
        hub.broadcast(vfl_pb2.StartAlignment(rows=9, completed_buckets=0))
        hub.gather(10)
        return found

    monkeypatch.setattr("parties.vertical.resume.align_active", twice)
    with pytest.raises(ProtocolError, match="sent StartAlignment, which a passive party does not"):
        trio.train(versions=every(trio))


def test_no_training_goes_on_from_a_version_that_knows_forgotten_rows(tmp_path: Path) -> None:
    trio = train_trio(tmp_path, **FEW, requests={"replay_days": 30})
    first = str(newest(trio, "hub").number)
    rows = kept_rows(trio.models()["left"])
    trio.request("left", list(rows.values())[:2])
    trio.carry_out()
    assert first in {str(each.number) for each in trio.models()["hub"].files()}  # for a replay
    with pytest.raises(PolicyError, match=f"version {first} is from before a request"):
        trio.train(versions=every(trio, first))


def test_after_a_party_left_the_model_is_one_that_never_knew_it(
    trio: KeptTrio, tmp_path: Path
) -> None:
    rows = kept_rows(trio.models()["right"])
    asked = sorted(rows)[:2]
    old = trio.request("right", [rows[each] for each in asked])
    trio.carry_out()
    gone = set(kept_rows(trio.models()["left"]))
    trio.plan = without(trio.plan, "right")
    trio.train(versions=every(trio))
    assert len(set(kept_rows(trio.models()["left"])) - gone) > 0  # rows that right did not have
    for name in trio.names:  # versions from before are erased
        assert [each.number for each in trio.models()[name].files()] == [newest(trio, name).number]
    # The request of the party that left stays carried out, and the others forget without it.
    assert trio.view("left", old).state is RequestState.CERTIFIED
    reached = {name: network(trio, name) for name in trio.names}
    request = trio.request("left", list(kept_rows(trio.models()["left"]).values())[:2])
    trio.carry_out()
    assert trio.view("hub", request).state is RequestState.CERTIFIED
    # A training that never knew right: the same rows, and a local start with the same settings.
    shutil.rmtree(tmp_path / "runs")
    leave_out(tmp_path, asked)
    local = {"top_learning_rate": 2e-3, "joint_epochs": 1.5}
    trio.plan = {**trio.plan, "training": {**TRAINING, "start": "local", "local": local}}
    trio.train()
    for name in trio.names:
        now = network(trio, name)
        assert all(torch.equal(now[key], reached[name][key]) for key in now)


def drop_column(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the left party use its column z no more."""
    path, known = folder / "left.csv", three_parties.party_settings
    lines = path.read_text().splitlines()
    path.write_text("\n".join(line.rsplit(",", 1)[0] for line in lines) + "\n")

    def narrower(folder: Path, requests: Iterable[str] = ()) -> dict[str, VerticalPartySettings]:
        found = known(folder, requests)
        ranges = dict.fromkeys("xy", (-4.0, 8.0))
        data = found["left"].data.model_copy(update={"ranges": ranges})
        return found | {"left": found["left"].model_copy(update={"data": data})}

    monkeypatch.setattr(three_parties, "party_settings", narrower)


def test_columns_that_leave_are_unlearned_by_new_weights(
    trio: KeptTrio, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drop_column(tmp_path, monkeypatch)
    with pytest.raises(StorageError, match="was trained with z at left") as caught:
        trio.party("left", serves=False, continues=NEWEST)
    assert "training.continued.new_weights" in str(caught.value.hint)
    continued = {**TRAINING, "continued": {"new_weights": True}}
    trio.plan = {**trio.plan, "training": continued}
    trio.train(versions=every(trio))
    reached = {name: network(trio, name) for name in trio.names}
    for name in trio.names:  # versions from before are erased
        assert [each.number for each in trio.models()[name].files()] == [newest(trio, name).number]
    # A training that never knew the column.
    shutil.rmtree(tmp_path / "runs")
    local = {"top_learning_rate": 2e-3, "joint_epochs": 1.5}
    trio.plan = {**trio.plan, "training": {**TRAINING, "start": "local", "local": local}}
    trio.train()
    for name in trio.names:
        now = network(trio, name)
        assert all(torch.equal(now[key], reached[name][key]) for key in now)


def test_a_party_joins_without_changing_the_outputs(tmp_path: Path) -> None:
    write_data(tmp_path)
    certify(tmp_path)
    leave_out(tmp_path, ids_in(tmp_path, "hub") - ids_in(tmp_path, "right"))
    whole = agreement(training=TRAINING, **FEW)
    trio = KeptTrio(tmp_path, without(whole, "right"))
    trio.train()
    done = trio.request("left", list(kept_rows(trio.models()["left"]).values())[:2])
    trio.carry_out()
    before = network(trio, "hub")
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).date().isoformat()
    parties = whole["parties"]
    joined = {**parties, "right": {**parties["right"], "since": tomorrow}}
    trio.plan = {**whole, "parties": joined, "training": STILL}
    trio.train(versions=every(trio))
    now = network(trio, "hub")
    assert torch.allclose(now[FIRST_TOP_LAYER][:, :7], before[FIRST_TOP_LAYER], atol=1e-9)
    assert now[FIRST_TOP_LAYER][:, 7:].abs().max() < 1e-9
    assert trio.view("left", done).state is RequestState.CERTIFIED  # right took no part in it


def test_rows_that_take_no_part_any_more_leave_nothing_in_the_model(
    trio: KeptTrio, tmp_path: Path
) -> None:
    """Nobody could request later that these rows are forgotten."""
    gone = sorted(kept_rows(trio.models()["left"]))[:3]
    leave_out(tmp_path, gone)
    trio.plan = {**trio.plan, "training": STILL}
    before = network(trio, "left")
    trio.train(versions=every(trio))
    for name in trio.names:
        made = newest(trio, name)
        assert [each.number for each in trio.models()[name].files()] == [made.number]
        assert made.version is not None
        assert made.version.parent is None
    now = network(trio, "left")
    assert not any(torch.allclose(now[key], before[key], atol=1e-3) for key in now)


def test_another_split_is_refused(trio: KeptTrio) -> None:
    trio.plan = {**trio.plan, "split": {"kind": "keyed", "validation": 0.3, "test": 0.3}}
    with pytest.raises((PolicyError, ProtocolError), match="not training rows any more"):
        trio.train(versions=every(trio))


def ids_in(folder: Path, name: str) -> set[bytes]:
    """The IDs in the file of a party."""
    lines = (folder / f"{name}.csv").read_text().splitlines()[1:]
    return {line.split(",")[0].encode() for line in lines}


def remove_models(folder: Path) -> None:
    """Remove the kept model of a party."""
    shutil.rmtree(folder / "models", ignore_errors=True)


def test_without_the_day_of_joining_an_earlier_request_would_be_open_again(tmp_path: Path) -> None:
    """The control of the test above."""
    trio = train_trio(tmp_path, **FEW)
    whole = trio.plan
    trio.plan = without(whole, "right")
    for each in (tmp_path / "runs" / "trio").iterdir():
        remove_models(each)
    trio.train()
    done = trio.request("left", list(kept_rows(trio.models()["left"]).values())[:2])
    trio.carry_out()
    trio.plan = whole
    assert trio.view("left", done).open


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> KeptTrio:
    """Three parties with a kept model, which tests copy."""
    training = {**TRAINING, "continued": {"top_epochs": 2, "joint_epochs": 1.0, "fit_epochs": 2}}
    return train_trio(tmp_path_factory.mktemp("trained"), **FEW, training=training)


def copied(trio: KeptTrio, folder: Path, *, leaves: bool) -> KeptTrio:
    """A copy of three parties; one of them leaves the agreement if ``leaves`` is true."""
    shutil.copytree(trio.folder, folder)
    return KeptTrio(folder, without(trio.plan, "right") if leaves else trio.plan)


@pytest.fixture(scope="module", params=[False, True], ids=["all stay", "one leaves"])
def quiet(
    request: pytest.FixtureRequest, trained: KeptTrio, tmp_path_factory: pytest.TempPathFactory
) -> tuple[KeptTrio, int]:
    """Parties that went on without a crash, and the messages between the hub and each other."""
    trio = copied(trained, tmp_path_factory.mktemp("quiet") / "trio", leaves=request.param)
    trio.train(versions=every(trio, "1"))
    return trio, trio.messages // (len(trio.names) - 1)


@pytest.mark.parametrize("name", ["hub", "left"])
@pytest.mark.parametrize("message", [8, 40, 80, -8, -7, -6, -5, -4, -3, -2, -1])  # from the end
def test_a_crash_changes_nothing(
    quiet: tuple[KeptTrio, int], trained: KeptTrio, tmp_path: Path, name: str, message: int
) -> None:
    expected_trio, messages = quiet
    trio = copied(trained, tmp_path / "trio", leaves="right" not in expected_trio.names)
    count = message if message > 0 else messages + message
    crash = (name, count * (len(trio.names) - 1) if name == "hub" else count)
    metrics = trio.train(versions=every(trio, "1"), crash=crash)
    assert not metrics, "the party did not crash"
    if {newest(trio, each).number for each in trio.names} != {2}:  # else the training was complete
        trio.train(versions=every(trio, "1"))
    assert len({newest(trio, each).number for each in trio.names}) == 1
    for each in trio.names:
        expected, now = network(expected_trio, each), network(trio, each)
        assert all(torch.equal(now[key], expected[key]) for key in expected)
    if "right" not in trio.names:
        trio.carry_out()  # if a party crashed before it erased the version, it does so now
        kept = {each: [file.number for file in trio.models()[each].files()] for each in trio.names}
        assert all(kept[each] == [newest(trio, each).number] for each in trio.names), kept


def test_every_party_must_name_the_same_version(trio: KeptTrio) -> None:
    trio.train()  # a second version
    first, second = (str(each.number) for each in trio.models()["hub"].files())
    with pytest.raises(ProtocolError, match="was started to go on from version"):
        trio.train(versions={"hub": second, "left": first, "right": second})


def test_every_party_must_go_on(trio: KeptTrio) -> None:
    with pytest.raises(ProtocolError, match="was started to train"):
        trio.train(versions={"hub": NEWEST, "right": NEWEST})


def test_a_party_that_lost_its_model_is_no_new_party(trio: KeptTrio) -> None:
    remove_models(trio.folder / "runs" / "trio" / "left")
    with pytest.raises(ProtocolError, match=r"left keeps no model, but version 1"):
        trio.train(versions=every(trio))


def test_the_active_party_needs_the_version(trio: KeptTrio) -> None:
    remove_models(trio.folder / "runs" / "trio" / "hub")
    with pytest.raises(StorageError, match="no version of the model is kept"):
        trio.party("hub", serves=False, continues=NEWEST)


def test_a_version_that_is_not_kept_is_named(trio: KeptTrio) -> None:
    with pytest.raises(StorageError, match=r"version 77 is not kept, but 1$"):
        trio.party("left", serves=False, continues="77")


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"top": {"kind": "mlp", "hidden": [9]}}, "top differ"),
        ({"labels": {"classes": ["a", "b", "c", "d"]}}, "labels differ"),
        ({"dtype": "float32"}, "dtype differ"),
        ({"seed": 6}, "seed differ"),
    ],
)
def test_only_parties_may_change(trio: KeptTrio, change: dict[str, Any], named: str) -> None:
    trio.plan = {**trio.plan, **change}
    with pytest.raises(StorageError, match=named):
        trio.party("hub", serves=False, continues=NEWEST)


def test_a_party_keeps_its_own_network(trio: KeptTrio) -> None:
    parties = trio.plan["parties"]
    trio.plan = {**trio.plan, "parties": {**parties, "left": {**parties["left"], "width": 5}}}
    with pytest.raises(StorageError, match=r"parties\.left differ"):
        trio.party("left", serves=False, continues=NEWEST)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            {
                "training": {**TRAINING, "start": "local", "local": FIXED},
                "preprocessing": "declared",
            },
            "bottom models are fixed",
        ),
        ({"top": {"kind": "sum"}, "parties": VOTES}, "no top model to train"),
        (
            {
                "sharding": {"shards": 2},
                "preprocessing": "declared",
                "unlearning": {"method": "sharded", "compare": ()},
            },
            "one model for each shard",
        ),
    ],
)
def test_some_trainings_do_not_go_on(trio: KeptTrio, change: dict[str, Any], reason: str) -> None:
    trio.plan = {**trio.plan, **change}
    with pytest.raises(ConfigError, match=reason):
        trio.party("hub", serves=False, continues=NEWEST)


def test_an_unfinished_training_with_new_weights_is_not_taken_up(trio: KeptTrio) -> None:
    plain = party_checkpoints(trio.party("left", serves=False))
    going_on = party_checkpoints(trio.party("left", serves=False, continues=NEWEST))
    assert plain.data != going_on.data
    assert going_on.data.endswith(" from version 1 of run " + newest(trio, "left").run.hex()[:8])


def test_an_unfinished_training_with_other_ranges_is_not_taken_up(
    trio: KeptTrio, tmp_path: Path
) -> None:
    """Its model has the earlier preprocessing, and a Retrain would have the new one."""
    party = trio.party("left", serves=False)
    plain = party_checkpoints(party).data
    declared = CsvData(
        kind="csv", path=Path("a.csv"), ranges={"x": (0, 10)}, vocabulary={"town": ("a", "b")}
    )
    turned = declared.model_copy(update={"vocabulary": {"town": ("b", "a")}})
    wider = declared.model_copy(update={"ranges": {"x": (0, 100)}})
    statistics = tmp_path / "statistics.json"
    agreed = party.agreement.model_copy(update={"preprocessing": "declared"})
    found = [plain]
    for data in (declared, turned, wider):
        settings = party.settings.model_copy(update={"data": data})
        other = replace(party, settings=settings, agreement=agreed)
        found.append(party_checkpoints(other).data)
        unused = party_checkpoints(replace(party, settings=settings)).data
        assert unused == plain
    for content in ("{}", "[]"):
        statistics.write_text(content)
        settings = party.settings.model_copy(update={"statistics": statistics})
        found.append(party_checkpoints(replace(party, settings=settings)).data)
    assert len({*found}) == len(found)


def test_a_hub_may_not_order_a_kept_start_in_another_training(trio: KeptTrio) -> None:
    """A passive party that was started for new weights refuses the order."""
    us = trio.party("left", serves=False)
    rule = UpdateRule.like_training(us.agreement.training, us.agreement.training.learning_rate)
    order = vfl_pb2.Initialise(
        stream="s",
        preprocessing_rows=vfl_pb2.TRAIN_ROWS,
        rule=encode(rule, vfl_pb2.UpdateRule),
        from_kept=True,
    )
    check = OrderCheck(us.agreement, "left", None, None)  # type: ignore[arg-type]
    with pytest.raises(RemoteProtocolError, match="a model from a kept version"):
        check.command(vfl_pb2.ModelCommand(initialise=order), vfl_pb2.TRAIN)


def test_rows_of_requests_are_no_change_of_the_intersection(trio: KeptTrio) -> None:
    plan = {**trio.plan, "psi": {"minimum": 10, "differencing": 5}}
    trio.plan = plan
    us = trio.party("left", serves=False)
    common = len(kept_rows(trio.models()["left"]))
    refuse_small_change(us, common, forgotten_count(us))
    trio.request("left", list(kept_rows(trio.models()["left"]).values())[:7])
    trio.carry_out()
    us = trio.party("left", serves=False)
    gone = forgotten_count(us)
    assert gone == 7
    refuse_small_change(us, common - 7, gone)  # nothing else has changed
    with pytest.raises(PolicyError, match="differ by less than"):
        refuse_small_change(us, common - 7 + 1, gone)  # one new row
    refuse_small_change(us, common - 7 + 5, gone)


def test_the_columns_of_the_top_model_follow_the_parties() -> None:
    weights = torch.arange(18.0).reshape(2, 9)
    part = KeptPart(
        digest="",
        run=bytes(16),
        number=1,
        anew="",
        ids=frozenset([b"a"]),
        trained=frozenset([b"a"]),
        parties=("bank", "post", "shop"),
        widths={"bank": 2, "post": 3, "shop": 4},
        statistics=None,
        parameters={FIRST_TOP_LAYER: weights, "top.perceptron.0.bias": torch.ones(2)},
    )
    found = part.fitted_to({"bank": 2, "club": 2, "post": 3, "shop": 4})
    expected = torch.cat([weights[:, :2], torch.zeros(2, 2), weights[:, 2:]], dim=1)
    assert torch.equal(found[FIRST_TOP_LAYER], expected)
    assert torch.equal(found["top.perceptron.0.bias"], torch.ones(2))
    assert torch.equal(part.fitted_to(part.widths)[FIRST_TOP_LAYER], weights)
    assert np.array_equal(weights.numpy(), np.arange(18.0).reshape(2, 9))  # unchanged
