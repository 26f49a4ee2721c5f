"""``vfl init`` in the horizontal mode: proposals, comparison field by field, and every refusal."""

import json
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner, Result
from ward_tables import WARDS, write_wards

from configs.config_file import read_config
from parties.cli.main import app
from parties.cli.setup.clients.proposal import MIN_ROWS, outward_range
from parties.horizontal.registry import SCHEMA

PEOPLE = 60
START = ("--role", "client", "--label", "state", "--server", "registry")


def vfl(*options: object) -> Result:
    return CliRunner().invoke(app, list(map(str, options)), env={"COLUMNS": "400"})


def init(*options: object) -> str:
    result = vfl("init", *options)
    assert result.exit_code == 0, result.output
    return result.output


def refusal(code: int, *options: object) -> str:
    result = vfl("init", *options)
    assert result.exit_code == code, result.output
    return result.output


def people(seed: int = 0, oldest: int = 80) -> pd.DataFrame:
    """A ward's table with an ID, a number with decimals, a whole number, a text and a label."""
    draw = np.random.default_rng(seed)
    return pd.DataFrame({
        "patient": [f"P{seed}{row:03d}" for row in range(PEOPLE)],
        "age": [oldest, 21, *draw.integers(25, 70, PEOPLE - 2)],
        "pulse": [52.301, 98.707, *draw.uniform(55, 95, PEOPLE - 2).round(3)],
        "unit": [*["icu"] * 30, *["er"] * 28, "rare-1", "rare-2"],
        "state": ["ill", "well"] * (PEOPLE // 2),
    })  # fmt: skip


def write(table: pd.DataFrame, folder: Path, name: str, **form: Any) -> Path:
    table.to_csv(folder / f"{name}.csv", index=False, **form)
    return folder / f"{name}.csv"


@pytest.fixture
def started(tmp_path: Path) -> Path:
    """An agreement that north has written."""
    north = write(people(), tmp_path, "north")
    init(*START, "--federation", "wards", north, "--out", tmp_path / "run")
    return tmp_path / "run" / "agreement.toml"


def columns_of(path: Path) -> dict[str, Any]:
    listed = tomllib.loads(path.read_text())["columns"]
    return {each["name"]: each.get("range") or each.get("vocabulary") for each in listed}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([18.0, 80.4], (15.0, 85.0)),
        ([0.0, 50.0], (-5.0, 55.0)),  # each end is the value of one row
        ([0.0] * MIN_ROWS + [50.0] * MIN_ROWS, (0.0, 50.0)),
        ([-0.0371, 0.0129], (-0.04, 0.015)),
        ([1234567.0, 9876543.0], (1000000.0, 10000000.0)),
        ([7.0, 7.0], (6.5, 7.5)),
    ],
)
def test_ranges_are_rounded_outwards(values: list[float], expected: tuple[float, float]) -> None:
    assert outward_range(np.array(values)) == expected


def test_range_has_no_exact_value_of_a_single_row() -> None:
    draw = np.random.default_rng(1)
    for _ in range(300):
        values = draw.normal(draw.uniform(-1e3, 1e3), 10 ** draw.uniform(-4, 5), 50)
        low, high = outward_range(values)
        assert low < values.min()
        assert values.max() < high
        span = values.max() - values.min()
        assert values.min() - low <= span / 10 * (1 + 1e-9)
        assert high - values.max() <= span / 10 * (1 + 1e-9)


def test_agreement_has_columns_in_order_and_no_rare_text(started: Path) -> None:
    found = columns_of(started)
    assert list(found) == ["age", "pulse", "unit"]
    assert found["age"] == [20, 85]
    assert found["pulse"] == [52, 100]
    assert found["unit"] == ["er", "icu"]
    text = started.read_text()
    assert "A range shows roughly, rounded outwards" in text
    assert "P0001" not in text
    assert "rare-1" not in text
    agreement = tomllib.loads(text)
    assert agreement["parties"] == {"registry": {"role": "server"}, "north": {"role": "client"}}
    assert agreement["labels"]["classes"] == ["ill", "well"]
    assert "shape" not in agreement
    own = tomllib.loads(started.with_name("north.party.toml").read_text())["data"]
    assert (own["numeric"], own["categorical"]) == (["age", "pulse"], ["unit"])
    assert not own.keys() & {"ranges", "vocabulary", "ranks"}


