"""``vfl unlearn``: requests at parties with a kept model, every refusal, and no ID in outputs."""

import json
import shutil
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from kept_trio import KeptTrio, train_trio
from three_parties import PARTIES
from typer.testing import CliRunner
from unlearn_desk import Desk, known

from parties.cli.main import app
from parties.requests.lifecycle import RequestState
from parties.requests.subjects import ForgottenList
from parties.vertical.kept_model import kept_rows
from unlearning.receipts.evidence import SubjectOpenings
from unlearning.receipts.faults import Fault
from unlearning.receipts.journal_export import read_export
from unlearning.receipts.receipt import decode_receipt
from unlearning.receipts.verify import SubjectEvidence, check_subject

ROLES = '[settings.{}.requests]\npolicy = "roles"\npersons = "persons.toml"\n'


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> KeptTrio:
    return train_trio(tmp_path_factory.mktemp("trained"))


@pytest.fixture
def desk(trained: KeptTrio, tmp_path: Path) -> Desk:
    shutil.copytree(trained.folder, tmp_path / "trio")
    return Desk(KeptTrio(tmp_path / "trio", trained.plan))


def other_ids(desk: Desk, count: int) -> list[str]:
    """IDs that the left party has, but not every party."""
    lines = (desk.folder / "left.csv").read_text().splitlines()[1:]
    rows = kept_rows(desk.trio.models()["left"])
    found = [line.split(",")[0] for line in lines]
    return [each for each in found if each.encode() not in rows][:count]


def key_of(desk: Desk, name: str, *roles: str) -> Path:
    """Make a person's key, and add the person to the file of persons."""
    path = desk.folder / f"{name}.key"
    made = CliRunner().invoke(app, ["keys", "new", str(path), "--format", "json"])
    public = json.loads(made.output)["public"]
    words = ["keys", "add", name, "--public", public]
    words += ["--file", str(desk.folder / "persons.toml")]
    words += [word for role in roles for word in ("--role", role)]
    assert CliRunner().invoke(app, words).exit_code == 0
    return path


# --- requests -------------------------------------------------------------------------------------


def test_request_by_list_counts_every_id(desk: Desk) -> None:
    ids = [*known(desk, 3), *other_ids(desk, 2), "nobody", "", known(desk, 1)[0]]
    path = desk.folder / "leavers.csv"
    path.write_text("age;ID\n" + "".join(f"3;{each}\n" for each in ids))
    found = desk.event("request", "--ids", path, "--ground", "gdpr-17-1-b", "--for", "subject")
    assert found["found"] == {
        "aligned": 3, "not_common": 2, "not_held": 1, "forgotten": 0, "unusable_lines": 1,
        "repeated": 1,
    }  # fmt: skip
    assert (found["new"], found["state"]) == (True, "pending")
    rows = kept_rows(desk.trio.models()["left"])
    view = desk.trio.view("left", found["request"])
    assert view.rows == tuple(sorted(rows[each.encode()] for each in known(desk, 3)))
    assert view.approvals == {"left"}
    assert view.content.requester_kind == "subject"


def test_same_list_again_is_the_same_request(desk: Desk) -> None:
    first, second = known(desk, 2)
    one = desk.event("request", "--id", first, "--id", second)
    two = desk.event("request", "--id", second, "--id", first)
    assert (two["request"], two["new"]) == (one["request"], False)
    assert len(desk.events("list")) == 1


def test_list_of_unknown_ids_makes_no_request_and_is_no_failure(desk: Desk) -> None:
    found = desk.event("request", "--id", "nobody")
    assert (found["request"], found["found"]["not_held"]) == (None, 1)
    assert desk.events("list") == []


def test_ids_of_a_list_are_printed_on_request_also_if_none_is_aligned(desk: Desk) -> None:
    lines = desk.events("request", "--id", "nobody", "--list-ids")
    assert [(each["found"], each["id"]) for each in lines[:-1]] == [("not_held", "nobody")]
    assert lines[-1]["request"] is None


