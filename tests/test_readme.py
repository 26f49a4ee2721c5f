"""The commands and configs of the README and of the readers' pages, run as a reader runs them."""

import random
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from configs.config_file import read_config
from configs.language_party_settings import LanguageClientSettings
from parties.language.registry import SCHEMA as LANGUAGE
from parties.vertical.methods.registry import SCHEMA

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
DATA_SCIENTIST = ROOT / "docs" / "data-scientist.md"
LONGEST_README = 162
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


def commands(page: Path) -> list[list[str]]:
    """Every ``vfl`` line of the page's shell blocks."""
    blocks = re.findall(r"```sh\n(.*?)```", page.read_text(), re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    return [shlex.split(line, comments=True) for line in lines if line.startswith("vfl")]


def program(command: list[str], port: int) -> list[str]:
    """The same command with this interpreter, on a free port."""
    call = f"from parties.cli.main import {PROGRAMS[command[0]]} as run; run()"
    rest = [part.replace("7700", str(port)) for part in command[1:]]
    rest = [str(ROOT / part) if part.startswith("configs/") else part for part in rest]
    return [sys.executable, "-c", call, *rest]


def run_together(processes: list[list[str]], *folders: Path) -> None:
    """Run all processes at once, each in its folder or all in one; every one must end with 0."""
    places = folders * len(processes) if len(folders) == 1 else folders
    running = [
        subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True)
        for command, folder in zip(processes, places, strict=True)
    ]
    for process in running:
        _, errors = process.communicate(timeout=280)
        assert process.returncode == 0, errors


def with_changes(command: list[str], changes: list[str]) -> list[str]:
    """The command with ``--set`` for every change."""
    return [*command, *(part for change in changes for part in ("--set", change))]


def test_the_readme_fits_one_screen() -> None:
    assert len(README.read_text().splitlines()) <= LONGEST_README


def test_commands_of_the_readme_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"make ([a-z-]+)", README.read_text()))
    assert {"demo", "test"} <= named <= targets
    assert "make test" in (ROOT / ".ci" / "run").read_text()


def files_of(page: Path) -> dict[str, str]:
    """The TOML files that a page shows; the first line of each is its name, as a comment."""
    blocks = re.findall(r"```toml\n(.*?)```", page.read_text(), re.DOTALL)
    return {block.split()[1].removesuffix(":"): block for block in blocks}


def test_agreement_and_settings_of_the_readme_are_valid(tmp_path: Path) -> None:
    files = files_of(README)
    assert list(files) == ["people.toml", "bank.party.toml", "shop.party.toml"]
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    config = read_config(tmp_path / "people.toml", SCHEMA)
    assert config.agreement.active == "bank"
    assert config.settings("bank").listen == "0.0.0.0:7700"
    assert config.settings("shop").hub == "bank.example:7700"


def bank_and_shop(folder: Path, port: int) -> tuple[Path, Path]:
    """Two organisations with the README's files, and tables of partly the same people."""
    draw = random.Random(7)
    people = [(f"c{number:04d}", draw.gauss(0, 1)) for number in range(400)]
    bank, shop = folder / "bank", folder / "shop"
    customers_rows = ["customer_id,bought,age,town"]
    for customer, taste in draw.sample(people, 300):
        town = draw.choice(["ulm", "bern"])
        customers_rows.append(
            f"{customer},{'yes' if taste > 0 else 'no'},{draw.randint(18, 90)},{town}"
        )
    visits = ["customer_id,visits,spent"]
    for customer, taste in draw.sample(people, 300):
        visits.append(f"{customer},{taste + draw.gauss(0, 0.5):.4f},{draw.random():.4f}")
    files = files_of(README)
    for home, settings, table, rows in (
        (bank, "bank.party.toml", "customers.csv", customers_rows),
        (shop, "shop.party.toml", "visits.csv", visits),
    ):
        home.mkdir()
        (home / "people.toml").write_text(files["people.toml"])
        text = re.sub(r"(0\.0\.0\.0|bank\.example):7700", f"127.0.0.1:{port}", files[settings])
        (home / settings).write_text(text)
        (home / table).write_text("\n".join(rows) + "\n")
    return bank, shop


