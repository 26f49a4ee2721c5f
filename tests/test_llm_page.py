"""The commands of docs/llm.md: a server and two clients, a request for texts, a merged model."""

import json
import re
import subprocess
from pathlib import Path
from time import monotonic

import pytest

from models.language.loading import load_language_model
from models.language.tiny import TinyShape
from tests.parties.language.ferries import facts, json_lines, write_base
from tests.test_readme import ROOT, program, run_together

PAGE = (ROOT / "docs" / "llm.md").read_text()
PATIENCE = 120.0  # seconds, also on a loaded machine
CLIENTS = ("north", "south")
LONG = re.compile(r"# .*\((minutes|20 minutes|hours)\)$")
SHORT = "\n[training]\nrounds = 1\nepochs = 1\n\n[unlearning.npo]\nunlearn = { rounds = 1 }\n"


def page_commands() -> list[str]:
    """Every command of the page's shell blocks that is not marked as long, in order."""
    blocks = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines() if line.startswith("vfl")]
    return [line.partition("#")[0].strip() for line in lines if not LONG.search(line)]


def write_files(folder: Path, port: int) -> None:
    """The page's files, a base model, and the texts of two clients."""
    for block in re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL):
        text = re.sub(r"[a-z0-9.]+:7711", f"127.0.0.1:{port}", block)
        (folder / block.split()[1]).write_text(text)
    north = (folder / "north.party.toml").read_text()
    (folder / "south.party.toml").write_text(north.replace("notes.jsonl", "others.jsonl"))
    for at, name in enumerate(("notes", "others")):
        (folder / f"{name}.jsonl").write_text(json_lines(facts()[at::2]))
    shape = TinyShape(hidden=32, intermediate=64, layers=2, heads=2, key_heads=2, length=512)
    base = write_base(folder, shape)
    (folder / "models").mkdir()
    base.rename(folder / "models" / "llama")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_commands_of_the_page_train_forget_and_merge(tmp_path: Path, port: int) -> None:
    write_files(tmp_path, port)
    left = page_commands()

    def take(beginning: str) -> list[str]:
        """The page's next command that begins so."""
        found = next(each for each in left if each.startswith(beginning))
        left.remove(found)
        return program(found.split(), port)

    def run(beginning: str) -> str:
        done = subprocess.run(
            take(beginning), cwd=tmp_path, capture_output=True, text=True, check=False, timeout=200
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    agreement = tmp_path / "notes.toml"
    digest = re.findall(r"[0-9a-f]{64}", run("vfl language digest"))[0]
    agreement.write_text(agreement.read_text().replace("0" * 64, digest) + SHORT)
    run("vfl certs")
    with subprocess.Popen(take("vfl-party --role server"), cwd=tmp_path) as server:
        wait_for(take("vfl doctor"), tmp_path)
        run_together(at_each(take("vfl-party --role client"), CLIENTS), tmp_path)
    assert server.returncode == 0

    hashes = re.findall(r"\b[0-9a-f]{64}\b", run("vfl language hashes"))
    assert len(hashes) == len(facts()[::2])
    (tmp_path / "texts.txt").write_text("3\n" + hashes[5] + "\n")
    run("vfl unlearn request")
    run_together(at_each(take("vfl unlearn run"), ("registry", *CLIENTS)), tmp_path)
    assert "certified" in run("vfl unlearn status")
    (receipt,) = (tmp_path / "runs" / "notes" / "north" / "receipts").glob("[!t]*.json")
    assert json.loads(receipt.read_bytes())["federation"] == "notes"

    run("vfl language merge")
    load_language_model(tmp_path / "merged")
    assert "client" in run("vfl language memory")
    assert left == []


def wait_for(command: list[str], folder: Path) -> None:
    """Run a command until it succeeds: the server that it connects to may still be starting."""
    end = monotonic() + PATIENCE
    while True:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return
        assert monotonic() < end, done.stdout + done.stderr


def at_each(command: list[str], names: tuple[str, ...]) -> list[list[str]]:
    """The command of ``north`` at each of these parties."""
    return [[word.replace("north", name) for word in command] for name in names]
