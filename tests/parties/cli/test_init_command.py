"""``vfl init`` and ``vfl init --join``: the files, and every refusal."""

import json
import shutil
import sqlite3
import tomllib
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from bank_tables import write_tables
from typer.testing import CliRunner, Result

from configs.config_file import read_any
from parties.cli.main import app
from parties.cli.modes import SCHEMAS
from parties.cli.setup.agreement import PARTNER_MARK
from tests.parties.data.sources.postgres import server as postgres_server

PEOPLE = 400
POSTGRES_TABLES = """
CREATE TABLE people AS SELECT
  at AS id, at % 3 = 0 AS bought, 18 + at % 61 AS age, (at * 37 % 5000)::numeric / 4 AS income,
  (ARRAY['Bonn', 'Kiel', NULL])[1 + at % 3] AS town, DATE '2020-01-01' + at AS since
FROM generate_series(1, 400) AS at;
CREATE TABLE calls AS SELECT
  at AS id, (at * 13 % 211)::double precision / 7 AS minutes,
  (ARRAY['small', 'large'])[1 + at % 2] AS plan
FROM generate_series(51, 450) AS at;
"""


def vfl(*options: object) -> Result:
    return CliRunner().invoke(app, list(map(str, options)), env={"COLUMNS": "400"})


def init(*options: object) -> Result:
    return vfl("init", *options)


def refusal(code: int, *options: object) -> str:
    result = init(*options)
    assert result.exit_code == code, result.output
    return result.output


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return write_tables(tmp_path_factory.mktemp("tables"), PEOPLE)


@pytest.fixture
def started(tables: tuple[Path, Path], tmp_path: Path) -> Path:
    """An agreement of a bank that waits for its partner."""
    result = init("--role", "active", tables[0], "--label", "abschluss", "--out", tmp_path / "run")
    assert result.exit_code == 0, result.output
    return tmp_path / "run" / "agreement.toml"