def test_exported_journal_is_imported_after_all_parties_restored_backups(
    desk: Desk, trained: KeptTrio
) -> None:
    gone = known(desk, 1)[0]
    request = desk.event("request", "--id", gone)["request"]
    desk.trio.carry_out()
    journal = desk.folder / "journal.jsonl"
    exported = desk.event("export", "--journal", journal)["events"]
    shutil.rmtree(desk.folder / "runs")
    shutil.copytree(trained.folder / "runs", desk.folder / "runs")
    imported = desk.event("import", journal)
    assert (imported["events"] >= exported, imported["requests"]) == (True, 1)
    shown, warning = desk.events("show", request)
    assert shown["state"] == "certified"
    assert "or the key of a party, is another one" in warning["text"]  # that of the backup
    assert desk.event("import", journal)["events"] == 0
    desk.trio.carry_out()
    shown = desk.event("show", request, party="hub")
    assert shown["state"] == "certified"
    assert shown["version_before"] == 1
    assert gone not in known(desk, 1000)
    for name in PARTIES:
        desk.event("receipt", request, party=name)


def test_damaged_or_absent_export_is_not_imported(desk: Desk, trained: KeptTrio) -> None:
    desk.event("request", "--id", known(desk, 1)[0])
    journal = desk.folder / "journal.jsonl"
    desk.event("export", "--journal", journal)
    lines = journal.read_bytes().splitlines()
    gap = desk.folder / "gap.jsonl"
    shutil.rmtree(desk.folder / "runs" / "trio" / "hub")
    shutil.copytree(trained.folder / "runs" / "trio" / "hub", desk.folder / "runs" / "trio" / "hub")
    gap.write_bytes(lines[-1])
    desk.refused(9, "cannot be imported", "import", gap, party="hub")
    others = desk.folder / "noise.jsonl"
    others.write_bytes(b"{}\n")
    desk.refused(9, "cannot be imported", "import", others)
    desk.refused(7, "cannot read", "import", desk.folder / "absent.jsonl")


def test_receipt_is_verified_under_the_name_of_requests_too() -> None:
    result = CliRunner().invoke(app, ["unlearn", "verify", "absent.json", "--keys", "absent"])
    assert result.exit_code == 2


def test_request_by_label_and_by_a_part_of_a_label(desk: Desk) -> None:
    whole = desk.event("request", "--label", "b", party="right")
    part = desk.event("request", "--label", "b", "--fraction", "0.25", "--seed", "3", party="right")
    views = {each: desk.trio.view("right", each) for each in (whole["request"], part["request"])}
    assert views[whole["request"]].content.kind == "label"
    content = views[part["request"]].content
    assert (content.kind, content.fraction, content.seed) == ("labels_part", "0.25", 3)


def test_request_by_label_says_that_flipped_labels_count(tmp_path: Path) -> None:
    desk = Desk(train_trio(tmp_path, privacy={"label_dp": {"epsilon": 1.0}}))
    request, warning = desk.events("request", "--label", "b")
    assert request["new"]
    assert "no test row" in warning["text"]
    assert len(desk.events("request", "--id", known(desk, 1)[0])) == 1


def test_figures_are_shown_where_they_were_measured_until_the_next_version(desk: Desk) -> None:
    requests = []
    for _ in range(2):
        requests.append(desk.event("request", "--id", known(desk, 1)[0])["request"])
        desk.trio.carry_out()
    shown = {name: desk.event("show", requests[1], party=name) for name in PARTIES}
    assert shown["hub"]["figures"] == desk.trio.figures()
    assert {"test_after", "validation_after"} <= shown["hub"]["figures"].keys()
    assert "figures" not in {**shown["left"], **shown["right"]}
    assert "figures" not in desk.event("show", requests[0], party="hub")


def test_request_has_dates_ground_and_identity_check(desk: Desk) -> None:
    day = datetime.now(UTC).date() - timedelta(days=20)
    found = desk.event(
        "request", "--id", known(desk, 1)[0], "--received", day, "--identity-check",
        "passport/front-office", "--requester", "privacy office",
    )  # fmt: skip
    assert found["due_at"] == f"{day + timedelta(days=30)}T00:00:00Z"
    content = desk.trio.view("left", found["request"]).content
    assert content.identity_check is not None
    assert (content.identity_check.method, content.identity_check.by) == (
        "passport", "front-office",
    )  # fmt: skip
    (_, reminder) = desk.events("status")
    assert (reminder["event"], reminder["reminder"]) == ("reminder", 50)


