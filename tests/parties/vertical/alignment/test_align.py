"""Entity alignment: equal order at all parties, and refused misbehaviour."""

from pathlib import Path

import pytest
from three_parties import open_split_model
from whole_run import run

from parties.common.errors import PolicyError
from parties.vertical.alignment import common_rows
from protocol import vfl_pb2
from protocol.errors import ProtocolError


def test_all_parties_have_the_same_row_order(tmp_path: Path) -> None:
    with open_split_model(tmp_path) as (split_model, sessions):
        split_model.initialise("original", vfl_pb2.TRAIN_ROWS, vfl_pb2.TRAIN)
        named = {
            name: [each._party.holding.ids[row] for row in each.state.features.rows]
            for name, each in sessions.items()
        }
        ours = [split_model.party.holding.ids[row] for row in split_model.state.features.rows]
        assert named == {"left": ours, "right": ours}
        assert len(set(ours)) == len(ours) == len(common_ids(tmp_path))


def test_label_of_a_common_row_is_the_label_of_its_id(tmp_path: Path) -> None:
    with open_split_model(tmp_path) as (split_model, _):
        lines = (tmp_path / "hub.csv").read_text().split()[1:]
        by_id = {cells[0]: cells[-1] for cells in (line.split(",") for line in lines)}
        ids = [each.decode() for each in split_model.state.features.ids()]
        assert ["abc"[label] for label in split_model.labels.tolist()] == [by_id[n] for n in ids]
        assert ids != sorted(ids, key=list(by_id).index)  # another order than in the file


def common_ids(folder: Path) -> set[str]:
    tables = [(folder / f"{name}.csv").read_text() for name in ("hub", "left", "right")]
    return set.intersection(*({line.split(",")[0] for line in t.split()[1:]} for t in tables))


def test_more_rows_than_agreed_are_refused(tmp_path: Path) -> None:
    limits = {"join_seconds": 20.0, "step_seconds": 10.0, "idle_seconds": 20.0, "rows": 200}
    with pytest.raises(
        PolicyError, match=r"hub has 240 rows, but the agreement allows at most limits\.rows = 200"
    ):
        run(tmp_path, limits=limits)


def test_fewer_common_rows_than_agreed_stop_the_run(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match=r"fewer common rows than psi\.minimum = 1000"):
        run(tmp_path, psi={"minimum": 1000})


def test_share_signed_for_other_content_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    covered = common_rows._signed_fields

    def other(party, session, sender, rows, share):
        wrong = b"x" * 32 if party.name == sender == "left" else share
        return covered(party, session, sender, rows, wrong)

    monkeypatch.setattr(common_rows, "_signed_fields", other)
    with pytest.raises(ProtocolError, match="the signature of left for 'psi-share' is invalid"):
        run(tmp_path)


def test_different_common_rows_are_detected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alignment = common_rows._alignment

    def shorter(party, own, places, session):
        left_out = int(party.name == "right")
        return alignment(party, own, [places[0][left_out:]], session)

    monkeypatch.setattr(common_rows, "_alignment", shorter)
    with pytest.raises(ProtocolError, match="computed another alignment"):
        run(tmp_path)


def test_different_test_files_are_detected(tmp_path: Path) -> None:
    with pytest.raises(ProtocolError, match="computed another alignment"):
        run(tmp_path, party_changes={"right": lambda held: flip(held.in_test)})


def flip(in_test) -> None:
    in_test[:5] = True