def test_rare_texts_are_counted_and_not_shown(tmp_path: Path) -> None:
    output = init(*START, write(people(), tmp_path, "north"), "--out", tmp_path)
    assert "2 texts of too few rows left out of the vocabularies" in output
    assert "rare-1" not in output


def test_join_without_a_difference_adds_the_party_alone(started: Path, tmp_path: Path) -> None:
    before = started.read_text()
    output = init("--join", started, write(people(1, 70), tmp_path, "south"))
    assert "column 'age': range = [20, 85] covers the rows" in output
    assert 'labels.classes: ["ill", "well"] covers the rows' in output
    assert 'column \'unit\': vocabulary = ["er", "icu"] covers the rows; 2 texts' in output
    assert "this party is south, a new client" in output
    assert f"{started} was changed: all parties must take this file" in output
    assert started.read_text() == f'{before.rstrip()}\n\n[parties.south]\nrole = "client"\n'
    config = read_config(started, SCHEMA)
    assert config.agreement.spokes == ("north", "south")
    assert config.agreement.shape == (5,)


def test_join_widens_and_keeps_comments_and_other_lines(started: Path, tmp_path: Path) -> None:
    text = started.read_text().replace("range = [20, 85] },", "range = [20, 85] },    # years")
    started.write_text(text)
    south = people(1, 104)
    south.loc[:9, "unit"] = "ward-7"
    south.loc[:2, "state"] = "unknown"
    order = ["state", "unit", "pulse", "age", "patient"]
    output = init("--join", started, write(south[order], tmp_path, "s", sep=";", decimal=","),
                  "--party", "south", "--label", "state", "--yes")  # fmt: skip
    assert "new class 'unknown': 3 rows" in output
    assert "column 'age': range = [20, 85] → range = [20, 105]" in output
    assert "in another order: the agreed order is used" in output
    assert 'vocabulary = ["er", "icu"] → vocabulary = ["er", "icu", "ward-7"]' in output
    assert 'labels.classes: ["ill", "well"] → ["ill", "well", "unknown"]' in output
    assert "(3 fields widened): all parties must take this file" in output
    assert f"send {started.name} to all parties" in output
    expected = text.replace("[20, 85]", "[20, 105]").replace('"icu"]', '"icu", "ward-7"]')
    expected = expected.replace('"well"]', '"well", "unknown"]').rstrip()
    assert started.read_text() == f'{expected}\n\n[parties.south]\nrole = "client"\n'
    own = tomllib.loads(started.with_name("south.party.toml").read_text())["data"]
    assert (own["delimiter"], own["decimal"]) == (";", ",")
    assert (own["numeric"], own["categorical"]) == (["age", "pulse"], ["unit"])
    assert own["label"] == "state"


def test_new_classes_need_a_confirmation(started: Path, tmp_path: Path) -> None:
    south = people(1, 70)
    south.loc[:2, "state"] = "unknown"
    south.loc[3, "state"] = "gone"
    path, before = write(south, tmp_path, "south"), started.read_bytes()
    join = ("--join", started, path, "--id", "patient")
    text = refusal(4, *join)
    assert "south.csv has no column with only the agreed classes ill, well" in text
    assert "unknown" not in text
    text = refusal(2, *join, "--label", "state")
    assert "2 classes that the agreement lacks: 'gone' (1 row), 'unknown' (3 rows)" in text
    assert "new classes need --yes" in text
    assert "or write the classes as agreed: ill, well" in text
    assert started.read_bytes() == before
    output = init(*join, "--label", "state", "--yes")
    assert "new class 'gone': 1 row\n" in output
    labels = tomllib.loads(started.read_text())["labels"]
    assert labels["classes"] == ["ill", "well", "gone", "unknown"]


