"""From three tables of wards to a model of all, by the commands that four persons type."""

import csv
import json
import shutil
from itertools import pairwise
from pathlib import Path

import pytest
from typed_commands import TypedCommands, finish
from ward_tables import WARDS, write_wards

from parties.session.simulation import reserved_port

SERVER, AGREEMENT = "registry", "agreement.toml"
LEAST_ACCURACY = 0.93  # of the model on the rows of south; the majority class has 0.63


def keys(home: Path, name: str) -> None:
    """The authority's folder gives a party its key and certificate."""
    (home / name / "certs").mkdir()
    for file in ("ca.pem", f"{name}.pem", f"{name}.key"):
        shutil.copy(home / "authority" / file, home / name / "certs")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_few_commands_lead_from_tables_of_wards_to_a_model(tmp_path: Path) -> None:
    home, typed = tmp_path, TypedCommands()
    tables = write_wards(home)
    for name in (SERVER, *WARDS):
        (home / name).mkdir()
    for name, path in tables.items():
        shutil.move(path, home / name)
    with reserved_port() as port:
        hub = ("--hub", f"localhost:{port}")
        start = ("--role", "client", "north.csv", "--label", "diagnosis", "--server", SERVER)
        typed.run(home / "north", "vfl", "init", *start, *hub)
        for before, name in pairwise(WARDS):
            shutil.copy(home / before / AGREEMENT, home / name)  # sent by mail
            output = typed.run(home / name, "vfl", "init", "--join", AGREEMENT, f"{name}.csv", *hub)
            assert "all parties must take this file" in output
        for name in (SERVER, *WARDS[:-1]):
            shutil.copy(home / WARDS[-1] / AGREEMENT, home / name)
        server = home / SERVER
        typed.run(server, "vfl", "init", "--join", AGREEMENT, "--role", "server", *hub)
        typed.run(server, "vfl", "certs", AGREEMENT, "--out", home / "authority")
        for name in (SERVER, *WARDS):
            keys(home, name)
        common = ("--config", AGREEMENT, "--party")
        processes = [typed.start(server, "vfl-party", "--role", "server", *common, SERVER)]
        processes += [
            typed.start(home / name, "vfl-party", "--role", "client", *common, name)
            for name in WARDS
        ]
        for process in processes:
            finish(process)
    assert typed.most <= 4
    (record,) = server.glob("runs/*/metrics.json")
    run = json.loads(record.read_text())["run"]
    assert run["clients"] == len(WARDS)
    assert len(run["settings"]["columns"]) == 30
    assert run["settings"]["shape"] == [30]
    assert "<html" in record.with_name("report.html").read_text()
    assert accuracy(home / "south", typed) > LEAST_ACCURACY


def accuracy(south: Path, typed: TypedCommands) -> float:
    """The accuracy of the delivered model on all rows of south, as south computes it."""
    typed.run(south, "vfl", "predict", AGREEMENT, "--party", "south", "--out", "predicted.csv")
    with (south / "south.csv").open() as truth, (south / "predicted.csv").open() as predicted:
        rows = list(csv.DictReader(truth, delimiter=";"))
        classes = {each["id"]: each["class"] for each in csv.DictReader(predicted)}
    assert len(classes) == len(rows)
    return sum(classes[each["patient"]] == each["diagnosis"] for each in rows) / len(rows)
