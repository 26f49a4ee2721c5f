"""A split by time: the newest rows are test rows, and no date is sent."""

from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kept_trio import TRAINING, KeptTrio
from three_parties import PARTIES, agreement, certify, open_split_model, party, write_data
from whole_run import run

from configs.config_file import validate_table
from configs.errors import ConfigError
from parties.common.errors import DataError, PolicyError
from parties.session.setup import NEWEST
from parties.vertical.alignment.time_split import receive_parts
from parties.vertical.engine.party_state import unpack_ids
from parties.vertical.engine.rows import IN_TEST, IN_TRAINING, IN_VALIDATION, time_parts
from parties.vertical.methods.registry import AGREEMENT
from protocol import vfl_pb2
from protocol.errors import Aborted, RemoteProtocolError
from protocol.message import Message

SPLIT = {"kind": "time", "validation": 0.1, "test": 0.2}
FIRST = date(2024, 1, 31)
FEW = {"unlearning": {"method": "fine-tune", "compare": (), "retrains": 0}}


def day(row: int, rows: int = 240) -> str:
    """The date of a row: rows with a larger number are older, and pairs of rows have one date."""
    return (FIRST + timedelta(days=(rows - row) // 2)).isoformat()


def add_dates(folder: Path, name: str = "hub", **given: str) -> None:
    """Add a column with dates to a party's table; ``given`` replaces the dates of some rows."""
    header, *lines = (folder / f"{name}.csv").read_text().splitlines()
    dated = [f"{header},date"]
    for line in lines:
        row = line.split(",")[0]
        dated.append(f"{line},{given.get(row, day(int(row[1:])))}")
    (folder / f"{name}.csv").write_text("\n".join(dated) + "\n")


def write_dated(folder: Path, rows: int) -> None:
    """Write the three tables, with dates at the active party."""
    write_data(folder, rows)
    add_dates(folder)


def test_newest_rows_are_test_rows_at_every_party(tmp_path: Path) -> None:
    with open_split_model(tmp_path, write=write_dated, split=SPLIT) as (split_model, sessions):
        split_model.initialise("original", vfl_pb2.TRAIN_ROWS, vfl_pb2.TRAIN)
        ids = [int(each[1:]) for each in split_model.state.features.ids()]
        sets = split_model.rows
        for session in sessions.values():
            theirs = session.state.rows.arrays()
            for name, rows in sets.arrays().items():
                assert np.array_equal(theirs[name], rows)
        train, validation, test = (
            {day(ids[row]) for row in rows} for rows in (sets.train, sets.validation, sets.test)
        )
        assert max(train) < min(validation)
        assert max(validation) < min(test)
        count = len(ids)
        assert 0.2 * count <= len(sets.test) <= 0.2 * count + 2
        assert 0.1 * count <= len(sets.validation) <= 0.1 * count + 2
        sent = split_model.party.traffic.total("SplitRows")
        assert (sent.messages, sent.payload) == (2, 2 * count)  # one byte a row and party
        features = split_model.local_model.model.inputs
        assert features is not None
        assert features.values.shape[1] == 3  # the date is no feature


def test_whole_run_with_a_split_by_time(tmp_path: Path) -> None:
    metrics = run(
        tmp_path, before=add_dates, split=SPLIT, unlearn=[{"name": "a", "classes": ["a"]}]
    )
    assert metrics["requests"][0]["rows"]["forgotten"] > 0
    assert metrics["run"]["settings"]["split"]["kind"] == "time"


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        (range(10), [0] * 7 + [1] + [2] * 2),
        (range(9, -1, -1), [2] * 2 + [1] + [0] * 7),
        # Rows of one date stay together: the part with the newer rows takes all of them.
        ([0, 1, 2, 3, 4, 5, 6, 8, 8, 8], [0] * 6 + [1] + [2] * 3),
        ([0, 1, 2, 3, 4, 5, 7, 7, 8, 9], [0] * 6 + [1, 1] + [2] * 2),
        ([0, 0, 1, 1, 2, 2, 3, 3, 3, 3], [0, 0, 0, 0, 1, 1, 2, 2, 2, 2]),
    ],
)
def test_parts_of_dates(times: Any, expected: list[int]) -> None:
    plan = validate_table(AGREEMENT, agreement(split=SPLIT), Path("plan.toml"), "").split
    assert time_parts(plan, np.array(times, float)).tolist() == expected


def test_rows_of_a_single_date_are_refused(tmp_path: Path) -> None:
    same = {f"p{row}": "2024-01-31" for row in range(240)}

    def write(folder: Path, rows: int) -> None:
        write_data(folder, rows)
        add_dates(folder, **same)

    with (
        pytest.raises(PolicyError, match="split by time leaves no training rows"),
        open_split_model(tmp_path, write=write, split=SPLIT),
    ):
        pass


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"p7": ""}, r"no date in 1 line of hub.csv \(\d+\)"),
        ({"p7": "yesterday"}, r"neither a date nor a number.*1 line of hub.csv \(\d+\)"),
        ({"p7": "31.02.2024", "p9": "nan"}, r"neither a date nor a number.*2 lines of hub.csv"),
        ({"p7": "7"}, "or one of each, in the time column: "),
    ],
)
def test_row_without_a_date_is_refused_by_its_line(
    tmp_path: Path, given: dict[str, str], named: str
) -> None:
    write_data(tmp_path)
    certify(tmp_path)
    add_dates(tmp_path, **given)
    with pytest.raises(DataError, match=named) as caught:
        party(tmp_path, "hub", agreement(split=SPLIT), [])
    assert "p7" not in str(caught.value)
    assert "yesterday" not in str(caught.value)


