"""The process of a party on this machine, forked from a process that has imported the libraries.

An import of the libraries takes seconds for each process. A fork of a process that has imported
them takes milliseconds, and the processes share the memory of the libraries.
"""

import os
import runpy
import sys
from collections.abc import Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.forkserver import set_forkserver_preload
from pathlib import Path
from subprocess import TimeoutExpired
from typing import TextIO

LIBRARIES = ("torch", "grpc", "cryptography.x509", "pandas", "pyarrow", "pydantic", "sklearn.utils")


class PartyProcess:
    """A running ``vfl-party``, whose standard output is a pipe.

    Attributes:
        stdout: the standard output of the process; it ends when the process ends.
        pid: the number of the process.
    """

    def __init__(self, arguments: Sequence[str], folder: Path | None = None) -> None:
        """Start the process with these arguments of ``vfl-party``, in ``folder``."""
        set_forkserver_preload([*LIBRARIES])
        context = get_context("forkserver")
        reader, writer = context.Pipe(duplex=False)
        self._process = context.Process(
            target=_run_party,
            args=([*arguments], writer, folder or Path.cwd(), dict(os.environ)),
        )
        self._process.start()
        writer.close()
        self.stdout: TextIO = os.fdopen(os.dup(reader.fileno()), encoding="utf-8")
        reader.close()
        self.pid = self._process.pid or 0

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal; None while the process runs."""
        return self._process.exitcode

    def wait(self, seconds: float | None = None) -> int:
        """Return the exit code after the process has ended.

        Raises:
            TimeoutExpired: the process still runs after ``seconds``.
        """
        self._process.join(seconds)
        code = self._process.exitcode
        if code is None:
            raise TimeoutExpired("vfl-party", seconds or 0.0)
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal to the process; nothing happens after it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End the process at once."""
        self._process.kill()


def _run_party(
    arguments: list[str], output: Connection, folder: Path, environment: dict[str, str]
) -> None:
    """Run ``vfl-party`` in this process, with its standard output in the pipe ``output``."""
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    os.dup2(output.fileno(), 1)
    output.close()
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", buffering=1, closefd=False)
    sys.argv = ["vfl-party", *arguments]
    runpy.run_module("parties", run_name="__main__", alter_sys=True)
