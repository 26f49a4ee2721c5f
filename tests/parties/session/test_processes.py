"""Three real processes with mutual TLS over loopback train and unlearn."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep

import pytest

ROOT = Path(__file__).parents[3]
DIGITS = ROOT / "configs" / "vertical" / "digits.toml"
PARTIES = ("office", "left", "right")
SHORT = [
    "training.epochs=2",
    "unlearning.retrains=2",
    "unlearning.fedora.iterations=2",
    'unlearning.compare=["fine-tune", "relabel"]',
]


def simulate(out: Path, *options: str, config: Path = DIGITS) -> subprocess.CompletedProcess[str]:
    changes = [part for change in SHORT for part in ("--set", change)]
    command = [sys.executable, "-c", "from parties.cli.main import simulate_main; simulate_main()"]
    return subprocess.run(
        [*command, str(config), "--out", str(out), *changes, *options],
        capture_output=True, text=True, cwd=ROOT, timeout=280, check=False,
    )  # fmt: skip


@pytest.mark.smoke
@pytest.mark.slow
def test_three_processes_train_unlearn_and_equal_one_process(tmp_path: Path) -> None:
    apart = simulate(tmp_path / "apart")
    assert apart.returncode == 0, apart.stderr
    assert "FedORA" in apart.stdout
    assert not {each for each in apart.stdout if not each.isprintable()} - {"\n", "\u202f"}
    phases = re.findall(r"^0:\d\d:\d\d office: ([^(\n]+)", apart.stdout, re.MULTILINE)
    assert [each.strip() for each in phases][:2] == ["reading data", "waiting for the others"]
    assert phases[-1].strip() == "ended"
    assert len(phases) == len(set(phases))
    together = simulate(tmp_path / "together", "--in-process")
    assert together.returncode == 0, together.stderr
    metrics = [
        json.loads((tmp_path / name / "digits" / "metrics.json").read_text())
        for name in ("apart", "together")
    ]
    assert metrics[0]["training"] == metrics[1]["training"]
    one, two = (each["requests"][0] for each in metrics)
    assert one["methods"][1]["steps"] == two["methods"][1]["steps"]
    for a, b in zip(one["methods"], two["methods"], strict=True):
        assert a["accuracy"] == b["accuracy"]
        assert a["divergence"] == b["divergence"]
    assert (tmp_path / "apart" / "digits" / "report.html").read_text().startswith("<!doctype html>")
    models = list((tmp_path / "apart" / "digits").glob("*/model.safetensors"))
    assert len(models) == 3


LOCAL = [
    'training.start="local"',
    'unlearning.method="retrain-local"',
    "training.local.fit_epochs=3",
    "unlearning.retrain_local.fit_epochs=3",
]


@pytest.mark.slow
def test_local_start_in_three_processes_equals_one_process(tmp_path: Path) -> None:
    changes = [part for change in LOCAL for part in ("--set", change)]
    for name, options in (("apart", ()), ("together", ("--in-process",))):
        result = simulate(tmp_path / name, *changes, *options)
        assert result.returncode == 0, result.stderr
    one, two = (
        json.loads((tmp_path / name / "digits" / "metrics.json").read_text())
        for name in ("apart", "together")
    )
    assert one["training"] == two["training"]
    pairs = zip(one["requests"][0]["methods"], two["requests"][0]["methods"], strict=True)
    found = {a["name"]: (a, b) for a, b in pairs}
    for a, b in found.values():
        assert a["accuracy"] == b["accuracy"]
        assert a["divergence"] == b["divergence"]
    assert found["retrain-local"][0]["guarantee"] == "exact"


@pytest.mark.slow
def test_failed_party_ends_the_simulation_with_its_exit_code(tmp_path: Path) -> None:
    failed = simulate(tmp_path, "--set", "psi.minimum=5000")
    assert failed.returncode == 8
    assert re.search(r"fewer common\s+rows than psi.minimum = 5000", failed.stderr)
    assert "Traceback" not in failed.stderr


IMPATIENT = [  # limits that hold between machines, shorter than the pause of a party below
    "limits.join_seconds=2",
    "limits.step_seconds=1",
    "limits.idle_seconds=2",
    "limits.rejoin_seconds=1",
]


@contextmanager
def running_simulation(out: Path) -> Iterator[subprocess.Popen[str]]:
    """Start a simulation with short limits; kill it at the end of the ``with`` block."""
    changes = [part for change in (*SHORT, *IMPATIENT) for part in ("--set", change)]
    call = "from parties.cli.main import simulate_main; simulate_main()"
    command = [sys.executable, "-c", call, str(DIGITS), "--out", str(out), *changes]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, cwd=ROOT, text=True, **pipes) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_for_line(process: subprocess.Popen[str], phase: str) -> None:
    """Read the output of the simulation up to the start of a phase."""
    for line in process.stdout or ():
        if f" office: {phase}" in line:
            return
    raise AssertionError(process.stderr.read() if process.stderr else "")


def children(process: subprocess.Popen[str]) -> dict[str, int]:
    """Return the process IDs of a simulation's parties, by name: children of its fork server."""
    names, parents = dict[int, str](), dict[int, int]()
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            number, rest = path.read_text().split(" (", 1)
        except (FileNotFoundError, ProcessLookupError):
            continue
        name, _, fields = rest.rpartition(") ")
        names[int(number)], parents[int(number)] = name, int(fields.split()[1])
    return {
        name: number
        for number, name in names.items()
        if name in PARTIES and parents.get(parents[number]) == process.pid
    }


@pytest.mark.slow
def test_simulation_waits_for_a_process_that_lives(tmp_path: Path) -> None:
    """No limit of the agreement ends a simulation whose processes live, however slow they are."""
    with running_simulation(tmp_path) as simulation:
        wait_for_line(simulation, "waiting for the others")
        left = children(simulation)["left"]
        for phase in (None, "training"):
            if phase is not None:
                wait_for_line(simulation, phase)
            os.kill(left, signal.SIGSTOP)
            sleep(4)
            os.kill(left, signal.SIGCONT)
        output, errors = simulation.communicate(timeout=200)
        assert simulation.returncode == 0, errors
    assert "FedORA" in output
    assert (tmp_path / "digits" / "report.html").exists()


@pytest.mark.slow
def test_simulation_ends_when_a_process_ends(tmp_path: Path) -> None:
    with running_simulation(tmp_path) as simulation:
        wait_for_line(simulation, "training")
        os.kill(children(simulation)["left"], signal.SIGTERM)
        _, errors = simulation.communicate(timeout=60)
        assert simulation.returncode == 1
    assert "a party was stopped by SIGTERM" in errors
    assert "run the same command to resume" in errors


@pytest.mark.slow
def test_parties_end_with_the_process_that_started_them(tmp_path: Path) -> None:
    """A party that waits without limits must not outlive its simulation."""
    with running_simulation(tmp_path) as simulation:
        wait_for_line(simulation, "training")
        parties = [Path(f"/proc/{each}") for each in children(simulation).values()]
        assert len(parties) == 3
        simulation.kill()
        deadline = monotonic() + 60
        while any(each.exists() for each in parties) and monotonic() < deadline:
            sleep(0.2)
        assert not [each for each in parties if each.exists()]