def test_a_lost_receipt_is_written_again_or_said_to_be_lost(desk: Desk) -> None:
    request = desk.event("request", "--id", known(desk, 1)[0])["request"]
    assert desk.event("show", request)["receipt_file"] is None
    desk.trio.carry_out()
    path = desk.folder / "runs" / "trio" / "left" / "receipts" / f"{request}.json"
    content = path.read_bytes()
    path.unlink()
    assert desk.event("show", request)["receipt_file"] == str(path)
    assert path.read_bytes() == content
    path.unlink()
    desk.write(requests={"guard": 0.5})  # the receipt has the digest of another agreement
    shown, warning = desk.events("show", request)
    assert (shown["state"], shown["receipt_file"]) == ("certified", None)
    assert f"the file {request}.json of a receipt is lost" in warning["text"]
    assert (
        f"copy receipts/{request}.json from the folder of hub or right or a backup"
        in warning["text"]
    )
    printed = desk.run("show", request, "--format", "text").output  # stdout and stderr
    assert printed.count("of a receipt is lost") == 1
    desk.refused(7, f"the file {request}.json of a receipt is lost", "receipt", request)
    shutil.copy(desk.folder / "runs" / "trio" / "right" / "receipts" / path.name, path)
    assert desk.event("receipt", request)["receipt"] == str(path)
    assert desk.event("show", request)["receipt_file"] == str(path)


@pytest.mark.slow
def test_request_is_carried_out_and_its_subjects_are_proved(desk: Desk) -> None:
    identity = known(desk, 1)[0]
    request = desk.event("request", "--id", identity)["request"]
    desk.trio.carry_out()
    shown = desk.event("show", request)
    assert (shown["state"], shown["signatures"]) == ("certified", sorted(PARTIES))
    journal, private = desk.folder / "journal.jsonl", desk.folder / "openings.json"
    desk.events(
        "export", "--journal", journal, "--request", request, "--openings", private,
    )  # fmt: skip
    assert len(read_export(journal.read_bytes())) > 10
    assert private.stat().st_mode & 0o077 == 0
    receipts = desk.folder / "runs" / "trio" / "left" / "receipts"
    receipt = decode_receipt((receipts / f"{request}.json").read_bytes())
    found = SubjectOpenings.model_validate_json(private.read_bytes())
    assert found.root() == receipt.requests[0].subjects_root
    assert identity.encode() not in journal.read_bytes()
    proof = desk.folder / "proof.json"
    one = ("export", "--request", request, "--proof", proof, "--subject")
    shown = desk.event(*one, identity)
    assert identity.encode() not in proof.read_bytes()
    evidence = SubjectEvidence((identity,), bytes.fromhex(shown["salt"]), proof.read_bytes())
    assert check_subject(receipt, evidence) == []
    other = replace(evidence, columns=(f"{identity}0",))
    assert [each.fault for each in check_subject(receipt, other)] == [Fault.NOT_INCLUDED]
    desk.refused(2, "has no such subject", *one, "nobody")
    desk.refused(
        2, "--subject ID and --proof FILE", "export", "--request", request, "--proof", proof
    )
    assert desk.event("purge", "--request", request)["request"] == request
    desk.refused(7, "has no IDs of the request", "show", request, "--ids")


def test_no_id_is_in_any_file_or_output_but_show_ids(desk: Desk) -> None:
    secret = "canary4711"
    first = known(desk, 1)[0]
    words = [("--id", secret), ("--id", first)]
    result = desk.run("request", *(word for pair in words for word in pair))
    request = json.loads(result.output)["request"]
    texts = [result.output, desk.run("list").output, desk.run("status").output]
    texts.append(desk.run("show", request).output)
    assert not any(secret in text for text in texts)
    for each in (desk.folder / "runs").rglob("*"):
        assert each.is_dir() or secret.encode() not in each.read_bytes()
    subjects = desk.events("show", request, "--ids")[1:]
    assert {each["id"]: each["found"] for each in subjects} == {
        secret: "not_held", first: "aligned",
    }  # fmt: skip


def test_serving_process_may_have_the_journal_open(desk: Desk) -> None:
    other = desk.trio.desk("left")
    request = desk.event("request", "--id", known(desk, 1)[0])["request"]
    assert [each.id for each in other.requests()] == [request]
    other.close()


# --- decisions ------------------------------------------------------------------------------------


def test_request_is_withdrawn_before_it_is_carried_out(desk: Desk) -> None:
    request = desk.event("request", "--id", known(desk, 1)[0])["request"]
    assert desk.event("withdraw", request, "--reason", "mistake")["state"] == "cancelled"
    desk.refused(8, "is cancelled and cannot be withdrawn", "withdraw", request)
    assert desk.event("status")["states"] == {"cancelled": 1}
    assert desk.event("status")["frozen_rows"] == 0


def test_due_date_is_moved_by_two_months_at_most(desk: Desk) -> None:
    request = desk.event("request", "--id", known(desk, 1)[0])["request"]
    today = datetime.now(UTC).date()
    words = ["--notice", today, "--reason", "many requests"]
    for days in (20, 100):
        until = today + timedelta(days=days)
        desk.refused(8, "the new due date is", "extend", request, "--until", until, *words)
    until = today + timedelta(days=80)
    found = desk.event("extend", request, "--until", until, *words)
    assert found["due_at"] == f"{until}T00:00:00Z"
    late = desk.event(
        "request", "--label", "a", "--received", today - timedelta(days=40),
    )  # fmt: skip
    desk.refused(8, "cannot be moved", "extend", late["request"], "--until", until, *words)
    assert desk.events("status")[1]["expired"]


def test_persons_with_roles_make_and_approve_requests(desk: Desk) -> None:
    anna = key_of(desk, "anna", "requester", "approver")
    ben = key_of(desk, "ben", "approver")
    desk.write({"left": ROLES.format("left")}, requests={"separate_persons": True})
    identity = known(desk, 1)[0]
    desk.refused(8, "a person with the role requester must act", "request", "--id", identity)
    desk.refused(8, "ben does not have the role req", "request", "--id", identity, "--key", ben)
    request = desk.event("request", "--id", identity, "--key", anna)["request"]
    view = desk.trio.view("left", request)
    assert view.content.requester_name == "anna"
    assert view.approvals == frozenset()
    desk.refused(8, "anna made the request", "approve", request, "--key", anna)
    desk.refused(8, "a person with the role approver must act", "approve", request)
    desk.event("approve", request, "--key", ben)
    assert desk.trio.view("left", request).approvals == {"left"}
    desk.refused(8, "left has decided already", "reject", request, "--reason", "x", "--key", ben)


def test_rejection_ends_the_request(desk: Desk) -> None:
    anna = key_of(desk, "anna", "requester", "approver")
    desk.write({"left": ROLES.format("left")})
    request = desk.event("request", "--id", known(desk, 1)[0], "--key", anna)["request"]
    found = desk.event("reject", request, "--reason", "legal hold", "--key", anna)
    assert found["state"] == "rejected"
    assert desk.event("show", request)["reason"] == "legal hold"
    assert desk.trio.view("left", request).state is RequestState.REJECTED


def test_separate_persons_need_a_signed_request(desk: Desk) -> None:
    desk.write(requests={"separate_persons": True})
    desk.refused(8, "so the requester must sign", "request", "--id", known(desk, 1)[0])


def test_forgotten_id_is_readmitted_by_name(desk: Desk) -> None:
    request = desk.event("request", "--id", known(desk, 1)[0])["request"]
    with_desk = desk.trio.desk("left")
    keys = desk.trio.party("left").keys
    ForgottenList(with_desk.journal.database, keys).add([b"gone"], request, "2026-11-02")
    with_desk.close()
    assert desk.event("request", "--id", "gone")["found"]["forgotten"] == 1
    found = desk.event("readmit", "--id", "gone", "--id", "never", "--reason", "contract")
    assert (found["readmitted"], found["not_listed"]) == (1, 1)
    assert desk.event("request", "--id", "gone")["found"]["forgotten"] == 0


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "expected exactly one of --ids FILE, --id TEXT and --label NAME"),
        (("--id", "p1", "--label", "a"), "expected exactly one of"),
        (("--id", "p1", "--fraction", "0.5"), "--fraction and --seed work only with --label"),
        (("--label", "z"), "--label z is no class of the agreement"),
        (("--id", "p1", "--ground", "because"), "--ground because is unknown"),
        (("--id", "p1", "--received", "2999-01-01"), "--received lies in the future"),
        (("--id", "p1", "--identity-check", "passport"), "has not the form METHOD/NAME"),
    ],
)
def test_request_with_wrong_options_is_refused(
    desk: Desk, options: tuple[str, ...], message: str
) -> None:
    desk.refused(2, message, "request", *options)


def test_day_of_receipt_is_a_local_day_and_the_time_of_receipt_is_never_in_the_future(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "EAST-23:59")  # where it is tomorrow
    time.tzset()
    try:
        today = datetime.now(UTC).astimezone().date()
        words = ("request", "--id", known(desk, 1)[0], "--received")
        desk.refused(2, "--received lies in the future", *words, today + timedelta(days=1))
        request = desk.event(*words, today)["request"]
    finally:
        monkeypatch.undo()
        time.tzset()
    assert desk.trio.view("left", request).received_at <= datetime.now(UTC)


def test_unknown_request_and_request_of_another_party_are_refused(desk: Desk) -> None:
    desk.refused(2, "no request has the ID 01K", "show", "01K")
    request = desk.event("request", "--label", "a")["request"]
    desk.trio.request("right", [1])
    desk.refused(8, "is pending, so its record is still needed", "purge", "--request", request)
    desk.refused(2, "expected --journal FILE", "export")
    desk.refused(2, "expected --journal FILE", "export", "--request", request)


def test_request_made_elsewhere_is_not_withdrawn_here(desk: Desk) -> None:
    request = desk.trio.request("left", [1])
    left, right = desk.trio.desk("left"), desk.trio.desk("right")
    right.merge(left.journal.since({}), left.journal.counts())
    left.close()
    right.close()
    message = f"the request {request} was made at left"
    desk.refused(8, message, "withdraw", request, party="right")
    words = ["--until", "2027-01-01", "--notice", "2026-12-01", "--reason", "x"]
    desk.refused(8, message, "extend", request, *words, party="right")
    desk.refused(8, message, "purge", "--request", request, party="right")
    desk.refused(7, "has no IDs of the request", "show", request, "--ids", party="right")


def test_purge_without_a_request_waits_for_the_retention(desk: Desk) -> None:
    request = desk.event("request", "--label", "a")["request"]
    desk.event("withdraw", request)
    assert desk.event("purge")["request"] is None


def test_absent_folder_is_refused(desk: Desk) -> None:
    shutil.rmtree(desk.folder / "runs" / "trio" / "left")
    desk.refused(7, "does not exist", "list")


def test_party_without_a_kept_model_is_refused(desk: Desk) -> None:
    shutil.rmtree(desk.folder / "runs" / "trio" / "left" / "models")
    desk.refused(7, "no model is kept", "request", "--id", "p1")


def test_damaged_journal_is_refused(desk: Desk) -> None:
    desk.event("request", "--label", "a")
    path = desk.folder / "runs" / "trio" / "left" / "requests.sqlite"
    path.write_bytes(b"x" * 5000)
    desk.refused(9, "is damaged", "list")


def test_modes_without_a_kept_model_are_refused(desk: Desk) -> None:
    config = Path(__file__).parents[3] / "configs" / "horizontal" / "digits.toml"
    words = ["unlearn", "list", str(config), "--party", "server", "--format", "json"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 3
    assert "no model is kept for requests" in result.output
