"""Receipts verify by the newest file of trusted keys: after a new key, and after a party joined."""

from pathlib import Path

import pytest
from kept_trio import TRAINING, KeptTrio, train_trio
from three_parties import agreement, certify, write_data

from parties.requests.lifecycle import RequestState
from parties.requests.receipts import FOLDER, TRUST
from unlearning.receipts.faults import ExitCode
from unlearning.receipts.keys import read_trust
from unlearning.receipts.verify import verify

pytestmark = pytest.mark.slow  # requests are carried out
PLAN = {
    "unlearning": {"method": "retrain-local", "compare": (), "retrains": 0},
    "requests": {"guard": 1.0},
}


def verdicts(trio: KeptTrio, *requests: str) -> list[ExitCode]:
    """The verdict on each receipt of the hub by its file of trusted keys."""
    folder = trio.folder / "runs" / "trio" / "hub" / FOLDER
    trust = read_trust((folder / TRUST).read_bytes())
    found = [(folder / f"{each}.json").read_bytes() for each in requests]
    return [verify(each, trust).exit_code for each in found]


def test_earlier_receipt_verifies_after_a_party_has_a_new_key(tmp_path: Path) -> None:
    trio = train_trio(tmp_path, **PLAN)
    first = trio.request("left", [3])
    trio.carry_out()
    trio.party("left").keys.destroy("signatures")
    second = trio.request("left", [7])
    trio.carry_out()
    assert verdicts(trio, first, second) == [ExitCode.VALID] * 2


def test_earlier_receipt_verifies_after_a_party_joined_on_the_same_day(tmp_path: Path) -> None:
    write_data(tmp_path)
    certify(tmp_path)
    whole = agreement(training=TRAINING, **PLAN)
    parties = whole["parties"]
    trio = KeptTrio(tmp_path, {**whole, "parties": {n: parties[n] for n in ("hub", "left")}})
    trio.train()
    first = trio.request("left", [3])
    trio.carry_out()
    today = trio.view("hub", first).received_at.date().isoformat()
    joined = {**parties, "right": {**parties["right"], "since": today}}
    trio.plan = {**whole, "parties": joined}
    assert trio.view("hub", first).state is RequestState.CERTIFIED
    trio.train(versions=dict.fromkeys(trio.names, "newest"))
    second = trio.request("left", [7])
    trio.carry_out()
    assert trio.view("hub", second).signatures == {*parties}
    assert verdicts(trio, first, second) == [ExitCode.VALID] * 2
