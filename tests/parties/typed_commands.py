"""Commands that persons type in the folders of their organisations, as real processes."""

import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Final

_PARTY = "from parties.cli.main import party_main; party_main()"
LONGEST: Final = 600  # seconds of a command


class TypedCommands:
    """Starts commands, and counts those of each folder."""

    def __init__(self) -> None:
        self._typed: Counter[Path] = Counter()

    @property
    def most(self) -> int:
        """The most commands that one organisation typed."""
        return max(self._typed.values())

    def start(self, at: Path, *words: object) -> subprocess.Popen[str]:
        """Start one command in the folder of an organisation."""
        self._typed[at] += 1
        program = ["-c", _PARTY] if words[0] == "vfl-party" else ["-m", "parties.cli"]
        return subprocess.Popen(
            [sys.executable, *program, *map(str, words[1:])],
            cwd=at, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def run(self, at: Path, *words: object) -> str:
        """Run one command, which must succeed; return its output."""
        return finish(self.start(at, *words))


def finish(process: subprocess.Popen[str]) -> str:
    """Wait for a process, which must succeed; return its output."""
    output, _ = process.communicate(timeout=LONGEST)
    assert process.returncode == 0, output
    return output
