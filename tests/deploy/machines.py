"""Two simulated machines: two network namespaces with a virtual cable, and a folder each."""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
NAMES = {"bank": "10.77.0.1", "shop": "10.77.0.2"}
PROGRAMS = {"vfl": "main", "vfl-party": "party_main"}


@dataclass(frozen=True)
class Machine:
    """One organisation's machine."""

    name: str
    space: str  # its network namespace
    home: Path
    programs: Path

    def command(self, commands: str) -> list[str]:
        """Return the command that runs ``commands`` of the guide in this machine's network."""
        path = f"PATH={self.programs}:{os.environ['PATH']}"
        shell = ["env", "-C", str(self.home), path, "bash", "-euc", commands]
        return ["ip", "netns", "exec", self.space, *shell]

    def type(self, commands: str, patience: float = 100) -> str:
        """Run the commands and return their output; fail the test if one fails."""
        done = subprocess.run(
            self.command(commands), capture_output=True, text=True, timeout=patience, check=False
        )
        assert done.returncode == 0, f"{self.name}: {commands}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def listening(self) -> set[int]:
        """Return the TCP ports on which the machine listens."""
        shown = subprocess.run(
            ["ip", "netns", "exec", self.space, "ss", "-ltnH"],
            capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        return {int(line.split()[3].rpartition(":")[2]) for line in shown.splitlines()}


def missing_requirement() -> str:
    """Return the reason why namespaces cannot be made here; empty if they can."""
    if os.geteuid():
        return "two network namespaces need root"
    for tool in ("ip", "ss"):
        if shutil.which(tool) is None:
            return f"no {tool} here: apt-get install iproute2"
    probe = f"vfl-probe-{os.getpid()}"
    made = subprocess.run(
        ["ip", "netns", "add", probe], capture_output=True, text=True, check=False
    )
    if made.returncode:
        return f"this kernel or container allows no network namespaces: {made.stderr.strip()}"
    subprocess.run(["ip", "netns", "del", probe], check=True)
    return ""


@contextmanager
def two_machines(folder: Path) -> Iterator[dict[str, Machine]]:
    """Make the machines of bank and shop, which can reach each other only."""
    programs = _programs(folder / "bin")
    machines = {
        name: Machine(name, f"vfl-{name}-{os.getpid()}", folder / name / "people", programs)
        for name in NAMES
    }
    try:
        for machine in machines.values():
            machine.home.mkdir(parents=True)
            _ip("netns", "add", machine.space)
            _name_the_bank(machine)
        _cable(*machines.values())
        yield machines
    finally:
        for machine in machines.values():
            subprocess.run(["ip", "netns", "del", machine.space], check=False, capture_output=True)
            shutil.rmtree(f"/etc/netns/{machine.space}", ignore_errors=True)


def _programs(folder: Path) -> Path:
    """Write the programs ``vfl`` and ``vfl-party``, which run this working tree."""
    folder.mkdir()
    for name, entry in PROGRAMS.items():
        call = f"import sys; sys.argv[0] = '{name}'; "
        call += f"from parties.cli.main import {entry} as run; run()"
        lines = ["#!/bin/sh", f"export PYTHONPATH={shlex.quote(str(ROOT))}"]
        lines.append(f'exec {shlex.quote(sys.executable)} -c {shlex.quote(call)} "$@"')
        (folder / name).write_text("\n".join(lines) + "\n")
        (folder / name).chmod(0o755)
    return folder


def _name_the_bank(machine: Machine) -> None:
    """Write the file that ``ip netns exec`` shows as /etc/hosts."""
    hosts = Path("/etc/netns") / machine.space / "hosts"
    hosts.parent.mkdir(parents=True)
    hosts.write_text(f"127.0.0.1 localhost\n{NAMES['bank']} bank.example\n")


def _cable(bank: Machine, shop: Machine) -> None:
    ends = {machine: f"vfl{number}-{os.getpid()}" for number, machine in enumerate((bank, shop))}
    _ip("link", "add", ends[bank], "type", "veth", "peer", "name", ends[shop])
    for machine, end in ends.items():
        _ip("link", "set", end, "netns", machine.space)
        _ip("-n", machine.space, "addr", "add", f"{NAMES[machine.name]}/24", "dev", end)
        _ip("-n", machine.space, "link", "set", end, "up")
        _ip("-n", machine.space, "link", "set", "lo", "up")


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)
