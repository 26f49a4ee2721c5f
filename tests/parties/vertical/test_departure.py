"""A party leaves: its statement, the receipt of those that remain, and what is refused."""

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from crash import Crash
from kept_trio import KeptTrio, train_trio
from request_federation import TRIO, TRIO_DATA, RequestFederation, write_trio
from watched_party import Watch, start_watched

from parties.common.errors import PolicyError, StorageError
from parties.requests.events import DecisionBody, Event, EventKind
from parties.requests.lifecycle import RequestState, RequestView
from parties.requests.local_desk import local_desk_of
from parties.requests.persons import RequestPolicy
from parties.requests.receipts import FOLDER, TRUST, lost_receipt
from parties.session.setup import NEWEST
from parties.vertical.kept_model import kept_rows, party_models
from parties.vertical.offline.leave import PLAN, leave, plan_leaving
from parties.vertical.offline.local_desk import VerticalDesk
from parties.vertical.service.departure import Departures
from parties.vertical.service.desk import open_desk
from parties.vertical.service.replay import plan_replay
from protocol.errors import IdentityError
from unlearning.receipts.faults import Fault
from unlearning.receipts.journal_export import read_departure
from unlearning.receipts.keys import read_trust
from unlearning.receipts.receipt import Receipt, RequestKind, decode_receipt
from unlearning.receipts.verify import Evidence, verify

FEW = {"unlearning": {"method": "fine-tune", "compare": (), "retrains": 0}}
STAY = ("hub", "left")


@dataclass
class Leaving:
    """Three parties that have certified a request; right may leave."""

    trio: KeptTrio
    whole: dict[str, Any]  # the agreement that names all three

    @property
    def statement(self) -> Path:
        """The file of right's statement."""
        return self.trio.folder / "right.jsonl"

    def leave(self) -> int:
        """Right erases its part of the model, and writes its statement."""
        us = KeptTrio(self.trio.folder, self.whole).party("right")
        with local_desk_of(us, open_desk(us, us.agreement), POLICY) as local:
            found = VerticalDesk(us, local.desk, POLICY, local.subjects, local.forgotten)
            return leave(found, plan_leaving(found), self.statement)

    def deliver(self, name: str = "hub") -> None:
        """One party reads the statement into its journal."""
        with closing(self.trio.desk(name)) as desk:
            records = self.statement.read_bytes().splitlines()
            desk.merge(records, {"right": len(records)})

    def train(self) -> None:
        """The others train from the newest version, without right."""
        left = {each: entry for each, entry in self.whole["parties"].items() if each != "right"}
        self.trio.plan = {**self.whole, "parties": left}
        self.trio.train(versions=dict.fromkeys(STAY, NEWEST))

    def folder(self, name: str) -> Path:
        """The receipts of one party."""
        return self.trio.folder / "runs" / "trio" / name / FOLDER

    def views(self, name: str = "hub") -> list[RequestView]:
        """The requests that say that right left."""
        with closing(self.trio.desk(name)) as desk:
            return [each for each in desk.requests() if each.content.kind == "party"]

    def receipt(self, name: str) -> Receipt:
        """The receipt of the departure at one party, which that party's keys verify."""
        (view,) = self.views(name)
        assert view.state is RequestState.CERTIFIED, view.state
        content = (self.folder(name) / f"{view.id}.json").read_bytes()
        trusted = read_trust((self.folder(name) / TRUST).read_bytes())
        assert verify(content, trusted).findings == []
        return decode_receipt(content)

    def page(self, name: str) -> str:
        """The page of that receipt."""
        return (self.folder(name) / f"{self.views(name)[0].id}.html").read_text()


POLICY = RequestPolicy(automatic=True, persons=())


@pytest.fixture(scope="module")
def certified(tmp_path_factory: pytest.TempPathFactory) -> KeptTrio:
    """Three parties with a kept model that forgot some rows, which tests copy."""
    trio = train_trio(tmp_path_factory.mktemp("certified"), **FEW)
    trio.request("right", list(kept_rows(trio.models()["right"]).values())[:2])
    trio.carry_out()
    return trio


