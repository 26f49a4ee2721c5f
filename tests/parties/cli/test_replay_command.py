"""``vfl replay`` and ``vfl compare``: errors before any other party is contacted."""

import json
import shutil
from pathlib import Path

import pytest
from kept_trio import KeptTrio, train_trio
from test_unlearn_command import Desk
from typer.testing import CliRunner, Result

from parties.cli.main import app


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[KeptTrio, str]:
    """Three parties that have carried out a request; tests work on copies."""
    trio = train_trio(tmp_path_factory.mktemp("done"))
    request = trio.request("left", [3, 5])
    trio.carry_out()
    return trio, request


@pytest.fixture
def trio(done: tuple[KeptTrio, str], tmp_path: Path) -> KeptTrio:
    shutil.copytree(done[0].folder, tmp_path / "trio")
    trio = KeptTrio(tmp_path / "trio", done[0].plan)
    Desk(trio)  # writes the config
    return trio


def run(trio: KeptTrio, command: str, given: object, *more: object, out: str = "runs") -> Result:
    words = [command, trio.folder / "trio.toml", given, "--party", "left", "--format", "json"]
    words += ["--out", trio.folder / out, "--data", trio.folder, "--hub", "127.0.0.1:9", *more]
    environment = {"VFL_DATA": None, "VFL_MASTER_KEY_FILE": None}
    return CliRunner().invoke(app, [str(word) for word in words], env=environment)


def refused(result: Result, code: int, message: str) -> None:
    assert result.exit_code == code, result.output
    error = json.loads(result.output.splitlines()[-1])
    assert message in error["message"]
    assert error["hint"]


@pytest.mark.parametrize("command", ["replay", "compare"])
def test_unknown_request_is_refused(trio: KeptTrio, command: str) -> None:
    refused(run(trio, command, "0" * 26), 7, "is unknown at left")


def test_receipt_that_is_absent_or_of_another_run_is_refused(
    trio: KeptTrio, done: tuple[KeptTrio, str]
) -> None:
    refused(run(trio, "replay", trio.folder / "none.json"), 7, "cannot read the receipt")
    path = trio.folder / "runs" / "trio" / "left" / "receipts" / f"{done[1]}.json"
    changed = trio.folder / "changed.json"
    changed.write_bytes(
        path.read_bytes().replace(b'"clock_anomaly":false', b'"clock_anomaly":true')
    )
    refused(run(trio, "replay", changed), 9, "another receipt of the request")


def test_folder_without_a_run_is_refused(trio: KeptTrio, done: tuple[KeptTrio, str]) -> None:
    result = run(trio, "replay", done[1], out="elsewhere")
    refused(result, 7, "does not exist")
    assert not (trio.folder / "elsewhere").exists()


def test_changed_agreement_is_refused(trio: KeptTrio, done: tuple[KeptTrio, str]) -> None:
    result = run(trio, "replay", done[1], "--set", "requests.guard=0.01")
    refused(result, 8, "the agreement is not the one")
