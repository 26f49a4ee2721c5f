"""Entity alignment in the hardened mode: the same common rows, and refused misbehaviour."""

import json
from pathlib import Path

import numpy as np
import pytest
from test_processes import DIGITS, simulate
from three_parties import agreement, open_split_model
from whole_run import run

from configs.agreement import PsiSettings
from parties.common.errors import PolicyError
from parties.report.page import vertical_page
from parties.vertical.alignment import common_rows
from parties.vertical.alignment import hardened_alignment as hardened
from protocol import vfl_pb2
from protocol.errors import ProtocolError
from protocol.hub import Hub
from protocol.tensors import MAX_PAYLOAD
from psi.parameters import TAG_BYTES

HARDENED = {"minimum": 10, "security": "hardened"}
FORGET = ({"name": "request", "classes": ["a"], "fraction": 0.5},)


def test_both_modes_find_the_same_rows_in_the_same_order(tmp_path: Path) -> None:
    found = []
    for mode in ("semi_honest", "hardened"):
        (tmp_path / mode).mkdir()
        with open_split_model(tmp_path / mode, psi=HARDENED | {"security": mode}) as (
            leading,
            answerers,
        ):
            leading.initialise("original", vfl_pb2.TRAIN_ROWS, vfl_pb2.TRAIN)
            rows = {name: each._state.features.rows for name, each in answerers.items()}
            found.append(rows | {"hub": leading.state.features.rows})
            kinds = {kind for _, _, kind, _ in leading.party.traffic._totals}
            assert ("EvaluationProof" in kinds) == (mode == "hardened")
            assert ("OprfMatrix" in kinds) == (mode == "semi_honest")
    assert found[0].keys() == found[1].keys()
    for name, rows in found[0].items():
        np.testing.assert_array_equal(rows, found[1][name])


def test_a_whole_run_says_which_mode_it_was(tmp_path: Path) -> None:
    metrics = run(tmp_path, psi=HARDENED, unlearn=FORGET)
    assert metrics["run"]["psi"] == {"security": "hardened"}
    assert "<dd>hardened</dd>" in vertical_page(metrics)
    psi = next(each for each in metrics["traffic"] if each["phase"] == "psi")
    asks = 2 * 2 * 32 * 240  # two passive parties, there and back
    assert psi["payload"] > asks


def test_both_modes_train_the_same_model(tmp_path: Path) -> None:
    losses = []
    for mode in ("semi_honest", "hardened"):
        (tmp_path / mode).mkdir()
        metrics = run(tmp_path / mode, psi=HARDENED | {"security": mode})
        losses.append([epoch["loss"] for epoch in metrics["training"]["epochs"]])
    assert losses[0] == losses[1]


def test_more_rows_than_agreed_are_refused(tmp_path: Path) -> None:
    limits = {"join_seconds": 20.0, "step_seconds": 10.0, "idle_seconds": 20.0, "rows": 200}
    with pytest.raises(PolicyError, match=r"hub has 240 rows; limits\.rows = 200"):
        run(tmp_path, psi=HARDENED, limits=limits)


def test_more_asks_than_agreed_are_refused(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match=r"hub queries 240 rows; psi\.queries allows 239"):
        run(tmp_path, psi=HARDENED | {"queries": 239})


def test_a_member_refuses_more_asks_than_agreed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    affordable = hardened._require_allowed_queries

    def boundless(party, who, asks):
        if party.name != "hub":
            affordable(party, who, asks)

    monkeypatch.setattr(hardened, "_require_allowed_queries", boundless)
    with pytest.raises(ProtocolError, match=r"hub queries 240 rows; psi\.queries allows 239"):
        run(tmp_path, psi=HARDENED | {"queries": 239})


def test_the_tags_of_all_legal_asks_fit_in_one_message() -> None:
    most = 2**20
    assert PsiSettings(queries=most).queries * TAG_BYTES <= MAX_PAYLOAD


def test_asks_are_bounded_in_the_hardened_mode_only(tmp_path: Path) -> None:
    with open_split_model(tmp_path, psi={"minimum": 10, "queries": 1}) as (leading, _):
        assert len(leading.state.features.rows) > 1


def test_declared_rows_are_what_is_asked_and_sent(tmp_path: Path) -> None:
    parties = {
        name: party | {"declared_rows": 5000} for name, party in agreement()["parties"].items()
    }
    found = []
    for number, changes in enumerate(({}, {"parties": parties})):
        folder = tmp_path / str(number)
        folder.mkdir()
        with open_split_model(folder, psi=HARDENED, **changes) as (leading, _):
            totals = leading.party.traffic._totals
            asked = [
                t.payload for (_, _, kind, _), t in totals.items() if kind == "BlindedElements"
            ]
            found.append((sorted(leading.state.features.rows.tolist()), asked))
    (rows, few), (padded, many) = found
    assert rows == padded
    assert (few, many) == ([32 * 240] * 2, [32 * 5000] * 2)


