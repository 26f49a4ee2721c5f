"""Every vector gives its verdict; no changed byte of a receipt or a journal is accepted."""

import json
from collections import Counter
from pathlib import Path

import pytest
from sample_receipt import PARTIES, export, journal_with_end, signed, trust, unsigned
from vectors import FOLDER, VALID, read_vector, vectors

from unlearning.receipts.faults import ExitCode, Fault
from unlearning.receipts.keys import read_trust
from unlearning.receipts.verify import Evidence, SubjectEvidence, check_journal, verify

FILES = sorted(FOLDER.glob("*.txt"))


def evidence_of(files: dict[str, bytes]) -> Evidence:
    subject = None
    if "subject.json" in files:
        shown = json.loads(files["subject.json"])
        salt = bytes.fromhex(shown["salt"])
        subject = SubjectEvidence(shown["subject"], salt, files["proof.json"])
    return Evidence(
        subject=subject,
        openings=files.get("openings.json"),
        journal=files.get("journal.jsonl"),
        previous=files.get("previous.json"),
        statement=files.get("statement.jsonl"),
    )


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_vector_gives_its_verdict(path: Path) -> None:
    vector = read_vector(path)
    files = dict(vector.files)
    result = verify(files["receipt.json"], read_trust(files["trust.json"]), evidence_of(files))
    expected = set() if vector.expect == VALID else {Fault(vector.expect)}
    assert {each.fault for each in result.findings} == expected, result.findings
    assert int(result.exit_code) == vector.code


def test_vectors_are_those_that_the_command_writes() -> None:
    made = {f"{each.name}.txt": each.encode() for each in vectors()}
    assert made == {path.name: path.read_bytes() for path in FILES}


def test_every_fault_has_a_vector_and_there_are_at_least_sixty() -> None:
    counts = Counter(each.expect for each in vectors())
    assert counts.keys() == {*map(str, Fault), VALID}
    assert sum(counts.values()) - counts[VALID] >= 60
    assert counts[VALID] >= 5


def changed(byte: int) -> int:
    """Another byte that is likely to keep the JSON legal: the next digit or letter."""
    return byte ^ 1


def test_no_receipt_with_a_changed_byte_is_accepted() -> None:
    good, keys = signed(unsigned()).encode(), trust(*PARTIES)
    assert verify(good, keys).exit_code is ExitCode.VALID
    codes: Counter[ExitCode] = Counter()
    for at, byte in enumerate(good):
        data = good[:at] + bytes([changed(byte)]) + good[at + 1 :]
        codes[verify(data, keys).exit_code] += 1
    assert sum(codes.values()) == len(good)
    assert ExitCode.VALID not in codes
    assert ExitCode.CHAIN_GAP not in codes
    # A changed name of a key makes its signature one by an unknown key, which is ignored.
    assert codes[ExitCode.INCOMPLETE] <= 2 * (len("bank") + len("shop") + 2 * 16)
    assert codes[ExitCode.INVALID] > 1000


def test_no_journal_with_a_changed_byte_is_accepted() -> None:
    receipt, keys = signed(unsigned()), trust(*PARTIES)
    good = export(journal_with_end(receipt.digest))
    assert check_journal(receipt, good, keys) == []
    for at, byte in enumerate(good):
        data = good[:at] + bytes([changed(byte)]) + good[at + 1 :]
        assert check_journal(receipt, data, keys), at


def test_no_receipt_with_a_missing_or_repeated_byte_is_accepted() -> None:
    good, keys = signed(unsigned()).encode(), trust(*PARTIES)
    for at in range(0, len(good), 7):
        assert verify(good[:at] + good[at + 1 :], keys).exit_code is not ExitCode.VALID
        assert verify(good[:at] + good[at:][:1] + good[at:], keys).exit_code is not ExitCode.VALID


def test_no_journal_without_an_event_before_the_head_is_accepted() -> None:
    receipt, keys = signed(unsigned()), trust(*PARTIES)
    events = journal_with_end(receipt.digest)
    for at in range(len(events) - 1):
        assert check_journal(receipt, export(events[:at] + events[at + 1 :]), keys), at
    assert check_journal(receipt, export(events[::-1]), keys) == []
