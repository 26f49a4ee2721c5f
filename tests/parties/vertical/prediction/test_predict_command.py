"""``vfl predict``: its help, and what it refuses before it contacts another party."""

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from parties.cli.main import app

DIGITS = Path(__file__).parents[4] / "configs" / "vertical" / "digits.toml"


def predict(name: str, *options: str) -> Result:
    command = ["predict", str(DIGITS), "--party", name, *options]
    return CliRunner().invoke(app, command, env={"COLUMNS": "100", "VFL_DATA": None})


def test_help_describes_every_option() -> None:
    output = predict("left", "--help").output
    for word in (
        "--party",
        "--ids",
        "--out",
        "--http",
        "--force",
        "--hub",
        "--runs",
        "9 integrity",
    ):
        assert word in output


@pytest.mark.parametrize(
    "options",
    [("--out", "p.csv"), ("--ids", "ids.csv"), ("--http", "127.0.0.1:8080"), ("--force",)],
    ids=lambda options: options[0],
)
def test_options_of_the_active_party_are_refused_at_a_passive_party(
    options: tuple[str, ...],
) -> None:
    result = predict("left", *options)
    assert result.exit_code == 3
    assert "left is a passive party in" in result.output
    assert f"only the active party accepts {options[0]}" in " ".join(result.output.split())


@pytest.mark.parametrize(
    "options", [(), ("--out", "p.csv", "--http", "127.0.0.1:0")], ids=["neither", "both"]
)
def test_neither_or_both_of_file_and_service_are_refused(options: tuple[str, ...]) -> None:
    result = predict("office", *options)
    assert result.exit_code == 3
    assert "one of --out FILE and --http HOST:PORT" in result.output


def test_service_refuses_a_file_of_ids() -> None:
    result = predict("office", "--http", "127.0.0.1:0", "--ids", "ids.csv")
    assert result.exit_code == 3
    assert "--http cannot be combined" in result.output


def test_unknown_party_is_refused_with_the_known_parties() -> None:
    result = predict("lefft")
    assert result.exit_code == 3
    assert "left, office, right" in result.output


def test_existing_output_is_refused_and_unchanged(tmp_path: Path) -> None:
    out = tmp_path / "p.csv"
    out.write_text("old")
    result = predict("office", "--out", str(out), "--runs", str(tmp_path))
    assert result.exit_code == 7
    assert "exists" in result.output
    assert "--force" in result.output
    assert out.read_text() == "old"
    forced = predict("office", "--out", str(out), "--runs", str(tmp_path), "--force")
    assert "no trained model in" in forced.output


@pytest.mark.parametrize(("name", "code"), [("p.xlsx", 3), ("none/p.csv", 7)])
def test_unwritable_output_is_refused_first(tmp_path: Path, name: str, code: int) -> None:
    result = predict("office", "--out", str(tmp_path / name), "--runs", str(tmp_path))
    assert result.exit_code == code


def test_prediction_before_training_is_refused_with_a_hint(tmp_path: Path) -> None:
    result = predict("left", "--runs", str(tmp_path))
    assert result.exit_code == 7
    assert "no trained model in" in result.output
    assert "train first" in result.output
    assert list(tmp_path.iterdir()) == []


def test_damaged_local_model_has_its_own_exit_code(tmp_path: Path) -> None:
    half = tmp_path / "digits" / "left"
    half.mkdir(parents=True)
    (half / "manifest.json").write_text("{")
    result = predict("left", "--runs", str(tmp_path))
    assert result.exit_code == 9
    assert "manifest.json is not JSON" in "".join(result.output.splitlines())