def test_a_leader_that_goes_on_behind_a_bucket_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broadcast = Hub.broadcast

    def skipping(self, body, *tensors):
        if isinstance(body, vfl_pb2.KeyShares):
            body.first_bucket = 1
        broadcast(self, body, *tensors)

    monkeypatch.setattr(Hub, "broadcast", skipping)
    with pytest.raises(ProtocolError, match="starts with bucket 1; there is only one"):
        run(tmp_path, psi=HARDENED)


def test_too_few_common_rows_stop_the_run(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match=r"fewer common rows than psi\.minimum = 1000"):
        run(tmp_path, psi=HARDENED | {"minimum": 1000})


def test_a_leader_that_asks_more_than_it_declared_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def twice(hub, leader, patience):
        for block in leader.blind():
            for channel in hub.channels.values():
                channel.send(vfl_pb2.BlindedElements(), np.concatenate([block, block[:1]]))

    monkeypatch.setattr(hardened, "_send_blinded", twice)
    with pytest.raises(ProtocolError, match=r"blinded IDs: a block of points is uint8 \[241, 32\]"):
        run(tmp_path, psi=HARDENED)


def test_a_leader_that_asks_again_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = hardened._send_blinded

    def again(hub, leader, patience):
        blocks = []
        blind = leader.blind
        leader.blind = lambda: (blocks.append(block) or block for block in blind())
        asked(hub, leader, patience)
        for channel in hub.channels.values():
            channel.send(vfl_pb2.BlindedElements(), blocks[0])

    monkeypatch.setattr(hardened, "_send_blinded", again)
    with pytest.raises(ProtocolError, match="sent BlindedElements; expected KeyShares"):
        run(tmp_path, psi=HARDENED)


def test_a_member_that_uses_another_key_for_one_row_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluate = hardened.HardenedMember.evaluate

    def cheat(self, shares):
        for block in evaluate(self, shares):
            yield (
                np.concatenate([block[1:2], block[1:]])
                if self._parameters.member == "left"
                else block
            )

    monkeypatch.setattr(hardened.HardenedMember, "evaluate", cheat)
    with pytest.raises(ProtocolError, match="left: invalid proof that one key"):
        run(tmp_path, psi=HARDENED)


def test_a_share_whose_signature_covers_something_else_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    covered = common_rows._signed_fields

    def other(party, session, sender, rows, share):
        wrong = b"x" * 32 if party.name == sender == "left" else share
        return covered(party, session, sender, rows, wrong)

    monkeypatch.setattr(common_rows, "_signed_fields", other)
    with pytest.raises(ProtocolError, match="the signature of left for 'psi-share' is invalid"):
        run(tmp_path, psi=HARDENED)


@pytest.mark.slow
def test_three_processes_align_in_the_hardened_mode(tmp_path: Path) -> None:
    settings = "[settings.left.data]"
    config = DIGITS.read_text().replace(settings, f"[settings.left]\nthreads = 2\n{settings}")
    (tmp_path / "digits.toml").write_text(config)
    changes = ("--set", 'psi.security="hardened"', "--set", "unlearn=[]")
    ran = simulate(tmp_path, *changes, config=tmp_path / "digits.toml")
    assert ran.returncode == 0, ran.stderr
    metrics = json.loads((tmp_path / "digits" / "metrics.json").read_text())
    assert metrics["run"]["psi"] == {"security": "hardened"}
    assert metrics["run"]["common_rows"] == 1533


def test_a_large_store_is_said_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardened, "SLOTS", 1000)
    with open_split_model(tmp_path, psi=HARDENED) as (leading, _):
        totals = leading.party.traffic._totals
        stores = [
            total.messages for (_, _, kind, _), total in totals.items() if kind == "KeyValueStore"
        ]
    assert stores == [6, 6]  # 1.3 · 4096 + 40 slots


def test_duplicate_ids_are_refused_by_row(tmp_path: Path) -> None:
    def repeat(held) -> None:
        object.__setattr__(held, "ids", [*held.ids[:3], held.ids[1], *held.ids[4:]])

    with pytest.raises(ProtocolError, match="left: duplicate IDs in rows 1 and 3"):
        run(tmp_path, psi=HARDENED, party_changes={"left": repeat})
