"""``vfl models export|import``: a party moves, an older export is restored; every refusal."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from kept_trio import KeptTrio, train_trio
from three_parties import PARTIES
from typer.testing import CliRunner
from unlearn_desk import Desk

from parties.cli.main import app
from parties.common.errors import StorageError
from parties.session.run_folder import lock_run_folder
from parties.session.saved_model import MANIFEST
from parties.vertical.offline import transfer

COUNTED = ("requests.sqlite", "keys.json", "incarnation")
MASTER = "6b" * 32


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> KeptTrio:
    """Three parties that have trained; tests work on copies."""
    trio = train_trio(tmp_path_factory.mktemp("trained"))
    Desk(trio)  # writes the config
    return trio


@pytest.fixture
def trio(trained: KeptTrio, tmp_path: Path) -> KeptTrio:
    """A copy of the trained parties."""
    shutil.copytree(trained.folder, tmp_path / "trio")
    return KeptTrio(tmp_path / "trio", trained.plan)


def state_of(trio: KeptTrio, party: str = "left") -> Path:
    return trio.folder / "runs" / "trio" / party


def run(
    trio: KeptTrio, command: str, *, code: int = 0, party: str = "left", **options: Any
) -> dict[str, Any]:
    """The last line that the command prints."""
    given = {"file": trio.folder / f"{party}.vfl", "key": trio.folder / f"{party}.key"} | options
    words = ["models", command, trio.folder / "trio.toml", given.pop("file"), "--party", party]
    words += ["--transfer-key", given.pop("key"), "--format", "json"]
    words += ["--out", given.pop("out", trio.folder / "runs")]
    environment = {"COLUMNS": "300", "VFL_DATA": None, "VFL_MASTER_KEY_FILE": None} | given
    result = CliRunner().invoke(app, [str(word) for word in words], env=environment)
    assert result.exit_code == code, result.output
    found: dict[str, Any] = json.loads(result.output.splitlines()[-1])
    return found


def refused(trio: KeptTrio, code: int, message: str, command: str, **options: Any) -> None:
    error = run(trio, command, code=code, **options)
    assert message in error["message"]
    assert error["hint"]


def contents(folder: Path) -> dict[str, bytes]:
    """The files of a party's folder without journal, keys, locks and counted starts, by name."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.startswith((".", *COUNTED))
    }


def test_party_moves_to_another_machine_and_forgets_there(trio: KeptTrio, tmp_path: Path) -> None:
    first = trio.request("left", [3, 5])
    trio.carry_out()
    before, keys = contents(state_of(trio)), trio.party("left").keys.all()
    made = run(trio, "export")
    shutil.rmtree(state_of(trio))
    moved = run(trio, "import")
    assert (moved["version"], moved["events"]) == (made["version"], made["events"])
    assert moved["version"] > 1
    assert contents(state_of(trio)) == before
    assert trio.party("left").keys.all() == keys
    assert trio.view("left", first).state.value == "certified"
    second = trio.request("left", [8])
    trio.carry_out()
    assert {trio.view(name, second).state.value for name in PARTIES} == {"certified"}
    assert not list((tmp_path / "trio" / "runs" / "trio").glob(".*importing"))


def test_forgotten_rows_are_not_revived_by_an_older_export(trio: KeptTrio) -> None:
    """The events come back from the others: the request is carried out before anything else."""
    for name in PARTIES:
        run(trio, "export", party=name)
    request = trio.request("left", [3, 5])
    trio.carry_out()
    for name in PARTIES:
        journal = state_of(trio, name) / "requests.sqlite"
        kept = journal.read_bytes()
        shutil.rmtree(state_of(trio, name))
        run(trio, "import", party=name)
        if name == "right":  # one party still has its journal
            journal.write_bytes(kept)
    assert {len(store.files()) for store in trio.models().values()} == {1}
    trio.carry_out()
    for name in PARTIES:
        assert trio.view(name, request).state.value == "certified"
        assert [each.number for each in trio.models()[name].files()] != [1]


def test_export_has_neither_older_versions_nor_their_keys(trio: KeptTrio) -> None:
    trio.train()
    assert [each.number for each in trio.models()["left"].files()] == [1, 2]
    assert run(trio, "export")["version"] == 2
    shutil.rmtree(state_of(trio))
    run(trio, "import")
    assert [each.number for each in trio.models()["left"].files()] == [2]
    assert "model 1" not in trio.party("left").keys.all()


def test_export_tells_nothing_without_its_key(trio: KeptTrio) -> None:
    run(trio, "export")
    content = (trio.folder / "left.vfl").read_bytes()
    line, _, rest = content.partition(b"\n")
    assert set(json.loads(line)) == {"federation", "format", "made_at", "party", "version"}
    assert MANIFEST.encode() not in rest
    assert (trio.folder / "left.vfl").stat().st_mode & 0o777 == 0o600
    assert (trio.folder / "left.key").stat().st_mode & 0o777 == 0o600


def test_imported_keys_are_wrapped_with_the_master_key_of_the_machine(trio: KeptTrio) -> None:
    run(trio, "export")
    keys = trio.party("left").keys.all()
    shutil.rmtree(state_of(trio))
    (trio.folder / "master").write_text(MASTER)
    run(trio, "import", VFL_MASTER_KEY_FILE=str(trio.folder / "master"))
    stored = json.loads((state_of(trio) / "keys.json").read_text())
    assert stored["wrapped"]
    assert not {key.hex() for key in keys.values()} & set(stored["keys"].values())
    refused(trio, 9, "no master key is given", "export", file="a", key="b")


