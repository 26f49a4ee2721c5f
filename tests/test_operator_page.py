"""The commands of docs/operator.md and docs/privacy-officer.md, run as their readers run them.

Two organisations train, serve, forget, correct, replay, compare, train on, back up, and part.
"""

import json
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest

from parties.session.simulation import reserved_port
from tests.test_readme import ROOT, bank_and_shop, program, run_together

OPERATOR, OFFICER = (ROOT / "docs" / name for name in ("operator.md", "privacy-officer.md"))
PATIENCE = 240.0  # seconds, also on a loaded machine
SETTINGS = """
[training]
epochs = 2

[requests]
guard = 1.0                           # two epochs: the accuracy is that of chance
replay_days = 14

[unlearning]
retrains = 2
compare = ["fine-tune", "relabel"]
fedora = { iterations = 2 }
"""
# Commands of the two pages that this test does not run, and where they run.
ELSEWHERE = {
    "wards.toml": "tests/parties/horizontal/test_listed_rows.py",
    "notes.toml": "tests/parties/language/test_texts_forgotten_later.py",
    "vfl simulate": "tests/parties/vertical/privacy",
    "trust.json --statement": "tests/parties/vertical/test_departure.py",
}


def page_commands(page: Path) -> Iterator[str]:
    """Every command of the shell blocks of a page, without its comment."""
    for block in re.findall(r"```sh\n(.*?)```", page.read_text(), re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            command = re.sub(r"\s+#.*", "", line).strip()
            if command and not any(words in command for words in ELSEWHERE):
                yield command


class Story:
    """The folders of bank and shop, and the commands that are still to be run."""

    def __init__(self, folder: Path, port: int, http: int) -> None:
        self.bank, self.shop = bank_and_shop(folder, port)
        self.folder, self._port, self.http = folder, port, http
        self.left = [*page_commands(OPERATOR), *page_commands(OFFICER)]
        for name in ("srv/backup", "srv/keys", "srv/evidence"):
            (folder / name).mkdir(parents=True)

    def home(self, command: str) -> Path:
        return self.bank if "--party bank" in command else self.shop

    def take(self, beginning: str, **replaced: str) -> str:
        """The next command of the pages that begins so, with placeholders replaced."""
        found = next(each for each in self.left if each.startswith(beginning))
        self.left.remove(found)
        for old, new in replaced.items():
            found = found.replace(old, new)
        return found.replace("/srv/", f"{self.folder}/srv/").replace("8080", str(self.http))

    def words(self, command: str) -> list[str]:
        words = shlex.split(command)
        if words[0] == "vfl-verify":
            return [sys.executable, "-m", "unlearning.receipts", *words[1:]]
        return program(words, self._port)

    def run(self, command: str, home: Path | None = None) -> str:
        """Run a command in the folder of its party; return what it prints."""
        done = subprocess.run(
            self.words(command) if command.startswith("vfl") else shlex.split(command),
            cwd=home or self.home(command), capture_output=True, text=True, timeout=PATIENCE,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def at_both(self, command: str) -> None:
        """Run a command of one party at both, one after the other."""
        for name in ("bank", "shop"):
            self.run(re.sub(r"--party \w+", f"--party {name}", command))

    def both(self, command: str) -> None:
        """Run a command of one party at both at once."""
        commands = [re.sub(r"--party \w+", f"--party {name}", command) for name in ("bank", "shop")]
        run_together([self.words(each) for each in commands], self.bank, self.shop)

    @contextmanager
    def serving(self, more: str = "") -> Iterator[None]:
        """Both parties run ``vfl serve`` inside the block."""
        commands = [
            f"vfl serve people.toml --party bank {more}", "vfl serve people.toml --party shop"
        ]  # fmt: skip
        processes = [
            subprocess.Popen(
                self.words(each), cwd=self.home(each), stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE, text=True,
            )
            for each in commands
        ]  # fmt: skip
        try:
            yield
        finally:
            for each in processes:
                each.send_signal(signal.SIGTERM)
            for each in processes:
                _, errors = each.communicate(timeout=60)
                assert each.returncode == 0, errors

    def wait(self, command: str) -> str:
        """Run a command until it succeeds; return what it prints."""
        end = monotonic() + PATIENCE
        while True:
            try:
                return self.run(command)
            except AssertionError:
                if monotonic() > end:
                    raise
                sleep(1.0)

    def versions(self) -> list[int]:
        lines = self.run("vfl models list people.toml --party shop --format json").splitlines()
        found: list[dict[str, Any]] = [json.loads(line) for line in lines]
        return [each["number"] for each in found if each["event"] == "version"]


def request_of(text: str) -> str:
    """The ID of a request in what a command prints."""
    (found,) = {*re.findall(r"\b[0-9A-HJKMNP-TV-Z]{26}\b", text)}
    return found


def ids(table: Path, count: int, skip: int = 0) -> list[str]:
    rows = [line.partition(",")[0] for line in table.read_text().splitlines()[1:]]
    return rows[skip : skip + count]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_commands_of_operators_and_officers(tmp_path: Path, port: int) -> None:
    with reserved_port() as http:
        live(Story(tmp_path, port, http))


def live(story: Story) -> None:
    """Run every command of both pages once."""
    active = prepare(story)
    request = serve_and_forget(story)
    corrected = correct(story)
    train_on(story, active)
    story.run(story.take("vfl models list"))
    story.run(story.take("vfl models audit"))
    evidence(story, request, corrected)
    restore(story)
    leave(story)
    assert story.left == []


def prepare(story: Story) -> str:
    """Keys, the doctor and the training; return the command of the active party."""
    bank, shop = story.bank, story.shop
    for home in (bank, shop):
        text = re.sub(r"\[\[unlearn\]\].*", "", (home / "people.toml").read_text(), flags=re.DOTALL)
        (home / "people.toml").write_text(text + SETTINGS)
    story.run("vfl certs people.toml --out certs", bank)
    (shop / "certs").mkdir()
    shutil.copy(bank / "certs" / "ca.pem", shop / "certs")
    for name in ("shop.pem", "shop.key"):
        shutil.move(bank / "certs" / name, shop / "certs")
    story.run(story.take("vfl doctor"))
    passive = "vfl-party --role passive --config people.toml --party shop"
    active = story.take("vfl-party --role active")
    run_together([story.words(active), story.words(passive)], bank, shop)
    return active


def serve_and_forget(story: Story) -> str:
    """The service, predictions, a request and its notices, a replay; return the request's ID."""
    shop = story.shop
    assert story.take("vfl serve") == "vfl serve people.toml --party bank"
    (shop / "leavers.csv").write_text("\n".join(ids(shop / "visits.csv", 8)) + "\n")
    with story.serving(f"--http 127.0.0.1:{story.http}"):
        predict, health = story.take("curl"), story.take("curl")
        assert "predictions" in story.wait(f"{predict} --fail --silent")
        assert '"ready": true' in story.wait(f"{health} --fail --silent")
        request = request_of(story.run(story.take("vfl unlearn request")))
        story.run(story.take("vfl unlearn status"))
        story.wait(story.take("vfl unlearn receipt", REQUEST=request))
        for _ in range(3):
            today = {"2026-11-24": f"{datetime.now(UTC):%Y-%m-%d}"}
            story.run(story.take("vfl unlearn notify", REQUEST=request, **today))
    for command in ("vfl replay", "vfl compare"):
        story.both(story.take(command, REQUEST=request))
    return request


def correct(story: Story) -> str:
    """Correct four labels; return the ID of the request."""
    bank = story.bank
    rows = [line.split(",") for line in (bank / "customers.csv").read_text().splitlines()[1:]]
    lines = [f"{person},{'no' if label == 'yes' else 'yes'}" for person, label, *_ in rows[8:12]]
    (bank / "corrected.csv").write_text("customer_id,bought\n" + "\n".join(lines) + "\n")
    with story.serving():
        request = request_of(story.run(story.take("vfl unlearn correct")))
        story.wait(f"vfl unlearn receipt people.toml {request} --party bank")
    return request


def train_on(story: Story, active: str) -> None:
    """Train on from the newest version, with a new row."""
    for table, row in (("bank/customers.csv", "new1,yes,40,ulm"), ("shop/visits.csv", "new1,1,1")):
        with (story.folder / table).open("a") as file:
            file.write(row + "\n")
    parties = f"{active} --from newest", story.take("vfl-party --role passive")
    run_together([story.words(each) for each in parties], story.bank, story.shop)


def restore(story: Story) -> None:
    """Go back to an earlier version, erase one, and restore a lost party from its export."""
    earlier, oldest = story.versions()[-2], story.versions()[0]
    story.at_both(story.take("vfl models rollback people.toml 3", **{" 3 ": f" {earlier} "}))
    story.at_both(story.take("vfl models remove people.toml 1", **{" 1 ": f" {oldest} "}))
    story.run(story.take("vfl models export"))
    shutil.move(story.shop / "runs" / "people" / "shop", story.folder / "lost")
    story.run(story.take("vfl models import"))
    story.run(story.take("vfl unlearn import people.toml /srv"))


def leave(story: Story) -> None:
    """The shop leaves, the bank reads its statement, and erases its own models."""
    story.run(story.take("vfl leave"))
    shutil.copy(story.shop / "shop.jsonl", story.bank)
    agreement, tomorrow = story.bank / "people.toml", datetime.now(UTC) + timedelta(days=1)
    joins = f'[parties.post]\nsince = "{tomorrow:%Y-%m-%d}"'
    agreement.write_text(agreement.read_text().replace("[parties.shop]", joins))
    story.run(story.take("vfl unlearn import people.toml shop.jsonl"))
    story.run(story.take("vfl models remove people.toml --all").replace("shop", "bank"))


def evidence(story: Story, request: str, corrected: str) -> None:
    """The officer's checks of the receipts, which follow one another."""
    receipts, officer = (
        story.bank / "runs" / "people" / "bank" / "receipts",
        story.folder / "officer",
    )
    officer.mkdir()
    for name, source in {"receipt": corrected, "earlier": request}.items():
        shutil.copy(receipts / f"{source}.json", officer / f"{name}.json")
    shutil.copy(receipts / "trust.json", officer)
    assert story.take("vfl-verify") == "vfl-verify receipt.json --keys trust.json"
    story.run("vfl-verify receipt.json --keys trust.json", officer)
    story.run(story.take("vfl unlearn export"))
    shutil.copy(story.folder / "srv" / "evidence" / "journal.jsonl", officer)
    story.run(story.take("vfl-verify receipt.json --keys trust.json --journal"), officer)
    common = {*ids(story.bank / "customers.csv", 300)}
    person = next(each for each in ids(story.shop / "visits.csv", 8) if each in common)
    printed = story.run(story.take("vfl unlearn export", REQUEST=request, **{"4711": person}))
    shutil.copy(story.shop / "proof.json", officer)
    salt = re.findall(r"\b[0-9a-f]{64}\b", printed)[0]
    shutil.copy(officer / "earlier.json", officer / "receipt.json")
    shown = {"4711": person, "0f1e…2d3c": salt}
    story.run(story.take("vfl-verify receipt.json --keys trust.json --subject", **shown), officer)
