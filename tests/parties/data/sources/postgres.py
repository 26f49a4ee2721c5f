"""A private PostgreSQL server for the tests, from the system packages."""

import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

PLACES = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
HOW = "NOT RUN, {why}: install it with apt-get install postgresql, and pip install 'vfl[postgres]'"


def _account() -> str | None:
    """The server refuses to run as root."""
    if os.geteuid():
        return None
    try:
        return pwd.getpwnam("postgres").pw_name
    except KeyError:
        pytest.skip(HOW.format(why="no account to run the server"))


@contextmanager
def server() -> Iterator[str]:
    """The URL of a fresh database, on a Unix socket; the password is ``SECRET``."""
    pytest.importorskip("psycopg", reason=HOW.format(why="no psycopg"))
    if not PLACES:
        pytest.skip(HOW.format(why="no PostgreSQL server"))
    account, folder = _account(), Path(mkdtemp(prefix="pg"))
    control = [str(PLACES[-1] / "pg_ctl"), "-D", str(folder / "data"), "-w", "-s"]

    def run(*command: str) -> None:
        given: dict[str, Any] = {"user": account, "cwd": folder, "timeout": 60}
        done = subprocess.run(command, check=False, capture_output=True, **given)
        assert done.returncode == 0, done.stdout + done.stderr

    try:
        (folder / "password").write_text("SECRET")
        if account:
            for path in (folder, folder / "password"):
                shutil.chown(path, account)
        options = ("-A", "scram-sha-256", "-U", "reader", "--pwfile", str(folder / "password"))
        run(str(PLACES[-1] / "initdb"), "-D", str(folder / "data"), "-N", *options)
        log = ("-l", str(folder / "log"), "-o", f"-k {folder} -c listen_addresses= -c fsync=off")
        run(*control, *log, "start")
        try:
            yield f"postgresql://reader:SECRET@/postgres?host={folder}"
        finally:
            run(*control, "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder)