def test_nothing_is_replaced(trio: KeptTrio) -> None:
    run(trio, "export")
    before = (trio.folder / "left.vfl").read_bytes(), contents(state_of(trio))
    refused(trio, 7, "left.vfl exists already", "export", key=trio.folder / "other.key")
    refused(trio, 7, "left.key exists already", "export", file=trio.folder / "other.vfl")
    refused(trio, 7, "exists already", "import")
    assert ((trio.folder / "left.vfl").read_bytes(), contents(state_of(trio))) == before
    assert not (trio.folder / "other.vfl").exists()
    assert not (trio.folder / "other.key").exists()


def test_one_file_for_the_export_and_its_key_is_refused(trio: KeptTrio) -> None:
    refused(trio, 7, "for the export and for its key", "export", key=trio.folder / "left.vfl")
    assert not (trio.folder / "left.vfl").exists()


def test_export_that_cannot_be_written_leaves_no_key(trio: KeptTrio) -> None:
    refused(trio, 7, "cannot write", "export", file=trio.folder / "absent" / "left.vfl")
    assert not (trio.folder / "left.key").exists()


def test_export_into_the_folder_of_the_party_is_refused(trio: KeptTrio) -> None:
    refused(trio, 7, "lies inside the folder", "export", file=state_of(trio) / "left.vfl")


def test_export_needs_a_kept_model_and_a_party_that_is_stopped(trio: KeptTrio) -> None:
    with lock_run_folder(state_of(trio)):
        refused(trio, 7, "is in use by process", "export")
    shutil.rmtree(state_of(trio) / "models")
    refused(trio, 7, "no model is kept", "export")
    refused(trio, 7, "does not exist", "export", out=trio.folder / "nowhere")


@pytest.mark.parametrize("place", [0.5, 0.999])
def test_damaged_export_is_refused_and_writes_nothing(trio: KeptTrio, place: float) -> None:
    run(trio, "export")
    shutil.rmtree(state_of(trio))
    path = trio.folder / "left.vfl"
    content = bytearray(path.read_bytes())
    content[int(place * len(content))] ^= 1
    path.write_bytes(content)
    refused(trio, 9, "is damaged, or the transfer key is that of another", "import")
    assert not state_of(trio).exists()


def test_changed_first_line_is_refused(trio: KeptTrio) -> None:
    run(trio, "export")
    shutil.rmtree(state_of(trio))
    path = trio.folder / "left.vfl"
    path.write_bytes(path.read_bytes().replace(b'"version": 1', b'"version": 9', 1))
    refused(trio, 9, "is damaged, or the transfer key is that of another", "import")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"id,age\n1,2\n", "was not written by vfl models export"),
        (b'{"format": 7}\n', "has format 7; expected 1"),
        (b'{"format": 1}\n', "was not written by vfl models export"),
        (b"[" * 5000 + b"\n", "was not written by vfl models export"),
    ],
    ids=["another file", "another format", "missing facts", "long line"],
)
def test_file_that_is_no_export_is_named(trio: KeptTrio, line: bytes, message: str) -> None:
    shutil.rmtree(state_of(trio))
    (trio.folder / "left.vfl").write_bytes(line)
    (trio.folder / "left.key").write_text(MASTER)
    refused(trio, 9, message, "import")


def test_export_of_another_party_and_absent_files_are_refused(trio: KeptTrio) -> None:
    run(trio, "export", party="right")
    shutil.rmtree(state_of(trio))
    file, key = trio.folder / "right.vfl", trio.folder / "right.key"
    refused(trio, 9, "is of the party right of trio; expected left", "import", file=file, key=key)
    refused(trio, 7, "cannot read", "import", key=key)
    refused(trio, 3, "cannot read a transfer key", "import", file=file)
    assert not state_of(trio).exists()


def test_model_of_another_agreement_is_refused_and_writes_nothing(trio: KeptTrio) -> None:
    run(trio, "export")
    shutil.rmtree(state_of(trio))
    path = trio.folder / "trio.toml"
    text = path.read_text()
    path.write_text(text.replace("hidden = [6]", "hidden = [7]"))
    assert path.read_text() != text
    refused(trio, 7, "was trained with another agreement", "import")
    assert not state_of(trio).exists()


def test_interrupted_import_is_repeated(trio: KeptTrio, monkeypatch: pytest.MonkeyPatch) -> None:
    run(trio, "export")
    before = contents(state_of(trio))
    shutil.rmtree(state_of(trio))
    beside = state_of(trio).with_name(".left.importing")
    beside.mkdir()
    (beside / "models").write_text("left by a killed process")
    written: list[Path] = []

    def full(path: Path, content: bytes) -> None:
        if len(written) == 2:
            raise StorageError(f"cannot write {path}: the disk is full", "make room")
        written.append(path)
        path.write_bytes(content)

    with monkeypatch.context() as patch:
        patch.setattr(transfer, "write_atomically", full)
        refused(trio, 7, "the disk is full", "import")
    assert len(written) == 2
    assert not state_of(trio).exists()
    assert not beside.exists()
    run(trio, "import")
    assert contents(state_of(trio)) == before
