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
from parties.report.pages.scientist import report_page
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
    results = []
    for mode in ("semi_honest", "hardened"):
        (tmp_path / mode).mkdir()
        with open_split_model(tmp_path / mode, psi=HARDENED | {"security": mode}) as (
            split_model,
            sessions,
        ):
            split_model.initialise("original", vfl_pb2.TRAIN_ROWS, vfl_pb2.TRAIN)
            rows = {name: each.state.features.rows for name, each in sessions.items()}
            results.append(rows | {"hub": split_model.state.features.rows})
            kinds = {kind for _, _, kind, _ in split_model.party.traffic._totals}
            assert ("EvaluationProof" in kinds) == (mode == "hardened")
            assert ("OprfMatrix" in kinds) == (mode == "semi_honest")
    assert results[0].keys() == results[1].keys()
    for name, rows in results[0].items():
        np.testing.assert_array_equal(rows, results[1][name])


def test_run_reports_its_mode(tmp_path: Path) -> None:
    metrics = run(tmp_path, psi=HARDENED, unlearn=FORGET)
    assert metrics["run"]["psi"] == {"security": "hardened"}
    assert "<dd>hardened</dd>" in report_page(metrics)
    psi = next(each for each in metrics["traffic"] if each["phase"] == "psi")
    queries = 2 * 2 * 32 * 240  # two passive parties, there and back
    assert psi["payload"] > queries


def test_both_modes_train_the_same_model(tmp_path: Path) -> None:
    losses = []
    for mode in ("semi_honest", "hardened"):
        (tmp_path / mode).mkdir()
        metrics = run(tmp_path / mode, psi=HARDENED | {"security": mode})
        losses.append([epoch["loss"] for epoch in metrics["training"]["steps"]])
    assert losses[0] == losses[1]


def test_more_rows_than_agreed_are_refused(tmp_path: Path) -> None:
    limits = {"join_seconds": 20.0, "step_seconds": 10.0, "idle_seconds": 20.0, "rows": 200}
    with pytest.raises(
        PolicyError, match=r"hub has 240 rows, but the agreement allows at most limits\.rows = 200"
    ):
        run(tmp_path, psi=HARDENED, limits=limits)


def test_more_queries_than_agreed_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        PolicyError, match=r"hub queries 240 rows, but psi\.queries allows at most 239"
    ):
        run(tmp_path, psi=HARDENED | {"queries": 239})


def test_member_refuses_more_queries_than_agreed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    affordable = hardened._require_allowed_queries

    def boundless(party, peer, queries):
        if party.name != "hub":
            affordable(party, peer, queries)

    monkeypatch.setattr(hardened, "_require_allowed_queries", boundless)
    with pytest.raises(
        ProtocolError, match=r"hub queries 240 rows, but psi\.queries allows at most 239"
    ):
        run(tmp_path, psi=HARDENED | {"queries": 239})


def test_tags_of_all_legal_queries_fit_in_one_message() -> None:
    most = 2**20
    assert PsiSettings(queries=most).queries * TAG_BYTES <= MAX_PAYLOAD


def test_queries_are_limited_in_the_hardened_mode_only(tmp_path: Path) -> None:
    with open_split_model(tmp_path, psi={"minimum": 10, "queries": 1}) as (split_model, _):
        assert len(split_model.state.features.rows) > 1


def test_number_of_queries_equals_the_declared_rows(tmp_path: Path) -> None:
    parties = {
        name: party | {"declared_rows": 5000} for name, party in agreement()["parties"].items()
    }
    results = []
    for number, changes in enumerate(({}, {"parties": parties})):
        folder = tmp_path / str(number)
        folder.mkdir()
        with open_split_model(folder, psi=HARDENED, **changes) as (split_model, _):
            totals = split_model.party.traffic._totals
            requested = [
                t.payload for (_, _, kind, _), t in totals.items() if kind == "BlindedElements"
            ]
            results.append((sorted(split_model.state.features.rows.tolist()), requested))
    (rows, few), (padded, many) = results
    assert rows == padded
    assert (few, many) == ([32 * 240] * 2, [32 * 5000] * 2)


def test_leader_that_skips_a_bucket_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broadcast = Hub.broadcast

    def skipping(self, body, *tensors):
        if isinstance(body, vfl_pb2.KeyShares):
            body.first_bucket = 1
        broadcast(self, body, *tensors)

    monkeypatch.setattr(Hub, "broadcast", skipping)
    with pytest.raises(ProtocolError, match="starts with bucket 1; expected 0"):
        run(tmp_path, psi=HARDENED)


def test_too_few_common_rows_stop_the_run(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match=r"fewer common rows than psi\.minimum = 1000"):
        run(tmp_path, psi=HARDENED | {"minimum": 1000})


def test_leader_with_more_queries_than_declared_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def twice(hub, leader, patience):
        for block in leader.blind():
            for channel in hub.channels.values():
                channel.send(vfl_pb2.BlindedElements(), np.concatenate([block, block[:1]]))

    monkeypatch.setattr(hardened, "_send_blinded", twice)
    with pytest.raises(ProtocolError, match=r"a block of points is .* uint8 and shape \[241, 32\]"):
        run(tmp_path, psi=HARDENED)


def test_second_query_of_a_leader_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    send_blinded = hardened._send_blinded

    def again(hub, leader, patience):
        blocks = []
        blind = leader.blind
        leader.blind = lambda: (blocks.append(block) or block for block in blind())
        send_blinded(hub, leader, patience)
        for channel in hub.channels.values():
            channel.send(vfl_pb2.BlindedElements(), blocks[0])

    monkeypatch.setattr(hardened, "_send_blinded", again)
    with pytest.raises(ProtocolError, match="sent BlindedElements; expected KeyShares"):
        run(tmp_path, psi=HARDENED)


def test_member_that_uses_two_keys_is_named(
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


def test_share_signed_for_other_content_is_refused(
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


def test_large_store_is_sent_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardened, "SLOTS", 1000)
    with open_split_model(tmp_path, psi=HARDENED) as (split_model, _):
        totals = split_model.party.traffic._totals
        stores = [
            total.messages for (_, _, kind, _), total in totals.items() if kind == "KeyValueStore"
        ]
    assert stores == [6, 6]  # 1.3 · 4096 + 40 slots


def test_duplicate_ids_are_refused_by_row(tmp_path: Path) -> None:
    def repeat(held) -> None:
        object.__setattr__(held, "ids", [*held.ids[:3], held.ids[1], *held.ids[4:]])

    with pytest.raises(ProtocolError, match="left: duplicate IDs in rows 1 and 3"):
        run(tmp_path, psi=HARDENED, party_changes={"left": repeat})
