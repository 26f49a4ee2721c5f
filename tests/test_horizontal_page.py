"""The commands of docs/horizontal.md: keys, a server and three clients, a prediction."""

import re
import subprocess
from pathlib import Path

import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer

from tests.test_readme import PROGRAMS, ROOT, program, run_together

PAGE = (ROOT / "docs" / "horizontal.md").read_text()
WARDS = ("north", "south", "west")


def write_files(folder: Path, port: int) -> None:
    """The page's files, and the rows of three wards."""
    for block in re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL):
        name = block.split()[1].removesuffix(":")
        text = re.sub(r"[a-z0-9.]+:7710", f"127.0.0.1:{port}", block)
        (folder / name).write_text(text)
    north = (folder / "north.party.toml").read_text()
    for name in WARDS[1:]:
        (folder / f"{name}.party.toml").write_text(north.replace("north", name))
    data = load_breast_cancer(as_frame=True)
    columns = ["mean radius", "mean texture", "mean area", "mean smoothness"]
    rows = data.frame[columns].assign(diagnosis=data.target_names[data.target])
    for at, name in enumerate(WARDS):
        rows[at::3].to_csv(folder / f"{name}.csv", index=False)


def commands_of_wards(folder: Path, port: int) -> list[list[str]]:
    """The page's commands about the wards."""
    blocks = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    lines = [line.partition("#")[0] for block in blocks for line in block.splitlines()]
    commands = [line.split() for line in lines if "wards.toml" in line]
    assert all(words[0] in PROGRAMS for words in commands)
    return [program(words, port) for words in commands]


@pytest.mark.smoke
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_commands_of_the_page_produce_report_and_predictions(tmp_path: Path, port: int) -> None:
    write_files(tmp_path, port)
    certs, server, north, _, predict = commands_of_wards(tmp_path, port)
    subprocess.run(certs, cwd=tmp_path, check=True, capture_output=True)
    clients = [[word.replace("north", name) for word in north] for name in WARDS]
    run_together([server, *clients], tmp_path)
    report = (tmp_path / "runs" / "wards" / "report.html").read_text()
    assert "north-leaves" in report
    subprocess.run(predict, cwd=tmp_path, check=True, capture_output=True)
    predicted = pd.read_csv(tmp_path / "predictions.csv")["class"]
    truth = pd.read_csv(tmp_path / "north.csv")["diagnosis"]
    assert (predicted == truth).mean() > 0.85