def test_private_texts_never_become_classes(started: Path, tmp_path: Path) -> None:
    names = [f"told by Dr. {row}" for row in range(PEOPLE)]
    comments = people(1, 70).assign(comment=["ill", "well", *names[2:]])
    path, before = write(comments, tmp_path, "south"), started.read_bytes()
    join = ("--join", started, path, "--id", "patient")
    output = init(*join, "--ignore", "comment")
    assert "label state (2 classes)" in output
    assert "told by" not in started.read_text() + output
    started.write_bytes(before)
    text = refusal(4, *join, "--force", "--ignore", "state", "--label", "comment", "--yes")
    assert "column 'comment' has 58 different texts that are no agreed classes" in text
    assert "at most 20 classes" in text
    assert "told by" not in text
    both = people(1, 70).drop(columns="state").assign(comment=comments["comment"])
    path = write(both, tmp_path, "west")
    text = refusal(4, "--join", started, path, "--id", "patient", "--ignore", "comment")
    assert "has no column with only the agreed classes" in text
    assert "told by" not in text
    assert started.read_bytes() == before


def test_start_shows_the_classes(tmp_path: Path) -> None:
    output = init(*START, write(people(), tmp_path, "north"), "--out", tmp_path)
    assert "all parties see the classes: 'ill', 'well'" in output


def test_declared_client_that_is_covered_leaves_the_agreement(tmp_path: Path) -> None:
    north, south = (write(people(at), tmp_path, name) for at, name in ((0, "north"), (1, "south")))
    init(*START, north, "--client", "south", "--client", "west", "--out", tmp_path)
    path = tmp_path / "agreement.toml"
    before = path.read_bytes()
    output = init("--join", path, south)
    assert "this party is south, a client of the agreement" in output
    assert path.read_bytes() == before
    assert "must take this file" not in output


def test_other_file_name_needs_the_party_if_clients_are_named(tmp_path: Path) -> None:
    table = write(people(1, 70), tmp_path, "patients")
    init(*START, write(people(), tmp_path, "north"), "--client", "south", "--client", "west",
         "--out", tmp_path)  # fmt: skip
    path = tmp_path / "agreement.toml"
    before = path.read_bytes()
    text = refusal(3, "--join", path, table)
    assert "has named clients (south, west), and patients, the name of the file, is none" in text
    assert "give --party with one of south, west, or --party patients" in text
    assert path.read_bytes() == before
    init("--join", path, table, "--party", "west")
    assert path.read_bytes() == before
    init("--join", path, table, "--party", "patients")
    assert read_config(path, SCHEMA).agreement.spokes == ("north", "patients", "south", "west")


def test_commands_for_two_clients_follow_the_last_file(started: Path, tmp_path: Path) -> None:
    north, wait = tmp_path / "north.csv", "wait for the last agreement.toml"
    again = init(*START, north, "--out", started.parent, "--force")
    assert again.index(wait) < again.index("vfl certs") < again.index("vfl doctor")
    server = init("--join", started, "--role", "server")
    assert "this party is registry, the server of the agreement" in server
    assert server.index(wait) < server.index("vfl certs")
    assert wait not in init("--join", started, write(people(1, 70), tmp_path, "south"))
    named = init(*START, north, "--client", "west", "--out", tmp_path / "named")
    assert wait not in named


def test_one_change_is_no_plural(started: Path, tmp_path: Path) -> None:
    south = people(1, 104).replace({"unit": {"rare-2": "icu"}})
    output = init("--join", started, write(south, tmp_path, "south"))
    assert "was changed (1 field widened): all parties" in output
    assert "; 1 text of few rows encoded as zeros" in output