@pytest.mark.slow
def test_three_steps_of_the_readme_produce_a_report(tmp_path: Path, port: int) -> None:
    """Trial keys, the doctor and both parties, in the README's words, end with a report."""
    bank, shop = bank_and_shop(tmp_path, port)
    certs, doctor, *parties = [each for each in commands(README) if "people.toml" in each]
    assert [command[2] for command in parties] == ["active", "passive"]
    subprocess.run(program(certs, port), cwd=bank, check=True, capture_output=True)
    (shop / "certs").mkdir()
    shutil.copy(bank / "certs" / "ca.pem", shop / "certs")
    for name in ("shop.pem", "shop.key"):
        shutil.move(bank / "certs" / name, shop / "certs")
    subprocess.run(program(doctor, port), cwd=bank, check=True, capture_output=True)
    run_together([with_changes(program(each, port), SHORT) for each in parties], bank, shop)
    assert "withdrawn" in (bank / "runs" / "people" / "report.html").read_text()
    assert (shop / "runs" / "people" / "shop" / "model.safetensors").exists()
    own = (shop / "runs" / "people" / "shop" / "report.html").read_text()
    assert "Report of a passive party" in own
    assert "withdrawn" not in own
    assert [*shop.rglob("report.html")] == [shop / "runs" / "people" / "shop" / "report.html"]
    assert not [*shop.rglob("metrics.json")]


@pytest.fixture(scope="module")
def trained_folder(tmp_path_factory: pytest.TempPathFactory, port: int) -> Path:
    """The reader's folder after the three terminals of the data scientist's page."""
    folder = tmp_path_factory.mktemp("reader")
    shown = [each for each in commands(DATA_SCIENTIST) if "configs/vertical/digits.toml" in each]
    certs, *parties = [each for each in shown if each[1] not in ("predict", "simulate")]
    subprocess.run(program(certs, port), cwd=folder, check=True, capture_output=True)
    assert [command[2] for command in parties] == ["active", "passive", "passive"]
    run_together([with_changes(program(command, port), SHORT) for command in parties], folder)
    return folder


@pytest.mark.slow
def test_commands_of_three_terminals_produce_a_report(trained_folder: Path) -> None:
    assert (trained_folder / "runs" / "digits" / "report.html").exists()


@pytest.mark.slow
def test_commands_of_three_terminals_predict(trained_folder: Path, port: int) -> None:
    asking = [command for command in commands(DATA_SCIENTIST) if command[1] == "predict"]
    assert [command[4] for command in asking] == ["left", "right", "office"]
    run_together([program(command, port) for command in asking], trained_folder)
    header, *rows = (trained_folder / "predictions.csv").read_text().splitlines()
    assert header.startswith("id,status,class,p_0,p_1")
    assert len(rows) == 1707


@pytest.mark.slow
def test_simulated_clients_produce_a_report(tmp_path: Path, port: int) -> None:
    """The README names a run of each mode; the horizontal one ends with a report."""
    runs = re.findall(r"`(vfl simulate [^`]+)`", README.read_text())
    (command,) = (each.split() for each in runs if "configs/horizontal/" in each)
    subprocess.run(with_changes(program(command, port), SHORT_ROUNDS), cwd=tmp_path, check=True)
    assert (tmp_path / "runs" / "digits-clients" / "report.html").exists()


def test_agreement_and_settings_of_the_llm_mode_are_valid(tmp_path: Path) -> None:
    for name, text in files_of(ROOT / "docs" / "llm.md").items():
        (tmp_path / name).write_text(text)
    config = read_config(tmp_path / "notes.toml", LANGUAGE)
    assert config.agreement.hub == "registry"
    assert isinstance(config.settings("north"), LanguageClientSettings)
