"""The README's commands, run as a reader would: certificates, then three parties by hand."""

import re
import shlex
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from configs.federated_file import read_language
from configs.language_seat import TextSeat
from configs.schema import read_config

ROOT = Path(__file__).parents[1]
SHORT_ROUNDS = [
    "training.rounds=2",
    "unlearning.fedosd.unlearn.rounds=1",
    "unlearning.fedosd.recover.rounds=1",
    "unlearning.compare=[]",
    "unlearning.retrains=1",
    "evaluation.revert=0",
]
SHORT = [
    "training.epochs=1",
    "unlearning.retrains=2",
    "unlearning.fedora.iterations=1",
    'unlearning.compare=["fine-tune", "relabel"]',
]
PROGRAMS = {"vfl": "main", "vfl-party": "party_main"}


def commands() -> list[list[str]]:
    """Every ``vfl`` line of the README's shell blocks."""
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    return [shlex.split(line, comments=True) for line in lines if line.startswith("vfl")]


def program(command: list[str], port: int) -> list[str]:
    """The same command with this interpreter, on a free port."""
    call = f"from parties.cli.main import {PROGRAMS[command[0]]} as run; run()"
    rest = [part.replace("7700", str(port)) for part in command[1:]]
    rest = [str(ROOT / part) if part.startswith("configs/") else part for part in rest]
    return [sys.executable, "-c", call, *rest]


def test_the_two_commands_of_the_first_page_exist() -> None:
    made = (ROOT / "Makefile").read_text()
    assert {"demo", "test"} <= set(re.findall(r"^([a-z]+):", made, re.MULTILINE))
    assert "make test" in (ROOT / ".ci" / "run").read_text()


def test_the_agreement_and_the_seat_of_the_first_page_are_legal(tmp_path: Path) -> None:
    text = (ROOT / "README.md").read_text()
    agreement, seat = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    (tmp_path / "people.toml").write_text(dedent(agreement))
    (tmp_path / "bank.seat.toml").write_text(dedent(seat))
    config = read_config(tmp_path / "people.toml")
    assert config.agreement.active == "bank"
    assert config.seat("bank").listen == "0.0.0.0:7700"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, port: int) -> Path:
    """Where the reader stands after the three terminals."""
    folder = tmp_path_factory.mktemp("reader")
    of_the_demo = [each for each in commands() if "configs/vertical/digits.toml" in each]
    certs, *parties = [each for each in of_the_demo if each[1] != "predict"]
    subprocess.run(program(certs, port), cwd=folder, check=True, capture_output=True)
    assert [command[2] for command in parties] == ["active", "passive", "passive"]
    changes = [part for change in SHORT for part in ("--set", change)]
    together([[*program(command, port), *changes] for command in parties], folder)
    return folder


def together(processes: list[list[str]], folder: Path) -> None:
    """Run all at once; every one must end well."""
    running = [
        subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True)
        for command in processes
    ]
    for process in running:
        _, said = process.communicate(timeout=280)
        assert process.returncode == 0, said


@pytest.mark.slow
def test_three_terminals(trained: Path) -> None:
    assert (trained / "runs" / "digits" / "report.html").exists()


@pytest.mark.slow
def test_three_terminals_predict_afterwards(trained: Path, port: int) -> None:
    asking = [command for command in commands() if command[1] == "predict"]
    assert [command[4] for command in asking] == ["left", "right", "office"]
    together([program(command, port) for command in asking], trained)
    header, *rows = (trained / "predictions.csv").read_text().splitlines()
    assert header.startswith("id,status,class,p_0,p_1")
    assert len(rows) == 1707


@pytest.mark.slow
def test_simulated_clients(tmp_path: Path, port: int) -> None:
    (command,) = (each for each in commands() if each[1] == "simulate" and "horizontal" in each[2])
    changes = [part for change in SHORT_ROUNDS for part in ("--set", change)]
    subprocess.run([*program(command, port), *changes], cwd=tmp_path, check=True)
    assert (tmp_path / "runs" / "digits-clients" / "report.html").exists()


def test_the_agreement_and_the_seat_of_the_llm_mode_are_legal(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "llm.md").read_text()
    agreement, seat = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    (tmp_path / "notes.toml").write_text(agreement)
    (tmp_path / "north.seat.toml").write_text(seat)
    config = read_language(tmp_path / "notes.toml")
    assert config.agreement.hub == "registry"
    assert isinstance(config.seat("north"), TextSeat)
