"""The day after a run on this machine: processes with the kept model carry out requests to forget.

The parties of the run are started again with ``vfl-party --serve``. Requests are raised with
``vfl unlearn request`` at a passive party, and the receipts are checked with ``vfl-verify``.
"""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from time import monotonic, sleep

from configs.agreement import VerticalAgreement
from parties.common.errors import Failed
from parties.session.simulation import PartyProcess, reserved_port
from protocol.keyring import issue_certificate, make_authority

PATIENCE = 300.0  # seconds for a request on a busy machine
STEP = 0.2  # seconds between two looks at the folder of receipts
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class DayAfter:
    """A finished run whose parties keep their models.

    Attributes:
        config: the config of the run.
        agreement: its agreement.
        out: folder of the runs.
        keys: folder for the certificates of this day.
        settings: changes of the config on this day, in the form of ``--set``.
        tell: receives one sentence for each step.
    """

    config: Path
    agreement: VerticalAgreement
    out: Path
    keys: Path
    settings: Sequence[str]
    tell: Tell

    def run(self, party: str, requests: Sequence[Sequence[str]]) -> None:
        """Start all parties again, and carry out requests that ``party`` raises.

        Args:
            party: the party that raises the requests.
            requests: the IDs of each request.

        Raises:
            Failed: a party or a command failed.
        """
        make_authority(self.keys, self.agreement.federation)
        for name in self.agreement.parties:
            issue_certificate(self.keys, self.agreement.federation, name)
        self.tell("A month later: all processes are started again, with the model that they kept.")
        with self._served() as failed:
            for ids in requests:
                self._request(party, ids, failed)

    def _request(self, party: str, ids: Sequence[str], failed: Callable[[], str]) -> None:
        """Raise one request, wait until all parties have signed its receipt, and verify it."""
        began = monotonic()
        count = "1 customer" if len(ids) == 1 else f"{len(ids)} customers"
        self.tell(f"{party} takes a request to forget {count}, and tells the others no ID.")
        options = [word for each in ids for word in ("--id", each)]
        for line in self._vfl("unlearn", "request", str(self.config), "--party", party, *options):
            self.tell(f"  {line}")
        receipt = self._new_receipt(began, failed)
        self.tell(f"All parties have forgotten the rows and signed, {monotonic() - began:.0f} s.")
        folder = receipt.parent
        arguments = [str(receipt), "--keys", str(folder / "trust.json")]
        for line in _output([sys.executable, "-m", "unlearning.receipts", *arguments]):
            self.tell(f"  {line}")
        self.tell(f"The receipt, for a privacy officer to read: {receipt.with_suffix('.html')}")

    def _new_receipt(self, began: float, failed: Callable[[], str]) -> Path:
        """Wait for a receipt that every party has written."""
        known = set(self._receipts())
        while monotonic() < began + PATIENCE:
            found = [each for each in self._receipts() if each not in known]
            if found:
                return found[0]
            if text := failed():
                raise Failed(text, "see the lines above", 1)
            sleep(STEP)
        raise Failed(f"no receipt after {PATIENCE:.0f} s", "start the demo again", 1)

    def _receipts(self) -> list[Path]:
        """The receipts of the active party that all other parties have, too."""
        runs = self.out / self.agreement.federation
        folders = [runs / name / "receipts" for name in self.agreement.parties]
        names = [{path.name for path in each.glob("0*.json")} for each in folders]
        active = runs / self.agreement.active / "receipts"
        return [active / name for name in sorted(set.intersection(*names))]

    def _vfl(self, *arguments: str) -> list[str]:
        """The lines that a ``vfl`` command prints."""
        places = ["--out", str(self.out), "--certificates", str(self.keys)]
        places += [word for each in self.settings for word in ("--set", each)]
        process = PartyProcess([*arguments, *places], program="vfl")
        lines = process.stdout.read().splitlines()
        code = process.wait()
        process.close()
        if code:
            raise Failed(f"vfl {' '.join(arguments[:2])} failed", "see the lines above", code)
        return lines

    @contextmanager
    def _served(self) -> Iterator[Callable[[], str]]:
        """Run all parties; yield a function that returns the error of a party that failed."""
        with reserved_port() as port:
            processes = {name: self._start(name, port) for name in self.agreement.parties}
            errors: list[str] = []
            readers = [
                Thread(target=_read, args=(name, each, errors), daemon=True)
                for name, each in processes.items()
            ]
            for reader in readers:
                reader.start()
            try:
                yield lambda: errors[0] if errors else ""
            finally:
                _stop(processes)

    def _start(self, name: str, port: int) -> PartyProcess:
        role = self.agreement.parties[name].role
        command = ["--role", role, "--party", name, "--serve", "--format", "json"]
        command += ["--config", str(self.config), "--out", str(self.out)]
        command += ["--certificates", str(self.keys), "--hub", f"127.0.0.1:{port}"]
        command += [word for each in self.settings for word in ("--set", each)]
        return PartyProcess(command)


def _read(name: str, process: PartyProcess, errors: list[str]) -> None:
    """Collect the errors among the events of one process, until it ends."""
    for line in process.stdout:
        event = json.loads(line) if line.startswith("{") else {"event": ""}
        if event["event"] == "error":
            errors.append(f"{name}: {event['message']}")
        elif event["event"] == "warning" and "frozen" in event["text"]:
            errors.append(f"{name}: {event['text']}")


def _stop(processes: Mapping[str, PartyProcess]) -> None:
    for each in processes.values():
        each.send_signal(signal.SIGTERM)
    for each in processes.values():
        each.wait()


def _output(command: Sequence[str]) -> list[str]:
    """The lines of a command's output.

    Raises:
        Failed: the command failed.
    """
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines()[-2:]
        raise Failed("; ".join(last), "start the demo again", done.returncode)
    return done.stdout.strip().splitlines()