def test_column_of_codes_in_one_ward_is_used_as_agreed(started: Path, tmp_path: Path) -> None:
    south = people(1, 70).assign(unit=["1", "2"] * (PEOPLE // 2))  # looks like numbers
    output = init("--join", started, write(south, tmp_path, "south"))
    assert 'vocabulary = ["er", "icu"] → vocabulary = ["er", "icu", "1", "2"]' in output


def test_table_without_an_id_has_row_numbers(started: Path, tmp_path: Path) -> None:
    south = people(1, 70).drop(columns="patient")
    init("--join", started, write(south, tmp_path, "south"))
    own = tomllib.loads(started.with_name("south.party.toml").read_text())["data"]
    assert own["id"] == "row"


def test_server_gets_an_address_and_no_data(started: Path) -> None:
    before = started.read_bytes()
    output = init("--join", started, "--role", "server", "--hub", "0.0.0.0:7790")
    own = tomllib.loads(started.with_name("registry.party.toml").read_text())
    assert own == {"listen": "0.0.0.0:7790", "certificates": "certs"}
    assert started.read_bytes() == before
    assert "vfl-party --role server --config" in output


def test_additional_columns_can_be_ignored(started: Path, tmp_path: Path) -> None:
    south = write(people(1, 70).assign(height=range(150, 150 + PEOPLE)), tmp_path, "south")
    text = refusal(4, "--join", started, south, "--id", "patient")
    assert "south.csv has column 'height', which the agreement does not list" in text
    assert "--ignore 'height'" in text
    output = init("--join", started, south, "--id", "patient", "--ignore", "height")
    assert "ignored: height (left out by --ignore)" in output
    text = refusal(4, "--join", started, south, "--id", "patient", "--ignore", "age", "--force")
    assert "the agreement lists column 'age', so every client needs it" in text


def test_doctor_checks_the_agreed_columns(started: Path, tmp_path: Path) -> None:
    south = write(people(1, 70), tmp_path, "south")
    init("--join", started, south)
    assert findings(started)["columns"] == ("ok", "2 numeric and 1 categorical columns as agreed")
    assert findings(started)["all rows"][0] == "ok"
    people(1, 70).drop(columns="pulse").to_csv(south, index=False)
    state, message = findings(started)["data"]
    assert state == "fail"
    assert "no column 'pulse'" in message
    own = started.with_name("south.party.toml")
    own.write_text(own.read_text().replace('"pulse",', ""))
    state, message = findings(started)["columns"]
    assert state == "fail"
    assert "south lacks column 'pulse'" in message


def findings(agreement: Path) -> dict[str, tuple[str, str]]:
    result = vfl("doctor", agreement, "--party", "south", "--data-full", "--format", "json")
    events = [json.loads(line) for line in result.output.splitlines()]
    return {
        each["check"]: (each["state"], each["message"])
        for each in events if each["event"] == "finding"
    }  # fmt: skip


def test_files_are_not_overwritten_without_force(started: Path, tmp_path: Path) -> None:
    north = tmp_path / "north.csv"
    assert "exists already" in refusal(7, *START, north, "--out", started.parent)
    south = write(people(1, 104), tmp_path, "south")
    init("--join", started, south)
    assert "south.party.toml exists already" in refusal(7, "--join", started, south)
    init("--join", started, south, "--force")
    init("--join", started, "--role", "server")
    assert "exists already" in refusal(7, "--join", started, "--role", "server")


@pytest.mark.parametrize(
    ("code", "options", "message"),
    [
        (2, ("--role", "client"), "the label is not stated; the best candidate is 'state'"),
        (2, (*START, "--partner", "x"), "--partner is for the vertical mode"),
        (2, (*START, "--client", "north"), "are the same: north"),
        (2, (*START, "--client", "registry"), "are the same: registry"),
        (2, (*START, "--client", "The West"), "--client The West: a name has lower-case"),
        (2, (*START, "--hub", "0.0.0.0:1"), "no party can connect to it"),
        (2, ("--role", "client", "--label", "pulse"), "'pulse' is a number"),
        (2, ("--role", "active", "--server", "x"), "--server is for the horizontal mode"),
        (2, ("--role", "server"), "needs --role active, --role client or --join"),
        (4, (*START, "--ignore", "state"), "--ignore: column 'state' is the label"),
        (4, (*START, "--ignore", "patient"), "--ignore: column 'patient' is the ID"),
        (2, ("--role", "client", "--ignore", "state"), "the best candidate is 'unit'"),
        (4, (*START, "--ignore", "x"), "--ignore: north.csv has no column 'x'"),
        (4, (*START, "--ignore", "age", "--ignore", "pulse", "--ignore", "unit"), "has no numeric"),
    ],
)
def test_wrong_options_of_the_first_client_are_refused(
    tmp_path: Path, code: int, options: tuple[str, ...], message: str
) -> None:
    north = write(people(), tmp_path, "north")
    assert message in refusal(code, *options, north, "--out", tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("code", "options", "message"),
    [
        (2, ("--role", "passive", "FILE"), "is of the horizontal mode, which has no passive"),
        (2, ("--role", "server", "FILE"), "FILE is for a client"),
        (2, ("--role", "server", "--id", "x"), "an option of the table is for a client"),
        (2, (), "the file with this party's table is missing"),
        (2, ("--server", "x", "FILE"), "--server is for the client that starts"),
        (2, ("--declared-rows", "9", "FILE"), "--declared-rows is for the vertical mode"),
        (3, ("--party", "registry", "FILE"), "registry is the server"),
        (3, ("--party", "north", "--role", "server"), "north is client; the server is registry"),
        (4, ("--ignore", "patient", "FILE"), "--ignore: column 'patient' is the ID"),
        (4, ("--label", "state", "--ignore", "state", "FILE"), "'state' is the label"),
        (4, ("--label", "unit", "--ignore", "state", "FILE"), "'unit' is an agreed feature"),
        (4, ("--label", "patient", "FILE"), "or write the classes as agreed: ill, well"),
        (4, ("--label", "age", "FILE"), "column 'age' is an agreed feature"),
        (4, ("--label", "patient", "FILE"), "no row of south.csv has one of the agreed classes"),
        (4, ("--id", "age", "FILE"), "have the ID ('age') of an earlier row"),
    ],
)
def test_wrong_options_of_a_joining_party_are_refused(
    started: Path, tmp_path: Path, code: int, options: tuple[str, ...], message: str
) -> None:
    south = write(people(1, 70), tmp_path, "south")
    before = started.read_bytes()
    given = [str(south) if each == "FILE" else each for each in options]
    assert message in refusal(code, "--join", started, *given)
    assert started.read_bytes() == before
    assert not list(started.parent.glob("south*"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"drop": ["pulse"]}, "south.csv lacks column 'pulse', which the agreement lists"),
        ({"drop": ["state"]}, "has no column with only the agreed classes ill, well"),
        ({"copy": ["state", "outcome"]}, "has 2 columns with only the agreed classes ill, well"),
        ({"copy": ["unit", "age"]}, "numeric column 'age'"),
    ],
)
def test_table_with_other_columns_is_refused(
    started: Path, tmp_path: Path, change: dict[str, list[str]], message: str
) -> None:
    south = people(1, 70).drop(columns=change.get("drop", []))
    if "copy" in change:
        source, target = change["copy"]
        south[target] = south[source]
    before = started.read_bytes()
    path = write(south, tmp_path, "south")
    assert message in refusal(4, "--join", started, path, "--id", "patient")
    assert started.read_bytes() == before