@pytest.mark.parametrize("form", ["iso", "german", "seconds", "zone"])
def test_forms_of_dates_give_the_same_split(tmp_path: Path, form: str) -> None:
    def written(row: int) -> str:
        own = date.fromisoformat(day(row))
        return {
            "iso": own.isoformat(),
            "german": f"{own:%d.%m.%Y}",
            "seconds": str(own.toordinal() + 0.5),
            "zone": f"{own.isoformat()}T10:00:00+01:00",
        }[form]

    write_data(tmp_path)
    certify(tmp_path)
    add_dates(tmp_path, **{f"p{row}": written(row) for row in range(240)})
    us = party(tmp_path, "hub", agreement(split=SPLIT), [])
    assert us.holding.times is not None
    order = np.argsort(us.holding.times, kind="stable")
    dates = [day(int(us.holding.ids[row][1:])) for row in order]
    assert dates == sorted(dates)


def test_dates_that_nothing_uses_and_absent_dates_are_refused(tmp_path: Path) -> None:
    write_data(tmp_path)
    certify(tmp_path)
    with pytest.raises(DataError, match="divides the rows by a date, but this party's data has"):
        party(tmp_path, "hub", agreement(split=SPLIT), [])
    add_dates(tmp_path)
    with pytest.raises(DataError, match=r"data.time.*nothing uses"):
        party(tmp_path, "hub", agreement(), [])
    add_dates(tmp_path, "left")
    with pytest.raises(DataError, match=r"data.time.*nothing uses"):
        party(tmp_path, "left", agreement(split=SPLIT), [])


def test_split_by_time_breaks_the_guarantee_of_shards() -> None:
    plan = {
        "preprocessing": "declared",
        "sharding": {"shards": 2},
        "unlearning": {"method": "sharded", "compare": ()},
        "split": SPLIT,
    }
    with pytest.raises(ConfigError, match=r"do not allow split.kind = 'time'"):
        validate_table(AGREEMENT, agreement(**plan), Path("plan.toml"), "")


class Line:
    """A line on which the hub has sent one message."""

    def __init__(self, *tensors: Any) -> None:
        self._message = Message(vfl_pb2.SplitRows(), tensors)

    def receive(self, _timeout: float) -> Message:
        """Return the message."""
        return self._message


@pytest.mark.parametrize(
    ("parts", "named"),
    [
        (np.zeros(9, np.uint8), "shape"),
        (np.zeros((10, 1), np.uint8), "shape"),
        (np.zeros(10, np.int64), "type int64"),
        (np.array([0] * 7 + [3, 2, 2], np.uint8), "unknown part"),
        (np.array([0] * 7 + [1, 1, 2], np.uint8), "1 test rows of 10; .* at least 2"),
        (np.array([0] * 8 + [2, 2], np.uint8), "0 validation rows of 10"),
    ],
)
def test_wrong_parts_of_a_hub_are_refused(tmp_path: Path, parts: Any, named: str) -> None:
    write_data(tmp_path)
    certify(tmp_path)
    us = party(tmp_path, "left", agreement(split=SPLIT), [])
    line: Any = Line(parts)
    with pytest.raises(RemoteProtocolError, match=named):
        receive_parts(us, line, 10)


def test_right_parts_of_a_hub_are_received(tmp_path: Path) -> None:
    write_data(tmp_path)
    certify(tmp_path)
    us = party(tmp_path, "left", agreement(split=SPLIT), [])
    line: Any = Line(np.array([0] * 7 + [1, 2, 2], np.uint8))
    parts = receive_parts(us, line, 10)
    assert parts is not None
    assert sorted({*parts.tolist()}) == [IN_TRAINING, IN_VALIDATION, IN_TEST]


def _dates_of(trio: KeptTrio, part: str) -> set[str]:
    store = trio.models()["left"]
    version = store.newest_version()
    assert version is not None
    content = store.read(version.number)
    ids = unpack_ids(content.tensors["ids"])
    return {day(int(ids[row][1:]), 400) for row in content.tensors["rows"][part].tolist()}


def _write_some(folder: Path, whole: dict[str, str], rows: range) -> None:
    """Leave only the rows with these numbers in the files of all parties."""
    for name, text in whole.items():
        head, *lines = text.splitlines()
        some = [line for line in lines if int(line.split(",")[0][1:]) in rows]
        (folder / f"{name}.csv").write_text("\n".join([head, *some]) + "\n")


def _dated_trio(folder: Path, rows: range) -> tuple[KeptTrio, dict[str, str]]:
    """A trained trio with some of 400 rows, and the whole tables; row 0 is the newest."""
    write_data(folder, 400)
    add_dates(folder, **{f"p{row}": day(row, 400) for row in range(400)})
    certify(folder)
    whole = {name: (folder / f"{name}.csv").read_text() for name in PARTIES}
    _write_some(folder, whole, rows)
    trio = KeptTrio(folder, agreement(training=TRAINING, split=SPLIT, **FEW))
    trio.train()
    return trio, whole


def test_training_goes_on_with_newer_rows(tmp_path: Path) -> None:
    trio, whole = _dated_trio(tmp_path, range(150, 400))
    before = max(_dates_of(trio, "train"))
    _write_some(tmp_path, whole, range(400))
    trio.train(versions=dict.fromkeys(trio.names, NEWEST))
    assert max(_dates_of(trio, "train")) > before
    assert max(_dates_of(trio, "train")) < min(_dates_of(trio, "test"))


def test_older_new_rows_that_move_trained_rows_are_refused(tmp_path: Path) -> None:
    trio, whole = _dated_trio(tmp_path, range(150))
    _write_some(tmp_path, whole, range(400))
    with pytest.raises(Aborted, match="are not training rows any more"):
        trio.train(versions=dict.fromkeys(trio.names, NEWEST))