def data(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = tomllib.loads(path.read_text())["data"]
    return content


def doctor_findings(agreement: Path, party: str) -> dict[str, str]:
    result = vfl("doctor", agreement, "--party", party, "--data-full", "--format", "json")
    events = [json.loads(line) for line in result.output.splitlines()]
    return {each["check"]: each["state"] for each in events if each["event"] == "finding"}


def test_files_have_what_was_detected(started: Path, tables: tuple[Path, Path]) -> None:
    own = data(started.with_name("bank.party.toml"))
    assert own["path"] == str(tables[0])
    assert (own["delimiter"], own["encoding"], own["decimal"]) == (";", "cp1252", ",")
    assert own["id"] == {"columns": ["kunde"]}
    assert own["label"] == "abschluss"
    assert own["numeric"] == ["alter", "saldo", "kreditsumme", "zinssatz"]
    assert own["categorical"] == ["beruf", "kredit", "filiale"]
    text = started.with_name("bank.party.toml").read_text()
    assert '#   "eroeffnet": a date; only the key time uses it' in text
    assert "K000001" not in text
    agreement = tomllib.loads(started.read_text())
    assert agreement["labels"]["classes"] == ["ja", "nein"]
    assert agreement["training"]["batch"] == 32
    assert "Scaled with the" in started.read_text()


def test_label_that_is_a_number_gives_a_regression(
    tables: tuple[Path, Path], tmp_path: Path
) -> None:
    out = tmp_path / "run"
    result = init("--role", "active", tables[0], "--label", "zinssatz", "--out", out)
    assert result.exit_code == 0, result.output
    assert "label zinssatz (a number)" in result.output
    path = out / "agreement.toml"
    assert tomllib.loads(path.read_text())["labels"] == {"task": "regression", "loss": "squared"}
    assert '# "zinssatz" is a number' in path.read_text()
    assert "zinssatz" not in data(out / "bank.party.toml")["numeric"]
    result = init("--join", path, tables[1])
    assert result.exit_code == 0, result.output
    for party in ("bank", "calls"):
        found = doctor_findings(path, party)
        assert found["config"] == found["data"] == found["all rows"] == "ok"
    agreement = read_any(path, SCHEMAS).agreement
    assert (agreement.labels.outputs, agreement.unlearning.method) == (1, "retrain-local")


def test_partner_adds_itself_and_both_pass_the_doctor(
    started: Path, tables: tuple[Path, Path]
) -> None:
    before = started.read_text()
    result = init("--join", started, tables[1], "--hub", "bank.example:7700")
    assert result.exit_code == 0, result.output
    assert f"send {started.name} back to bank\n" in result.output
    assert "this party is calls, a new party of the agreement" in result.output
    assert started.read_text().startswith(before)
    config = read_any(started, SCHEMAS)
    assert config.agreement.passive == ("calls",)
    assert config.settings("calls").hub == "bank.example:7700"
    own = data(started.with_name("calls.party.toml"))
    assert own["missing"] == ["NA"]
    assert "encoding" not in own
    assert "label" not in own
    for party in ("bank", "calls"):
        found = doctor_findings(started, party)
        assert found["config"] == found["data"] == found["all rows"] == "ok"


def test_declared_partner_leaves_the_agreement_as_it_is(
    tables: tuple[Path, Path], tmp_path: Path
) -> None:
    options = ("--party", "bank", "--partner", "call-centre", "--federation", "sales")
    result = init(
        "--role", "active", tables[0], "--label", "abschluss", "--out", tmp_path, *options
    )
    assert result.exit_code == 0, result.output
    path = tmp_path / "agreement.toml"
    before = path.read_bytes()
    joined = init("--join", path, tables[1], "--format", "json")
    assert joined.exit_code == 0, joined.output
    assert path.read_bytes() == before
    assert read_any(path, SCHEMAS).agreement.federation == "sales"
    assert (tmp_path / "call-centre.party.toml").exists()
    assert "this party is call-centre, a party that the agreement has already" in joined.output
    (size,) = (
        each for each in map(json.loads, joined.output.splitlines()) if each["event"] == "size"
    )
    assert size["rows"] == len(tables[1].read_text().splitlines()) - 1
    assert size["bytes"] > 0 < size["seconds"] < 600


def test_third_organisation_becomes_a_party_of_its_own(
    started: Path, tables: tuple[Path, Path], tmp_path: Path
) -> None:
    assert init("--join", started, tables[1]).exit_code == 0
    before, settings = started.read_text(), started.with_name("calls.party.toml").read_bytes()
    clinic = Path(shutil.copy(tables[1], tmp_path / "clinic.csv"))
    result = init("--join", started, clinic)
    assert result.exit_code == 0, result.output
    assert "this party is clinic, a new party of the agreement" in result.output
    assert "send agreement.toml back to bank, and to calls" in result.output
    assert started.read_text().startswith(before)
    assert read_any(started, SCHEMAS).agreement.passive == ("calls", "clinic")
    assert data(started.with_name("clinic.party.toml"))["path"] == str(clinic)
    assert started.with_name("calls.party.toml").read_bytes() == settings


def test_parquet_and_database_give_the_same_agreement(
    tables: tuple[Path, Path], tmp_path: Path
) -> None:
    frame = pd.read_csv(tables[0], sep=";", decimal=",", encoding="cp1252", dtype={"filiale": str})
    frame.to_parquet(tmp_path / "bank.parquet")
    with sqlite3.connect(tmp_path / "bank.db") as database:
        frame.to_sql("customers", database, index=False)
    database.close()
    texts = set()
    for at, given in enumerate([
        (tables[0],), (tmp_path / "bank.parquet",),
        (f"sqlite:///{tmp_path / 'bank.db'}", "--table", "customers"),
    ]):  # fmt: skip
        out = tmp_path / str(at)
        result = init("--role", "active", *given, "--label", "abschluss", "--out", out)
        assert result.exit_code == 0, result.output
        texts.add((out / "agreement.toml").read_text())
        own = data(out / "bank.party.toml")
        assert own["categorical"] == ["beruf", "kredit", "filiale"]
    assert len(texts) == 1


def test_files_are_never_overwritten_without_force(
    started: Path, tables: tuple[Path, Path]
) -> None:
    again = ("--role", "active", tables[0], "--label", "abschluss", "--out", started.parent)
    before = started.read_bytes()
    assert "agreement.toml and" in (text := refusal(7, *again))
    assert "give --force to overwrite it" in text
    assert started.read_bytes() == before
    assert init(*again, "--force").exit_code == 0
    assert init("--join", started, tables[1]).exit_code == 0
    assert "calls.party.toml exists already" in refusal(7, "--join", started, tables[1])


def test_unconfirmed_label_is_refused_and_accepted_with_yes(
    tables: tuple[Path, Path], tmp_path: Path
) -> None:
    text = refusal(2, "--role", "active", tables[0], "--out", tmp_path)
    assert "the best candidate is 'abschluss' with 2 classes" in text
    assert "give --label abschluss" in text
    assert list(tmp_path.iterdir()) == []
    assert init("--role", "active", tables[0], "--out", tmp_path, "--yes").exit_code == 0


@pytest.mark.parametrize(
    ("code", "options", "message"),
    [
        (2, (), "needs --role active, --role client or --join AGREEMENT"),
        (2, ("--role", "passive"), "needs --role active, --role client or --join AGREEMENT"),
        (2, ("--role", "active", "--declared-rows", "9"), "--declared-rows is for a party that"),
        (2, ("--role", "active", "--table", "x"), "--table needs a database"),
        (2, ("--role", "active", "--delimiter", "-"), "--delimiter must be one of"),
        (2, ("--role", "active", "--decimal", "-"), "--decimal must be , or ."),
        (2, ("--role", "active", "--hub", "bank"), "--hub: an address must be host:port"),
        (4, ("--role", "active", "--label", "x"), "--label: bank.csv has no column 'x'"),
        (4, ("--role", "active", "--label", "saldo"), "no value in the label column 'saldo'"),
        (4, ("--role", "active", "--id", "x"), "--id: bank.csv has no column 'x'"),
        (4, ("--role", "active", "--id", "alter"), "have the ID ('alter') of an earlier row"),
        (4, ("--role", "active", "--encoding", "ascii"), "bank.csv is not ascii"),
        (4, ("--role", "active", "--encoding", "klingon"), "there is no encoding klingon"),
        (2, ("--role", "active", "--party", "The Bank"), "--party The Bank: a name has lower"),
        (2, ("--role", "active", "--party", "a", "--partner", "a"), "are the same"),
    ],
)
def test_wrong_options_are_refused(
    tables: tuple[Path, Path], tmp_path: Path, code: int, options: tuple[str, ...], message: str
) -> None:
    assert message in refusal(code, tables[0], *options, "--out", tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("code", "options", "message"),
    [
        (2, ("--role", "active"), "--join is for the passive party"),
        (2, ("--label", "kanal"), "--label is for the active party"),
        (2, ("--hub", "0.0.0.0:7700"), "no party can connect to it"),
        (3, ("--party", "bank"), "bank is the active party"),
        (4, ("--declared-rows", "3"), "more than declared_rows = 3"),
    ],
)
def test_wrong_options_of_a_partner_are_refused(
    started: Path, tables: tuple[Path, Path], code: int, options: tuple[str, ...], message: str
) -> None:
    before = started.read_bytes()
    assert message in refusal(code, "--join", started, tables[1], *options)
    assert started.read_bytes() == before
    assert not list(started.parent.glob("calls*"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("id,x\n", "rows.csv has no rows"),
        ("id,x\n1\n2\n", "line 2 has another number of fields than the header"),
    ],
)
def test_table_without_a_row_of_its_width_is_refused(
    tmp_path: Path, content: str, message: str
) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(content)
    assert message in refusal(4, "--role", "active", path, "--label", "x", "--out", tmp_path)


def test_open_quote_before_many_lines_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text('id,x\nk0,"open\n' + "".join(f"k{row:0200d},1\n" for row in range(1, 1999)))
    text = refusal(4, "--role", "active", path, "--label", "x", "--out", tmp_path)
    assert "line 2 ends inside a quoted field" in text


def test_table_of_labels_alone_may_name_its_partner(tmp_path: Path) -> None:
    path = tmp_path / "lab.csv"
    path.write_text("id,bought\n" + "".join(f"k{at},{at % 2}\n" for at in range(99)))
    result = init(
        "--role", "active", path, "--label", "bought", "--partner", "shop", "--out", tmp_path
    )
    assert result.exit_code == 0, result.output
    parties = tomllib.loads((tmp_path / "agreement.toml").read_text())["parties"]
    assert (parties["lab"].get("width"), parties["shop"]["width"]) == (None, 8)


def test_declared_rows_are_in_the_entry(started: Path, tables: tuple[Path, Path]) -> None:
    result = init("--join", started, tables[1], "--party", "calls", "--declared-rows", "1000")
    assert result.exit_code == 0, result.output
    assert read_any(started, SCHEMAS).agreement.parties["calls"].declared_rows == 1000
    text = refusal(3, "--join", started, tables[1], "--declared-rows", "2000", "--force")
    assert "write it below [parties.calls] at both parties" in text


def test_unsuitable_agreement_is_refused(tables: tuple[Path, Path], tmp_path: Path) -> None:
    path = tmp_path / "agreement.toml"
    for text, message in (
        ('mode = "horizontal"\n', "has no table [parties.NAME]"),
        ('mode = "llm"\n', "needs an agreement of the vertical or the horizontal mode"),
        ('federation = "x"\n', "has no table [parties.NAME]"),
        ("federation = \n", "agreement.toml"),
        (
            "".join(f'[parties.{each}]\nrole = "passive" {PARTNER_MARK}\n' for each in "ab"),
            "reserves 2 names",
        ),
    ):
        path.write_text(text)
        assert message in refusal(3, "--join", path, tables[1])
    path.write_text('mode = "llm"\n')
    for options in (("--role", "client"), ("--role", "server"), ("--label", "kanal")):
        text = refusal(3, "--join", path, tables[1], *options)
        assert "this one is of the mode 'llm'" in text
        assert "docs/llm.md" in text
    path.write_text("[parties.c")
    assert "agreement.toml" in refusal(3, "--join", path, tables[1])
    assert refusal(3, "--join", tmp_path / "absent.toml", tables[1])


def test_table_without_columns_for_the_partner_is_refused(started: Path, tmp_path: Path) -> None:
    path = tmp_path / "days.csv"
    path.write_text("id,day\n" + "".join(f"k{at},2024-01-{at % 28 + 1:02d}\n" for at in range(99)))
    assert "no numeric and no categorical column" in refusal(4, "--join", started, path)


def test_columns_of_the_agreement_are_required(started: Path, tables: tuple[Path, Path]) -> None:
    entry = '\n[parties.calls]\nrole = "passive"\nwidth = 8\ncolumns = 3\n'
    started.write_text(started.read_text() + entry)
    text = refusal(4, "--join", started, tables[1])
    assert "columns = 3, but the table has 5" in text


def test_password_and_missing_table_of_a_database_are_refused(tmp_path: Path) -> None:
    url = "postgresql://user:geheim@host/db"
    text = refusal(4, "--role", "active", url, "--table", "t", "--out", tmp_path)
    assert "contains a password" in text
    assert "geheim" not in text
    sqlite3.connect(tmp_path / "a.db").close()
    database = f"sqlite:///{tmp_path / 'a.db'}"
    assert "needs the name of a table" in refusal(2, "--role", "active", database)
    assert "database error" in refusal(4, "--role", "active", database, "--table", "t")


@pytest.mark.slow
def test_tables_of_postgres_give_files_that_the_doctor_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two organisations, each with a table in a database; the password is in a file of its own."""
    (tmp_path / "pgpass").write_text("*:*:*:reader:SECRET\n")
    (tmp_path / "pgpass").chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "pgpass"))
    with postgres_server() as address:
        import psycopg  # noqa: PLC0415  only where there is a server

        with psycopg.connect(address) as connection:
            connection.execute(POSTGRES_TABLES)
        url, agreement = address.replace(":SECRET", ""), tmp_path / "agreement.toml"
        active = ("--role", "active", url, "--table", "people", "--party", "bank")
        result = init(*active, "--label", "bought", "--out", tmp_path)
        assert result.exit_code == 0, result.output
        partner = ("--table", "public.calls", "--party", "calls", "--out", tmp_path)
        result = init("--join", agreement, url, *partner)
        assert result.exit_code == 0, result.output
        for name, label, numeric, categorical in (
            ("bank", "bought", ["age", "income"], ["town"]),
            ("calls", None, ["minutes"], ["plan"]),
        ):
            own = data(tmp_path / f"{name}.party.toml")
            assert (own["kind"], own["id"], own.get("label")) == ("sql", {"columns": ["id"]}, label)
            assert (own["numeric"], own["categorical"]) == (numeric, categorical)
            assert "SECRET" not in (tmp_path / f"{name}.party.toml").read_text()
            assert doctor_findings(agreement, name)["data"] == "ok"
    assert read_any(agreement, SCHEMAS).agreement.labels.classes == ("false", "true")


def test_missing_file_is_refused(tmp_path: Path) -> None:
    assert "there is no file" in refusal(4, "--role", "active", tmp_path / "absent.csv")