def test_client_without_a_frequent_new_text_joins(started: Path, tmp_path: Path) -> None:
    south = people(1, 70).head(8).assign(unit=[*["icu"] * 4, *["er"] * 2, "rare-1", "rare-2"])
    output = init("--join", started, write(south, tmp_path, "south"), "--id", "patient")
    line = 'column \'unit\': vocabulary = ["er", "icu"] covers the rows; 2 texts of few rows'
    assert line in output, "agreed texts do not count as rare"
    assert columns_of(started)["unit"] == ["er", "icu"]


@pytest.mark.parametrize("column", ["unit", "pulse"])
def test_column_without_a_value_is_refused_with_a_hint(
    started: Path, tmp_path: Path, column: str
) -> None:
    south = people(1, 70)
    south[column] = ""
    text = refusal(4, "--join", started, write(south, tmp_path, "south"), "--id", "patient")
    assert f"found no value in any row of column '{column}'" in text
    assert "if the agreement lists the column, it needs a value in at least one row" in text


def test_column_of_rare_texts_starts_no_agreement(tmp_path: Path) -> None:
    north = people().head(20).assign(unit=[f"u{row // 4}" for row in range(20)])
    text = refusal(4, *START, write(north, tmp_path, "north"), "--id", "patient", "--out", tmp_path)
    assert "each text of column 'unit' is in fewer than 5 rows" in text
    assert "--ignore 'unit'" in text


