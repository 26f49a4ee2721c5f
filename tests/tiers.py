"""The two tiers of the tests, and the pieces for want of which a test may be skipped.

``make test`` leaves out what has the marker ``slow``, unless it is a ``smoke`` run of a mode. A
test that starts a process must have one of the two markers, and is refused without it.
"""

import re
import sys
from collections.abc import Iterator
from multiprocessing.process import BaseProcess
from typing import Any

import pytest

# Events of ``sys.addaudithook`` that start a process.
STARTS = ("subprocess.Popen", "os.fork", "os.posix_spawn", "os.exec")
# Programs that say something about the machine or the commit.
ABOUT_THE_MACHINE = ("git", "timedatectl", "uname", "lscpu", "ldconfig", "gcc", "cc", "ld", "file")
# Pieces that may be absent on a machine that checks everything; each with its reason.
MAY_BE_ABSENT = {
    r"no GPU|has a GPU": "a machine for tests has a GPU or has none",
    r"NOT RUN, no .*; set VFL_DATA": "data sets are not part of the repository",
    r"network namespace|iproute2|may not": "a container may not be allowed to make networks",
    r"no account to run the server|no PostgreSQL server": "a database server is no Python package",
    r"no systemd-analyze": "a container has no service manager",
    r"no IPv6|no Linux": "systems differ",
    r"no history of the version before": "a shallow clone or a source archive has no history",
    r"no Chromium": "a browser is no Python package; .ci/run installs it where it may",
    r"no strace": "a program of the system, which a container may not be allowed to use",
}


class Tiers:
    """Refuses processes in tests of the fast tier; with ``--complete``, refuses skipped tests."""

    def __init__(self, *, complete: bool) -> None:
        self._complete = complete
        self._running: pytest.Item | None = None
        self.wanting: list[str] = []
        sys.addaudithook(self._audit)
        start = BaseProcess.start

        def checked(process: BaseProcess) -> None:
            self._refuse("multiprocessing")
            start(process)

        BaseProcess.start = checked  # type: ignore[method-assign]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Remember the test that runs."""
        self._running = item
        try:
            return (yield)
        finally:
            self._running = None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a test that was skipped for want of a piece that must be there."""
        if report.skipped and isinstance(report.longrepr, tuple):
            reason = report.longrepr[2]
            if not any(re.search(each, reason) for each in MAY_BE_ABSENT):
                self.wanting.append(f"{report.nodeid}: {reason}")

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Name the tests that were skipped but must run."""
        if self._complete and self.wanting:
            terminalreporter.section("tests that must not be skipped")
            for each in self.wanting:
                terminalreporter.line(each)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail if a test was skipped that must run."""
        if self._complete and self.wanting and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _audit(self, event: str, given: tuple[Any, ...]) -> None:
        if self._running is not None and event in STARTS:
            program = str(given[0] if given else "").rpartition("/")[2]
            if program not in ABOUT_THE_MACHINE:
                self._refuse(program)

    def _refuse(self, program: str) -> None:
        item = self._running
        if item is not None and not item.get_closest_marker("slow"):
            raise AssertionError(
                f"{item.nodeid} starts a process ({program}): give it the marker slow, or show the "
                "same thing in this process"
            )