@pytest.fixture
def leaving(certified: KeptTrio, tmp_path: Path) -> Leaving:
    """A copy of the parties."""
    shutil.copytree(certified.folder, tmp_path / "trio")
    return Leaving(KeptTrio(tmp_path / "trio", certified.plan), certified.plan)


def test_all_that_remain_sign_that_a_party_left_and_what_it_stated(leaving: Leaving) -> None:
    before = leaving.trio.models()["hub"].newest_version().number
    assert leaving.leave() > 0
    leaving.train()
    leaving.deliver()
    leaving.trio.carry_out()
    first, second = (leaving.receipt(name) for name in STAY)
    assert first == second
    (request,) = first.requests
    assert (request.kind, request.count_bucket) == (RequestKind.PARTY, "0")
    assert (first.version_before, first.version_after) == (before, before + 1)
    assert (first.guarantee.kind.value, first.method) == ("exact", "training-without-party")
    assert [each.party for each in first.statements] == ["hub", "left"]
    for each in first.statements:
        assert f"model-{before}" in [item.id for item in each.artefacts_destroyed]
    departure = first.departures[0]
    assert (departure.party, departure.content.version) == ("right", before)
    named = [each.id for each in departure.content.destroyed]
    assert {f"model-{before}", "saved-model"} <= set(named)
    for name in STAY:
        assert "right left a federation" in leaving.page(name)
        assert "right states that it erased its part" in " ".join(leaving.page(name).split())


def test_the_party_that_left_has_no_model_but_its_journal_and_receipts(leaving: Leaving) -> None:
    state = leaving.folder("right").parent
    receipts = sorted(each.name for each in leaving.folder("right").iterdir())
    leaving.leave()
    left = {each.name for each in state.iterdir()}
    assert not {"model.safetensors", "manifest.json", "checkpoints", "psi"} & left
    assert list((state / "models").iterdir()) == []
    keys = json.loads((state / "keys.json").read_text())["keys"]
    assert not [each for each in keys if "model" in each], keys.keys()
    assert sorted(each.name for each in leaving.folder("right").iterdir()) == receipts
    made = read_departure(leaving.statement.read_bytes()).event
    assert made.origin == "right"
    # After a crash the same command goes on: the statement names what was erased before.
    leaving.statement.unlink()
    leaving.leave()
    assert read_departure(leaving.statement.read_bytes()).event == made


