"""A federation whose parties run the present code or that of the version before.

``tests/version_before.txt`` has the commit of the version before, whose code comes from the history
of the repository.
"""

import json
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Collection, Sequence
from io import BytesIO
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest
from request_federation import PATIENCE, RequestFederation
from watched_party import Recording, Watch

from parties.session.simulation import import_for_parties

ROOT = Path(__file__).parents[2]
COMMIT = (ROOT / "tests" / "version_before.txt").read_text().strip()
OTHER_VERSION = "0.2.99"
PACKAGES = ("configs", "models", "parties", "protocol", "psi", "unlearning")
PROGRAMS = {
    "vfl": "from parties.cli.main import main; main()",
    "vfl-party": "from parties.cli.main import party_main; party_main()",
    "vfl-verify": "from unlearning.receipts.__main__ import verify_main; verify_main()",
}

CANONICAL = """
import json, sys
from pathlib import Path
from configs.config_file import canonical_agreement
from parties.cli.modes import read_runnable
found = {}
for path in sys.argv[1:]:
    found[path] = canonical_agreement(read_runnable(Path(path), [], None).agreement)
print(json.dumps(found))
"""


def unpack_version_before(folder: Path, *paths: str) -> Path:
    """Unpack ``paths`` of the version before, by default its packages; return ``folder``.

    Its program calls itself ``OTHER_VERSION``, also if the number was not raised since then.

    The test is skipped where the history is absent: in a shallow clone and in a source archive.
    """
    command = ["git", "-C", str(ROOT), "archive", COMMIT, *(paths or PACKAGES)]
    try:
        archive = subprocess.run(command, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip(f"no history of the version before ({COMMIT[:8]})")
    with tarfile.open(fileobj=BytesIO(archive)) as files:
        files.extractall(folder, filter="data")
    named = folder / "parties" / "__init__.py"
    if named.exists():  # nothing that parties must make equally may contain the own version
        text = named.read_text()
        assert f'__version__ = "{OTHER_VERSION}"' not in (ROOT / "parties/__init__.py").read_text()
        named.write_text(re.sub('__version__ = ".*"', f'__version__ = "{OTHER_VERSION}"', text))
    return folder


def canonical_agreements(root: Path, configs: Sequence[Path]) -> dict[str, str]:
    """The canonical agreements of config files, by file, as the code in ``root`` reads them."""
    words = [sys.executable, "-c", CANONICAL, *map(str, configs)]
    environment = os.environ | {"PYTHONPATH": str(root)}
    printed = subprocess.run(
        words, stdout=subprocess.PIPE, check=True, cwd=root, env=environment
    ).stdout
    found: dict[str, str] = json.loads(printed)
    return found


class TwoVersions(RequestFederation):
    """A federation in which some parties run the version before.

    Attributes:
        old: the parties that run the version before.
    """

    def __init__(self, config: Path, before: Path, old: Collection[str] = ()) -> None:
        super().__init__(config.parent, config)
        self._before, self.old = before, frozenset(old)

    def launch(
        self,
        name: str,
        arguments: Sequence[str],
        out: Path,
        watch: Watch | Recording | None = None,
        program: str = "vfl-party",
    ) -> BaseProcess:
        """Start a program of one party, in this party's version."""
        if name not in self.old:
            return super().launch(name, arguments, out, watch, program)
        import_for_parties()
        given = self._before, program, arguments, self.output(name, out)
        process = get_context("forkserver").Process(target=_become, args=given, daemon=True)
        process.start()
        return process

    def call(self, name: str, out: Path, *arguments: str, seconds: float = PATIENCE) -> str:
        """Run ``vfl`` of one party, in this party's version; return its output."""
        output = self.output(name, out)
        before = output.stat().st_size if output.exists() else 0
        process = self.launch(name, [*arguments, "--out", str(out)], out, program="vfl")
        process.join(seconds)
        printed = output.read_text()[before:]
        assert process.exitcode == 0, printed
        return printed

    def verify(self, name: str, receipt: Path) -> None:
        """Verify a receipt with ``vfl-verify`` in the version of the party ``name``."""
        root = self._before if name in self.old else ROOT
        trust = receipt.parent / "trust.json"
        words = [sys.executable, "-c", PROGRAMS["vfl-verify"], str(receipt), "--keys", str(trust)]
        environment = os.environ | {"PYTHONPATH": str(root)}
        subprocess.run(words, check=True, cwd=root, env=environment)


def _become(before: Path, program: str, arguments: Sequence[str], output: Path) -> None:
    """Replace this process by a program of the version before."""
    with output.open("ab") as events:
        os.dup2(events.fileno(), 1)
        os.dup2(events.fileno(), 2)
    os.chdir(before)
    command = [sys.executable, "-c", PROGRAMS[program], *arguments]
    os.execve(sys.executable, command, os.environ | {"PYTHONPATH": str(before)})
