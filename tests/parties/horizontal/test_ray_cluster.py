"""A simulation on a Ray cluster of several nodes on this machine, which share no relative paths."""

import gzip
import importlib.util
import json
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from socket import socket
from tempfile import mkdtemp
from time import monotonic, sleep
from typing import Any

import pytest
from five_clients import CONFIG
from sklearn.datasets import load_digits

ROOT = Path(__file__).parents[3]
PACKAGES = ("configs", "models", "parties", "protocol", "psi", "unlearning", "vfl", "__editable__")
STARTED, SECONDS = "Ray runtime started", 100.0
IDX = '{ kind = "idx", images = "images.gz", labels = "labels.gz" }'
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("ray") is None, reason="ray is not installed: pip install '.[ray]'"
    ),
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux has 127.0.0.2"),
]


@dataclass(frozen=True)
class Cluster:
    """A running cluster: a head without cores, and one node with a core.

    The folder is short, because it contains Unix sockets, whose paths must be short.
    """

    folder: Path
    address: str

    @property
    def environment(self) -> dict[str, str]:
        return environment(self.folder)

    @contextmanager
    def node(self, ip: str, python: str = sys.executable, path: Path = ROOT) -> Iterator[None]:
        """A node with one core, whose current folder is empty."""
        options = ["--address", self.address, "--node-ip-address", ip]
        options += ["--num-cpus", "1", "--num-gpus", "1"]  # the node takes the number as given
        with started(self.folder, ip, options, python, path):
            yield


def environment(folder: Path, path: Path = ROOT) -> dict[str, str]:
    """The environment of all processes of the cluster, with a token of the cluster's own."""
    return os.environ | {
        "PYTHONPATH": str(path),
        "OMP_NUM_THREADS": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(folder / "token"),
    }


@contextmanager
def started(
    folder: Path, name: str, options: list[str], python: str = sys.executable, path: Path = ROOT
) -> Iterator[None]:
    """Run ``ray start`` in a new folder; end all its processes afterwards, also after an error."""
    (folder / name).mkdir()
    command = [python, "-m", "ray.scripts.scripts", "start", "--block", "--disable-usage-stats"]
    command += ["--object-store-memory", "100000000", *options]
    log = folder / f"{name}.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, cwd=folder / name,
            env=environment(folder, path),
        )  # fmt: skip
    try:
        deadline = monotonic() + SECONDS
        while STARTED not in log.read_text():
            assert process.poll() is None, log.read_text()
            assert monotonic() < deadline, log.read_text()
            sleep(0.1)
        yield
    finally:
        process.terminate()  # a node ends all its processes when it receives SIGTERM
        try:
            process.wait(SECONDS)
        finally:
            process.kill()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    folder = Path(mkdtemp(prefix="ray-"))
    (folder / "token").write_text(secrets.token_hex(32))
    with socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    head = ["--head", "--port", str(port), "--num-cpus", "0", "--num-gpus", "0"]
    head += ["--include-dashboard", "false", "--temp-dir", f"{folder}/t"]
    try:
        with ExitStack() as stack:
            stack.enter_context(started(folder, "head", head))
            log = (folder / "head.log").read_text()
            running = Cluster(folder, log.partition("--address='")[2].partition("'")[0])
            stack.enter_context(running.node("127.0.0.2"))
            yield running
    finally:
        rmtree(folder, ignore_errors=True)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a config and a data folder, which a run names by relative paths."""
    digits = load_digits()
    (tmp_path / "data").mkdir()
    for name, shape, values in (
        ("images", (8, 8), digits.images * 15),
        ("labels", (), digits.target),
    ):
        sizes = (len(values), *shape)
        head = bytes((0, 0, 8, len(sizes))) + b"".join(each.to_bytes(4, "big") for each in sizes)
        content = head + values.astype("uint8").tobytes()
        (tmp_path / f"data/{name}.gz").write_bytes(gzip.compress(content))
    text = CONFIG.replace('{ kind = "sklearn", name = "digits", label = true }', IDX)
    (tmp_path / "wards.toml").write_text(text.replace("unlearn =", "#"))
    return tmp_path


@contextmanager
def simulated(
    place: Path, simulation: str, out: str, environment: dict[str, str]
) -> Iterator["subprocess.Popen[str]"]:
    """A running simulation, which is killed at the end if it still runs."""
    command = [sys.executable, "-m", "parties.cli", "simulate", "wards.toml", "--data", "data"]
    command += ["--out", out, "--set", f"simulation={simulation}", "--format", "json"]
    with subprocess.Popen(
        command, cwd=place, env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            process.kill()


def results(place: Path, out: str) -> tuple[Any, bytes]:
    """The figures and the model of a run."""
    metrics = json.loads((place / out / "wards/metrics.json").read_text())
    return metrics["training"]["steps"], (
        place / out / "wards/server/model.safetensors"
    ).read_bytes()


def packages_without_vfl(folder: Path) -> Path:
    """A folder with links to all installed packages but those of this program."""
    spec = importlib.util.find_spec("ray")
    assert spec is not None
    assert spec.origin is not None
    folder.mkdir()
    for each in Path(spec.origin).parents[1].iterdir():
        if not each.name.startswith(PACKAGES):
            (folder / each.name).symlink_to(each)
    return folder


def test_node_without_the_files_computes_the_same_bits(cluster: Cluster, place: Path) -> None:
    """The only node with a core has another current folder, so it can read no relative path."""
    settings = f'{{ backend = "ray", address = "{cluster.address}", num_gpus = 0.5 }}'
    with (
        simulated(place, settings, "ray", cluster.environment) as ray,
        simulated(place, "{ workers = 1 }", "here", cluster.environment) as here,
    ):
        for run in (ray, here):
            output, _ = run.communicate(timeout=SECONDS)
            assert run.returncode == 0, output
    assert results(place, "ray") == results(place, "here")


def test_node_without_the_program_is_named(cluster: Cluster, place: Path, tmp_path: Path) -> None:
    python = str(Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}")
    packages = packages_without_vfl(tmp_path / "packages")
    settings = f'{{ backend = "ray", address = "{cluster.address}" }}'
    with (
        cluster.node("127.0.0.3", python, packages),
        simulated(place, settings, "runs", cluster.environment) as run,
    ):
        output, _ = run.communicate(timeout=SECONDS)
    assert run.returncode == 3, output
    (error,) = [each for each in map(json.loads, output.splitlines()) if each["event"] == "error"]
    assert "the Ray node 127.0.0.3 has no package vfl, but this machine has vfl" in error["message"]
    assert "install the same version of vfl on this node" in error["hint"]