def test_range_of_few_numbers_is_refused(started: Path, tmp_path: Path) -> None:
    few = people(1, 70)
    few.loc[MIN_ROWS - 1 :, "pulse"] = np.nan
    path, before = write(few, tmp_path, "south"), started.read_bytes()
    text = refusal(4, *START, path, "--id", "patient", "--out", tmp_path / "new")
    assert "column 'pulse' has a number in only 4 rows" in text
    assert "--ignore 'pulse'" in text
    assert not (tmp_path / "new").exists()
    output = init("--join", started, path, "--id", "patient")
    assert "column 'pulse': range = [52, 100] covers the rows" in output
    started.write_bytes(before)
    few.loc[0, "pulse"] = 311.7
    path = write(few, tmp_path, "west")
    text = refusal(4, "--join", started, path, "--id", "patient")
    assert "column 'pulse' has a number in only 4 rows" in text
    assert "widen the range in the agreement by hand" in text
    assert "311" not in text
    assert started.read_bytes() == before
    started.write_text(started.read_text().replace("[52, 100]", "[52, 400]"))
    assert "[52, 400] covers" in init("--join", started, path, "--id", "patient")


def test_vocabularies_have_limits(started: Path, tmp_path: Path) -> None:
    long = people(1, 70).assign(unit=["u" * 1001, "er"] * (PEOPLE // 2))
    path, before = write(long, tmp_path, "south"), started.read_bytes()
    expected = "column 'unit' has a text of 1001 characters"
    assert expected in refusal(4, *START, path, "--id", "patient", "--out", tmp_path / "new")
    assert expected in refusal(4, "--join", started, path, "--id", "patient")
    many = pd.concat([people(1, 70)] * 92, ignore_index=True).head(5500)
    many["unit"] = [f"u{row // 5}" for row in range(5500)]
    path = write(many.drop(columns="patient"), tmp_path, "west")
    text = refusal(4, "--join", started, path)
    assert "column 'unit' has 1102 different texts for the vocabulary" in text
    assert "at most 1000" in text
    assert started.read_bytes() == before


def test_parties_in_one_line_are_refused(started: Path, tmp_path: Path) -> None:
    lines = started.read_text().splitlines()
    kept = [each for each in lines if not each.startswith(("[parties.", "role = "))]
    roles = '{ registry = { role = "server" }, north = { role = "client" } }'
    kept.insert(kept.index("columns = ["), f"parties = {roles}")
    started.write_text("\n".join(kept))
    text = refusal(3, "--join", started, write(people(1, 70), tmp_path, "south"))
    assert "no table [parties.south] can be added" in text
    assert "write each party as a table of its own" in text


def test_agreement_without_columns_is_refused(started: Path, tmp_path: Path) -> None:
    lines = started.read_text().splitlines()
    first, last = lines.index("columns = ["), lines.index("]")
    started.write_text("\n".join([*lines[:first], "shape = [5]", *lines[last + 1 :]]))
    text = refusal(3, "--join", started, write(people(1), tmp_path, "south"))
    assert "does not list the clients' columns under the key 'columns'" in text


def test_wards_of_one_data_set_agree(tmp_path: Path) -> None:
    tables = write_wards(tmp_path)
    init("--role", "client", tables["north"], "--label", "diagnosis", "--out", tmp_path / "run")
    path = tmp_path / "run" / "agreement.toml"
    for name in WARDS[1:]:
        init("--join", path, tables[name])
    config = read_config(path, SCHEMA)
    assert config.agreement.spokes == WARDS
    assert config.agreement.shape == (30,)
    forms: dict[str, Any] = {"south": {"sep": ";", "decimal": ","}}
    whole = pd.concat(pd.read_csv(each, **forms.get(name, {})) for name, each in tables.items())
    for name, (low, high) in columns_of(path).items():
        assert low <= whole[name].min()
        assert whole[name].max() <= high
