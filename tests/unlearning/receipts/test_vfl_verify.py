"""The program ``vfl-verify`` as a process: exit codes, messages, and what it does not load."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from sample_receipt import (
    IDS,
    PARTIES,
    digest,
    export,
    journal,
    journal_with_end,
    openings,
    proof,
    request,
    signed,
    trust,
    unsigned,
)
from typer.testing import CliRunner

from unlearning.receipts.__main__ import app
from unlearning.receipts.receipt import RequestKind, decode_receipt

ROOT = Path(__file__).parents[3]
# Refuses every use of the network, and fails if a large library was loaded.
WATCHED = """
import sys
def watch(event, arguments):
    if event.startswith(("socket.", "urllib.", "http.", "ftplib.", "smtplib.")):
        raise RuntimeError(f"network: {event}")
sys.addaudithook(watch)
import unlearning.receipts.__main__ as program
try:
    program.verify_main()
finally:
    large = {"torch", "grpc", "numpy", "pandas", "parties", "protocol", "psi", "models", "configs"}
    loaded = sorted(large & {name.partition(".")[0] for name in sys.modules})
    if loaded:
        print("loaded", *loaded, file=sys.stderr)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with all files that a reader of the receipt may have."""
    receipt = signed(unsigned())
    (tmp_path / "receipt.json").write_bytes(receipt.encode())
    (tmp_path / "trust.json").write_text(trust(*PARTIES).model_dump_json(indent=1))
    (tmp_path / "proof.json").write_text(proof(2).model_dump_json())
    (tmp_path / "openings.json").write_text(openings().model_dump_json())
    (tmp_path / "journal.jsonl").write_bytes(export(journal_with_end(receipt.digest)))
    return tmp_path


def run(folder: Path, *words: str) -> tuple[int, str]:
    """Exit code and output of the program; words with a dot are files in the folder."""
    given = [str(folder / each) if "." in each else each for each in words]
    result = CliRunner().invoke(app, [str(folder / "receipt.json"), *given])
    return result.exit_code, " ".join(result.output.split())


def subject(index: int, salt: str | None = None) -> list[str]:
    columns = [word for each in IDS[index] for word in ("--subject", each)]
    return [*columns, "--salt", salt or digest("salt", *IDS[index]), "--proof", "proof.json"]


@pytest.mark.slow
def test_process_loads_no_large_library_and_opens_no_connection(folder: Path) -> None:
    words = ["receipt.json", "--keys", "trust.json", "--journal", "journal.jsonl", *subject(2)]
    done = subprocess.run(
        [sys.executable, "-c", WATCHED, *words],
        cwd=folder, capture_output=True, text=True, check=False, env={"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert done.stdout.startswith("valid: receipt 01")


def test_valid_receipt_says_what_was_confirmed_and_what_not(folder: Path) -> None:
    code, output = run(
        folder, "--keys", "trust.json", *subject(2), "--journal", "journal.jsonl",
        "--openings", "openings.json",
    )  # fmt: skip
    assert code == 0
    assert "confirmed: all parties of the receipt signed" in output
    assert "confirmed: the subject is one of the removed ones" in output
    assert "does not prove absence of influence by itself" in output
    assert "was not compared with a Retrain" in output


def test_subject_of_a_correction_is_not_called_removed(folder: Path) -> None:
    corrected = request().model_copy(update={"kind": RequestKind.CORRECTION})
    receipt = signed(unsigned().model_copy(update={"requests": (corrected,)}), "bank", "shop")
    (folder / "receipt.json").write_bytes(receipt.encode())
    code, output = run(folder, "--keys", "trust.json", *subject(2))
    assert code == 0
    assert "confirmed: the subject is one of those whose labels were replaced" in output
    assert "removed ones" not in output


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        (lambda r: signed(r, "bank"), 3, "shop has not signed the receipt"),
        (lambda r: r, 1, "no trusted key has signed"),
        (lambda r: signed(r.model_copy(update={"federation": "other"})), 1, "of federation other"),
    ],
)
def test_fault_gives_its_exit_code_and_a_sentence(folder, change, code, message) -> None:
    (folder / "receipt.json").write_bytes(change(unsigned()).encode())
    found, output = run(folder, "--keys", "trust.json")
    assert (found, message in output) == (code, True), output


def test_subject_with_a_wrong_salt_is_not_included(folder: Path) -> None:
    code, output = run(folder, "--keys", "trust.json", *subject(2, digest("another")))
    assert (code, "not-included: the subject is not in request 01" in output) == (1, True)
    code, output = run(folder, "--keys", "trust.json", *subject(1))
    assert code == 1
    assert IDS[1][0] not in output


def test_journal_before_the_receipt_is_enough(folder: Path) -> None:
    (folder / "journal.jsonl").write_bytes(export(journal()))
    assert run(folder, "--keys", "trust.json", "--journal", "journal.jsonl")[0] == 0


def test_superseded_receipt_has_exit_code_4(folder: Path) -> None:
    (folder / "journal.jsonl").write_bytes(export(journal_with_end(digest("another receipt"))))
    code, output = run(folder, "--keys", "trust.json", "--journal", "journal.jsonl")
    assert (code, "completed with another receipt" in output) == (4, True)


def test_last_receipt_of_a_request_supersedes_the_earlier_ones(folder: Path) -> None:
    """A request is carried out again after a backup was restored."""
    receipt, other = decode_receipt((folder / "receipt.json").read_bytes()).digest, digest("other")
    for receipts, expected in (((receipt, other), 4), ((other, receipt), 0)):
        (folder / "journal.jsonl").write_bytes(export(journal_with_end(*receipts)))
        code, output = run(folder, "--keys", "trust.json", "--journal", "journal.jsonl")
        assert (code, "completed with another receipt" in output) == (expected, expected == 4)


def test_only_the_active_party_can_name_a_later_receipt(folder: Path) -> None:
    passive = next(each for each in PARTIES if each != "bank")
    events = journal_with_end(digest("another receipt"), origin=passive)
    (folder / "journal.jsonl").write_bytes(export(events))
    assert run(folder, "--keys", "trust.json", "--journal", "journal.jsonl")[0] == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--keys", "none.json"], "cannot read"),
        (["--keys", "proof.json"], "the file of trusted keys is malformed"),
        (["--keys", "trust.json", "--salt", "00"], "must be given together"),
        (["--keys", "trust.json", *subject(2, "00")], "--salt must be 64 hexadecimal digits"),
        (["--keys", "trust.json", "--openings", "trust.json"], "the file of openings is malformed"),
        ([], "Missing option"),
    ],
)
def test_unusable_command_line_or_file_has_exit_code_2(folder, words, message) -> None:
    code, output = run(folder, *words)
    assert (code, message in output) == (2, True), output


def test_json_has_result_and_findings(folder: Path) -> None:
    (folder / "receipt.json").write_bytes(signed(unsigned(), "shop").encode())
    code, output = run(folder, "--keys", "trust.json", "--json")
    found = json.loads(output)
    assert code == found["exit_code"] == 3
    assert found["result"] == "incomplete"
    message = "bank has not signed the receipt"
    assert found["findings"] == [{"fault": "missing-signature", "message": message}]
    assert found["receipt_sha256"] == unsigned().digest


def test_version_is_printed(folder: Path) -> None:
    code, output = run(folder, "--version")
    assert (code, output.startswith("vfl-verify ")) == (0, True)