def test_a_statement_that_cannot_be_written_is_refused_before_anything_is_erased(
    leaving: Leaving, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = leaving.folder("right").parent
    agreed = leaving.trio.folder / "people.toml"
    agreed.write_text("[parties]\n")
    for place, message in (
        (agreed, "people.toml exists, and is no statement of right"),
        (leaving.trio.folder / "nodir" / "right.jsonl", "nodir is no folder"),
    ):
        monkeypatch.setattr(Leaving, "statement", place)
        with pytest.raises(StorageError, match=message):
            leaving.leave()
    assert agreed.read_text() == "[parties]\n"
    assert (state / "model.safetensors").exists()


def test_without_a_statement_the_receipt_says_so_and_a_late_one_is_shown(leaving: Leaving) -> None:
    leaving.leave()
    leaving.train()
    leaving.trio.policies = {"left": "roles"}  # but no person decides about a departure
    leaving.trio.carry_out()
    receipt = leaving.receipt("left")
    assert receipt.departures[0].statement is None
    trusted = read_trust((leaving.folder("left") / TRUST).read_bytes())
    notes = ["right left, and the receipt has no statement of it"]
    assert verify(receipt.encode(), trusted).notes == notes
    assert "has not stated anything" in leaving.page("left")
    leaving.deliver("hub")
    leaving.trio.carry_out()  # the statement reaches the others with the journal
    for name in STAY:
        assert leaving.receipt(name) == receipt  # what is signed never changes
        assert "arrived after the receipt was signed" in leaving.page(name)
    shown = Evidence(statement=leaving.statement.read_bytes())
    found = verify(receipt.encode(), trusted, shown)
    assert found.findings == []
    assert "the party that left stated what it erased" in found.confirmed


def test_a_changed_statement_and_one_of_another_key_are_refused_by_name(leaving: Leaving) -> None:
    leaving.leave()
    leaving.train()
    leaving.trio.carry_out()
    whole = leaving.statement.read_bytes()
    last = json.loads(whole.splitlines()[-1])
    last["body"]["destroyed"] = last["body"]["destroyed"][1:]
    with closing(leaving.trio.desk("left")) as desk:  # the key of another party
        other = {
            **last,
            "signature": desk.keys.sign(Event.decode(encoded(last)).signing_bytes()).hex(),
        }
    receipt = leaving.receipt("hub").encode()
    trusted = read_trust((leaving.folder("hub") / TRUST).read_bytes())
    for changed in (last, other):
        content = b"\n".join([*whole.splitlines()[:-1], encoded(changed), b""])
        leaving.statement.write_bytes(content)
        with pytest.raises(IdentityError, match="of right is wrong"):
            leaving.deliver()
        (finding,) = verify(receipt, trusted, Evidence(statement=content)).findings
        assert finding.fault is Fault.BAD_STATEMENT
        assert finding.message == "the signature of the statement of right is wrong"


def encoded(event: Mapping[str, Any]) -> bytes:
    """An event as canonical JSON."""
    return json.dumps(event, sort_keys=True, separators=(",", ":")).encode()


def test_a_changed_statement_in_the_receipt_is_refused_by_name(leaving: Leaving) -> None:
    leaving.leave()
    leaving.train()
    leaving.deliver()
    leaving.trio.carry_out()
    receipt = json.loads(leaving.receipt("hub").encode())
    receipt["requests"][0]["departure"]["statement"]["body"]["version"] += 1
    trusted = read_trust((leaving.folder("hub") / TRUST).read_bytes())
    found = verify(encoded(receipt), trusted).findings
    assert "the signature of the statement of right is wrong" in [each.message for each in found]


def test_a_statement_of_a_party_that_did_not_leave_is_no_evidence(leaving: Leaving) -> None:
    leaving.train()
    leaving.trio.carry_out()
    receipt = leaving.receipt("hub").encode()
    trusted = read_trust((leaving.folder("hub") / TRUST).read_bytes())
    us = leaving.trio.party("left")
    with local_desk_of(us, open_desk(us, us.agreement), POLICY) as local:
        found = VerticalDesk(us, local.desk, POLICY, local.subjects, local.forgotten)
        leave(found, plan_leaving(found), leaving.statement)
    shown = Evidence(statement=leaving.statement.read_bytes())
    (finding,) = verify(receipt, trusted, shown).findings
    assert finding.fault is Fault.NOT_INCLUDED
    assert "left, which did not leave by this receipt" in finding.message


def test_no_party_leaves_while_requests_are_open_and_the_active_party_never(
    leaving: Leaving,
) -> None:
    us = leaving.trio.party("hub")
    with local_desk_of(us, open_desk(us, us.agreement), POLICY) as local:
        hub = VerticalDesk(us, local.desk, POLICY, local.subjects, local.forgotten)
        with pytest.raises(PolicyError, match="hub is the active party"):
            plan_leaving(hub)
    leaving.trio.request("right", list(kept_rows(leaving.trio.models()["right"]).values())[:2])
    with pytest.raises(PolicyError, match="1 requests to forget are open"):
        leaving.leave()


def test_a_training_goes_on_only_after_the_receipt(leaving: Leaving) -> None:
    """The next training could replace the version that proves the departure."""
    leaving.train()
    versions = dict.fromkeys(STAY, NEWEST)
    with pytest.raises(PolicyError, match="first one without right, and the receipt"):
        leaving.trio.train(versions=versions)
    leaving.trio.carry_out()
    leaving.trio.train(versions=versions)
    assert len(leaving.views()) == 1  # the party leaves once


def test_a_receipt_that_is_lost_after_a_party_left_is_named(leaving: Leaving) -> None:
    """An earlier receipt, which the party that left has signed; the receipt of the departure."""
    (earlier,) = {path.stem for path in leaving.folder("hub").glob("0*.json")}
    leaving.train()
    leaving.trio.carry_out()
    path = leaving.folder("hub") / f"{leaving.views()[0].id}.json"
    content = path.read_bytes()
    path.unlink()
    (leaving.folder("hub") / f"{earlier}.json").unlink()
    us = leaving.trio.party("hub")
    with local_desk_of(us, open_desk(us, us.agreement), POLICY) as local:
        assert path.read_bytes() == content
        view = local.desk.request(earlier)
        assert local.desk.lacks_receipt(view)
        message, hint = lost_receipt(view, "hub")
    assert f"{earlier}.json of a receipt is lost" in message
    assert "from the folder of left or a backup:" in hint
    leaving.trio.carry_out()  # the service starts, too


def test_no_party_approves_a_departure_that_it_has_not_trained(leaving: Leaving) -> None:
    """A request for a version that still knows the party is rejected by every party."""
    number = leaving.trio.models()["hub"].newest_version().number
    leaving.trio.request("hub", kind="party", party="right", version=number, subjects_root=None)
    leaving.trio.carry_out()
    (view,) = leaving.views("left")
    assert view.state is RequestState.REJECTED
    assert "has no record that version" in view.reason


def test_a_start_goes_on_where_a_crash_left_the_request(leaving: Leaving) -> None:
    """The active party crashed after its first event about the departure."""
    leaving.train()
    us = leaving.trio.party("hub")
    with closing(leaving.trio.desk("hub")) as desk:
        Departures(us, party_models(us), desk).record()
    (view,) = leaving.views()
    assert view.state is RequestState.PENDING
    leaving.trio.carry_out()
    assert [each.id for each in leaving.views()] == [view.id]
    assert leaving.receipt("left").requests[0].request_id == view.id
    again = leaving.trio.party("hub", serves=False, replays=view.id)
    with (
        closing(leaving.trio.desk("hub")) as desk,
        pytest.raises(PolicyError, match="says that right left: it was carried out by a training"),
    ):
        plan_replay(again, desk)
    # The others forget as before, and their receipts do not need the party that left.
    asked = leaving.trio.request(
        "left", list(kept_rows(leaving.trio.models()["left"]).values())[:2]
    )
    leaving.trio.carry_out()
    trusted = read_trust((leaving.folder("hub") / TRUST).read_bytes())
    later, earlier = (
        (leaving.folder("hub") / f"{name}.json").read_bytes()
        for name in (
            asked,
            min(path.stem for path in leaving.folder("hub").glob("*.json") if path.name != TRUST),
        )
    )
    assert verify(later, trusted).findings == []
    assert "right" in [each.party for each in decode_receipt(earlier).parties]
    assert verify(earlier, trusted).findings == []  # the one that right signed
    with closing(leaving.trio.desk("hub")) as desk:
        desk.journal.check_signatures()


def test_other_requests_wait_until_a_departure_is_certified(leaving: Leaving) -> None:
    """Both are ready at the same start: the batch would erase the version of the departure."""
    leaving.leave()
    leaving.train()
    leaving.deliver()
    made = leaving.trio.models()["hub"].newest_version().number
    rows = list(kept_rows(leaving.trio.models()["left"]).values())[:2]
    asked = leaving.trio.request("left", rows)
    leaving.trio.carry_out()
    for name in STAY:
        assert leaving.receipt(name).version_after == made
        view = leaving.trio.view(name, asked)
        assert (view.state, view.version_before) == (RequestState.CERTIFIED, made)
    leaving.trio.train(versions=dict.fromkeys(STAY, NEWEST))


def test_a_later_version_keeps_what_proves_a_departure(
    leaving: Leaving, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if a batch had started first: the version of the departure is erased."""
    leaving.train()
    made = leaving.trio.models()["hub"].newest_version().number
    leaving.trio.request("left", list(kept_rows(leaving.trio.models()["left"]).values())[:2])
    with monkeypatch.context() as patched:
        patched.setattr(Departures, "record", lambda _: True)
        leaving.trio.carry_out()
    numbers = [each.number for each in leaving.trio.models()["left"].files()]
    assert min(numbers) > made
    with pytest.raises(PolicyError, match=f"version {made} is the first one without right"):
        leaving.trio.train(versions=dict.fromkeys(STAY, NEWEST))
    leaving.trio.carry_out()
    assert leaving.receipt("left") == leaving.receipt("hub")
    assert leaving.receipt("hub").version_after == made


def test_a_passive_party_neither_forges_nor_prevents_a_departure(leaving: Leaving) -> None:
    """Its requests are rejected, and the active party makes its own."""
    leaving.leave()
    leaving.train()
    number = leaving.trio.models()["hub"].newest_version().number
    about = {"kind": "party", "version": number, "subjects_root": None}
    forged = [leaving.trio.request("left", party=each, **about) for each in ("ghost", "right")]
    withdrawn = leaving.trio.request("left", party="right", **about)
    with closing(leaving.trio.desk("left")) as desk:
        desk.append(EventKind.WITHDRAWN, withdrawn, DecisionBody(reason="prevents"))
    made_up = leaving.trio.request("hub", party="ghost", **about)
    with pytest.raises(PolicyError, match="first one without right, and the receipt"):
        leaving.trio.train(versions=dict.fromkeys(STAY, NEWEST))
    leaving.trio.carry_out()
    found = {each.id: each for each in leaving.views()}
    for each in (*forged, withdrawn):
        assert found[each].state is RequestState.REJECTED
        assert "only hub" in found[each].reason
    assert "no record that version" in found[made_up].reason
    certified = [each for each in found.values() if each.state is RequestState.CERTIFIED]
    assert [(each.content.party, each.origin) for each in certified] == [("right", "hub")]
    leaving.trio.train(versions=dict.fromkeys(STAY, NEWEST))


def test_no_statement_is_signed_before_all_is_erased(
    leaving: Leaving, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash after the first erasure: the next call names what was erased before it, too."""
    us = KeptTrio(leaving.trio.folder, leaving.whole).party("right")
    kept = {f"model-{number}" for number, _ in party_models(us).contents()}
    with monkeypatch.context() as patched:
        patched.setattr("parties.vertical.offline.leave.remove_saved_model", crash)
        with pytest.raises(Crash):
            leaving.leave()
    assert party_models(us).contents() == []
    with closing(leaving.trio.desk("right")) as desk:
        assert EventKind.LEFT not in [each.kind for each in desk.journal.events()]
    leaving.leave()
    made = read_departure(leaving.statement.read_bytes()).event
    assert kept | {"saved-model"} <= {each["id"] for each in made.body["destroyed"]}
    assert made.body["version"] == leaving.trio.models()["hub"].newest_version().number
    assert not (us.state / PLAN).exists()


def crash(*_: Any) -> None:
    """End a call as a crash does."""
    raise Crash


def test_a_party_that_leaves_again_makes_a_new_statement(leaving: Leaving) -> None:
    """Its old statement says nothing about what it trained after it had joined again."""
    leaving.leave()
    old, earlier = leaving.statement.read_bytes(), read_departure(leaving.statement.read_bytes())
    leaving.trio.train()  # all three, with new weights
    number = leaving.trio.models()["right"].newest_version().number
    leaving.leave()
    again = read_departure(leaving.statement.read_bytes())
    assert earlier.event.body["version"] < again.event.body["version"] == number
    assert f"model-{number}" in [each["id"] for each in again.event.body["destroyed"]]
    leaving.train()
    new = leaving.statement.read_bytes()
    leaving.statement.write_bytes(old)
    leaving.deliver()
    leaving.trio.carry_out()
    receipt = leaving.receipt("hub")
    assert receipt.departures[0].statement is None
    trusted = read_trust((leaving.folder("hub") / TRUST).read_bytes())
    (finding,) = verify(receipt.encode(), trusted, Evidence(statement=old)).findings
    assert finding.fault is Fault.BAD_STATEMENT
    assert "from before version" in finding.message
    assert verify(receipt.encode(), trusted, Evidence(statement=new)).findings == []


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_departure_of_a_process_survives_kills(tmp_path: Path) -> None:
    whole, out, statement = write_trio(tmp_path), tmp_path / "out", tmp_path / "right.jsonl"
    text = TRIO.replace(TRIO[TRIO.index("[parties.right]") : TRIO.index("[psi]")], "")
    text += "".join(TRIO_DATA.format(name=name, label=LABEL[name]) for name in STAY)
    (tmp_path / "duo.toml").write_text(text)
    remaining = RequestFederation(tmp_path, tmp_path / "duo.toml", whole.changes)
    whole.train(out)
    assert run_command(whole, out, "right", "leave", "--statement", str(statement)) == 2  # --yes
    assert run_command(whole, out, "right", "leave", "--statement", str(statement), "--yes") == 0
    remaining.train(out, more=["--from", "newest"])
    good = statement.read_bytes()
    statement.write_bytes(good.replace(b'"id":"saved-model"', b'"id":"saved-modem"'))
    assert run_command(remaining, out, "hub", "unlearn", "import", file=statement) == 9
    assert "the signature of an event of right is wrong" in remaining.notes(out)
    statement.write_bytes(good)
    assert run_command(whole, out, "hub", "unlearn", "import", file=statement) == 8
    assert run_command(remaining, out, "hub", "unlearn", "import", file=statement) == 0
    shutil.copytree(out, tmp_path / "trained")
    for name, kill_at in (("hub", None), ("hub", 12), ("left", 12), ("hub", 24), ("left", 20)):
        shutil.rmtree(out)
        shutil.copytree(tmp_path / "trained", out)
        watches = {name: Watch(tmp_path / f"{name}-{kill_at}.log", kill_at)} if kill_at else {}
        with remaining.serve(out, watches) as service:
            if kill_at:
                service.running[name].join(120)
                assert service.running[name].exitcode == -9
                service.start(name)
            remaining.wait_certified(service, '"kind":"party"')
        receipts = remaining.receipts(out, '"kind":"party"')
        assert len({path.read_bytes() for path in receipts.values()}) == 1
        for path in receipts.values():
            code, printed = verified(path, path.with_name(TRUST))
            assert code == 0, printed
            assert "confirmed: right stated what it erased when it left" in printed
    changed = tmp_path / "changed.json"
    changed.write_bytes(path.read_bytes().replace(b'"id":"saved-model"', b'"id":"saved-modem"'))
    code, printed = verified(changed, path.with_name(TRUST))
    assert code == 1
    assert "bad-statement: the signature of the statement of right is wrong" in printed


LABEL = {"hub": 'label = "label"', "left": ""}


def run_command(
    federation: RequestFederation, out: Path, name: str, *words: str, file: Path | None = None
) -> int | None:
    """Run a command of ``vfl`` at one party; return its exit code."""
    options = [*words]
    split = next((i for i, each in enumerate(options) if each.startswith("--")), len(options))
    named = [str(file)] if file else []
    arguments = [*options[:split], str(federation.config), *named, *options[split:]]
    arguments += ["--party", name, "--out", str(out), "--format", "json"]
    arguments += ["--certificates", str(federation.keys)]
    for change in federation.changes:
        arguments += ["--set", change]
    process = start_watched(arguments, federation.output(name, out), program="vfl")
    process.join(120)
    return process.exitcode


def verified(receipt: Path, trusted: Path) -> tuple[int, str]:
    """Run ``vfl-verify``; return its exit code and what it printed."""
    words = [sys.executable, "-m", "unlearning.receipts", str(receipt), "--keys", str(trusted)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout
