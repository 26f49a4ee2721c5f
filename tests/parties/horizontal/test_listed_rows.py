"""Requests of a client for the rows of a list, by number or by ID."""

import shutil
from pathlib import Path

import pytest
import torch
from client_federation import WOOD, ClientFederation
from request_federation import PATIENCE
from safetensors.torch import load_file

from parties.cli.modes import read_runnable
from parties.common.errors import StorageError
from parties.data.id_lists import ListedIds
from parties.horizontal.client import _store_of
from parties.horizontal.local.client_data import read_client_data, requested_rows
from parties.horizontal.local.rows import OwnRows
from parties.horizontal.service.client_list import read_client_list
from parties.horizontal.service.kept_model import listed_rows, read_kept_model, request_name
from parties.horizontal.setup import own_rows, set_up_horizontal_party
from parties.requests.events import EventKind, RequestedBody
from parties.requests.subjects import SubjectClass, subjects_root
from parties.session.setup import StartOptions

SOME = 'unlearn=[{name="leaver", client="elm", fraction=0.5}]'
ALONE = ("unlearning.compare=[]", "unlearning.retrains=0")
TABLE = """
[parties]
server = { role = "server" }
elm = { role = "client" }
oak = { role = "client" }

[settings.server]
[settings.elm]
data = { kind = "csv", path = "elm.csv", label = "y", id = { columns = ["id"] } }
[settings.oak]
data = { kind = "csv", path = "elm.csv", label = "y" }
"""


def elm_rows(federation: ClientFederation) -> OwnRows:
    config = read_runnable(federation.config, list(federation.changes), "elm")
    return own_rows(config, "elm", federation.folder)


def half_of_elm(federation: ClientFederation) -> list[str]:
    """The numbers of the rows that the request ``SOME`` of an agreement samples."""
    config = read_runnable(federation.config, [SOME], "elm")
    agreement, data = config.agreement, config.settings("elm").data
    rows = read_client_data(agreement, "elm", data, federation.folder, lambda _: None)
    chosen = requested_rows(agreement, agreement.unlearn[0], "elm", rows)
    return [rows.ids[at].decode().partition(":")[2] for at in chosen]


def the_model(federation: ClientFederation, out: Path, name: str) -> dict[str, torch.Tensor]:
    return load_file(federation.state(name, out) / "model.safetensors")


def equal(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[key], other[key]) for key in one)


def forgotten_count(federation: ClientFederation, out: Path) -> int:
    with federation.local("elm", out) as local:
        return len(local.forgotten)


@pytest.mark.slow
def test_listed_rows_give_the_model_of_the_same_rows_in_the_agreement(tmp_path: Path) -> None:
    federation, out = ClientFederation(tmp_path / "later"), tmp_path / "later" / "runs"
    federation.train(out)
    numbers = half_of_elm(federation)
    printed = federation.ask_list("elm", out, "--rows", numbers)
    request = printed["request"]
    with federation.serve(out) as service:
        federation.wait_certified(service, request)
    assert federation.view("oak", out, request).count == len(numbers) == printed["found"]["aligned"]
    listed = ClientFederation(tmp_path / "listed", (SOME, *ALONE))
    listed.train(tmp_path / "listed" / "runs")
    expected = the_model(listed, tmp_path / "listed" / "runs", "server")
    assert all(equal(expected, the_model(federation, out, name)) for name in federation.roles)
    federation.command(
        "purge", "elm", out, "--request", request
    )  # the list of forgotten IDs is left
    assert forgotten_count(federation, out) == len(numbers)
    again = federation.ask_list("elm", out, "--rows", numbers)
    assert (again["request"], again["found"]["forgotten"]) == (None, len(numbers))
    federation.train(out)
    assert "1 earlier requests to forget are left out" in federation.notes(out)
    config = read_runnable(federation.config, [], "elm")
    party = set_up_horizontal_party(
        config, "elm", StartOptions(out, None, federation.keys), lambda _: None
    )
    gone = {f"digits:{each}".encode() for each in numbers}
    left = _store_of(party)._task.ids
    assert left
    assert not gone & {*left}


@pytest.mark.slow
def test_a_client_restored_from_a_backup_forgets_the_rows_again(tmp_path: Path) -> None:
    federation, out = ClientFederation(tmp_path), tmp_path / "runs"
    federation.train(out)
    numbers = half_of_elm(federation)[:20]
    for name in federation.roles:  # a backup from before would introduce its key again
        with federation.desk(name, out):
            pass
    shutil.copytree(out, tmp_path / "older")
    request = federation.ask_list("elm", out, "--rows", numbers)["request"]
    shutil.copytree(out, tmp_path / "backup")
    with federation.serve(out) as service:
        federation.wait_certified(service, request)
    before = the_model(federation, out, "elm")
    for name in federation.roles:
        shutil.rmtree(federation.state(name, out))
        shutil.copytree(federation.state(name, tmp_path / "backup"), federation.state(name, out))
    assert forgotten_count(federation, out) == 0
    with federation.serve(out) as service:
        federation.wait_certified(service, request)
    assert all(equal(before, the_model(federation, out, name)) for name in federation.roles)
    shutil.rmtree(federation.state("elm", out))
    shutil.copytree(federation.state("elm", tmp_path / "backup"), federation.state("elm", out))
    second = federation.ask("oak", out, ["3"])
    with federation.serve(out) as service:
        federation.wait_certified(service, second)
    kept = read_kept_model(federation.party("elm", out))  # type: ignore[arg-type]
    assert kept is not None
    done = {each.name: each.has_list for each in kept.forgotten}
    assert done == {request_name(request): True, request_name(second): False}
    assert forgotten_count(federation, out) == len(numbers)
    _restore_without_the_record(federation, out, request, numbers)


def _restore_without_the_record(
    federation: ClientFederation, out: Path, request: str, numbers: list[str]
) -> None:
    """The backup of elm is older than its request: elm needs the list again."""
    shutil.rmtree(federation.state("elm", out))
    older = federation.folder / "older"
    shutil.copytree(federation.state("elm", older), federation.state("elm", out))
    with federation.serve(out) as service:
        service.running["elm"].join(PATIENCE)
        assert service.running["elm"].exitcode == 7
    assert "has no record of the rows of its request" in federation.output("elm", out).read_text()
    again = federation.ask_list("elm", out, "--rows", numbers[::-1])
    assert (again["request"], again["new"]) == (request, False)
    third = federation.ask("oak", out, ["4"])
    with federation.serve(out) as service:
        federation.wait_certified(service, third)
    kept = read_kept_model(federation.party("elm", out))  # type: ignore[arg-type]
    assert kept is not None
    assert request_name(request) in {each.name for each in kept.forgotten}
    assert forgotten_count(federation, out) == len(numbers)


def test_the_events_of_a_list_name_no_row(tmp_path: Path) -> None:
    federation, out = ClientFederation(tmp_path), tmp_path / "runs"
    rows = elm_rows(federation)
    known = {each: number for number, each in rows.numbers.items()}
    numbers = [str(known[each]) for each in [*rows.trained][:3]]
    printed = federation.ask_list("elm", out, "--rows", numbers)
    assert printed["found"] == {
        "aligned": 3, "not_trained": 0, "not_held": 0, "forgotten": 0, "unusable_lines": 0,
        "repeated": 0,
    }  # fmt: skip
    (event,) = [each for each in federation.events("elm", out) if each.kind is EventKind.REQUESTED]
    body = event.body
    assert isinstance(body, RequestedBody)
    assert (body.kind, body.count, body.rows, body.classes) == ("client", 3, None, ())
    assert {*body.model_dump(exclude_defaults=True)} == {
        "kind", "count", "subjects_root", "ground", "received_at", "due_at"
    }  # fmt: skip
    with federation.local("elm", out) as local:
        subjects = local.subjects.of(event.request)
        assert subjects is not None
        assert [each.id for each in subjects] == [f"digits:{each}".encode() for each in numbers]
        assert body.subjects_root == subjects_root(subjects)
    stored = [path.read_bytes() for path in federation.state("elm", out).iterdir()]
    assert not any(f"digits:{each}".encode() in content for content in stored for each in numbers)
    same = federation.ask_list("elm", out, "--rows", numbers[::-1])
    assert (same["request"], same["new"]) == (event.request, False)


def test_other_entries_are_listed_by_line_and_end_nothing(tmp_path: Path) -> None:
    federation, out = ClientFederation(tmp_path), tmp_path / "runs"
    rows = elm_rows(federation)
    known = {each: str(number) for number, each in rows.numbers.items()}
    one, two, gone = (known[each] for each in [*rows.trained][:3])
    held_out = next(known[each] for each in rows.held if each not in rows.trained)
    with federation.local("elm", out) as local:
        local.forgotten.add([f"digits:{gone}".encode()], "01KARVB9G0000000000000000G", "2026-11-27")
    path = tmp_path / "list.txt"
    entries = [one, "1797", held_out, "x", one, gone, two, f" {two} ", "-3"]
    path.write_text("\n".join(entries))
    *events, printed = federation.command("request", "elm", out, "--rows", str(path))
    assert printed["found"] == {
        "aligned": 2, "not_trained": 1, "not_held": 1, "forgotten": 1, "unusable_lines": 2,
        "repeated": 2,
    }  # fmt: skip
    assert {each["found"]: each["lines"] for each in events} == {
        "not_held": [2], "not_trained": [3], "unusable_lines": [4, 9], "repeated": [5, 8],
        "forgotten": [6],
    }  # fmt: skip
    none = federation.ask_list("elm", out, "--rows", [gone, "1797"])
    assert (none["request"], none["found"]["forgotten"]) == (None, 1)


def table_federation(folder: Path) -> ClientFederation:
    """Two clients with tables; the rows of elm have IDs."""
    lines = [f"p{at},{at % 7},{at % 5},{at % 2}" for at in range(40)]
    (folder / "elm.csv").write_text("\n".join(["id,x,z,y", *lines]) + "\n")
    head = WOOD.partition("[parties]")[0].replace("[1, 8, 8]", "[2]")
    head = head.replace(
        'classes = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]', 'classes = ["0", "1"]'
    )
    ranges = 'ranges = { x = [0, 7], z = [0, 5] }, label = "y", id'
    config = folder / "table.toml"
    config.write_text(head + TABLE.replace('label = "y", id', ranges))
    return ClientFederation(folder, config=config)


def test_rows_with_ids_are_listed_by_id(tmp_path: Path) -> None:
    federation, out = table_federation(tmp_path), tmp_path / "runs"
    rows = elm_rows(federation)
    assert not rows.numbers
    known = [each.decode() for each in rows.trained]
    path = tmp_path / "leavers.csv"
    path.write_text(f"name;ID\nada;{known[0]}\nbob;{known[1]}\neve;p99\n")
    *lines, printed = federation.command("request", "elm", out, "--ids", str(path))
    assert (printed["found"]["aligned"], printed["found"]["not_held"]) == (2, 1)
    assert [each["lines"] for each in lines] == [[4]]
    one = federation.command("request", "elm", out, "--id", known[2])[-1]
    assert one["found"]["aligned"] == 1


def test_a_list_is_read_by_what_the_client_has(tmp_path: Path) -> None:
    rows = OwnRows(frozenset({b"a:1", b"a:2", b"a:3"}), {b"a:1": 1, b"a:2": 1}, {1: b"a:1"})
    assert [rows.row_of(each) for each in (b"1", b"001", b"7", b"a:1", b"")] == [
        b"a:1", b"a:1", b"7", None, None
    ]  # fmt: skip
    federation = ClientFederation(tmp_path)
    with federation.local("elm", tmp_path / "runs") as local:
        local.forgotten.add([b"a:2"], "request", "2026-11-27")
        listed = ListedIds(("1", "2", "3"), (b"a:1", b"a:2", b"a:3"), (1, 2, 3))
        found = read_client_list(listed, rows, local.forgotten)
    assert [each.found for each in found.subjects] == [
        SubjectClass.ALIGNED, SubjectClass.FORGOTTEN, SubjectClass.NOT_TRAINED
    ]  # fmt: skip
    assert (found.count, found.lines) == (1, {"forgotten": [2], "not_trained": [3]})


def test_a_request_without_its_private_record_is_refused(tmp_path: Path) -> None:
    federation, out = ClientFederation(tmp_path), tmp_path / "runs"
    party = federation.party("elm", out)
    request = party.agreement.listed_request("r01karvb9g0000000000000000g", "elm")  # type: ignore[attr-defined]
    with federation.desk("elm", out) as desk:
        with pytest.raises(StorageError, match="has no record of the rows of its request 01KARV"):
            listed_rows(party, [request], desk.journal)  # type: ignore[arg-type]
        other = request.model_copy(update={"client": "oak"})
        assert listed_rows(party, [other], desk.journal) == {}  # type: ignore[arg-type]
        desk.remember("01KARVB9G0000000000000000G", [b"digits:5"])
        (found,) = listed_rows(party, [request], desk.journal).values()  # type: ignore[arg-type]
    assert b"digits:5" in found
    assert b"digits:6" not in found
    assert request.leaver is None
