"""A Ray cluster: the connection, the check of the nodes' programs, their cores and their GPUs."""

import logging
import os
import signal
from collections.abc import Callable
from hashlib import sha256
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from threading import current_thread, main_thread
from typing import Any

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from configs.errors import ConfigError

PACKAGES = ("configs", "models", "parties", "protocol", "psi", "unlearning")
MAX_SECONDS = 120.0  # time limit for the answer of one node


def connect(address: str | None, cores: int | None, origin: str) -> None:
    """Start Ray on this machine, or connect to a cluster.

    Args:
        address: address of the cluster; None: start Ray on this machine.
        cores: number of cores that Ray uses on this machine; None: all.
        origin: the setting or option with the address, for errors.

    Raises:
        ConfigError: Ray cannot be started or reached.
    """
    # Only this variable stops Ray from sending usage statistics to its developers.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Seconds for which Ray waits for its first process, which a busy machine starts slowly.
    os.environ.setdefault("RAY_gcs_server_port_wait_time_s", "120")
    here = address is None
    before = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(
            address="local" if here else address,
            num_cpus=(cores or os.cpu_count() or 1) if here else None,
            include_dashboard=False if here else None,
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise ConfigError(
            f"{origin}: cannot use Ray at {address or 'this machine'}: {error}",
            "start Ray with: ray start --head; if Ray there uses a token, set RAY_AUTH_MODE=token "
            "and RAY_AUTH_TOKEN_PATH here, too",
        ) from error
    finally:
        if current_thread() is main_thread():  # Ray's own handler ends the process at once
            signal.signal(signal.SIGTERM, before)


def check_nodes(origin: str) -> None:
    """Check that every node that can run tasks has the version and the code of this machine.

    ``origin`` is the setting or option that chose Ray, for errors.

    Raises:
        ConfigError: a node has no package vfl, or has another version or other code.
    """
    expected = _program_reader()()
    probe = ray.remote(num_cpus=0)(_program_reader())
    known: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
    nodes = [each for each in known if each["Alive"] and each["Resources"].get("CPU", 0)]
    answers = [probe.options(scheduling_strategy=_only_on(each)).remote() for each in nodes]
    for node, answer in zip(nodes, answers, strict=True):
        found = _answer_of(node, answer, origin)
        if found != expected:
            raise ConfigError(
                f"{origin}: the Ray node {node['NodeManagerAddress']} has {found}, but "
                f"this machine has {expected}, and every node needs the same program",
                "install the same version of vfl on this node, then start Ray there again",
            )


def require_gpus(needed: float | None) -> None:
    """Check that the cluster has the GPUs that one client needs; None: a client needs none.

    Raises:
        ConfigError: the cluster has fewer GPUs.
    """
    known = _cluster_resources().get("GPU", 0.0)
    if needed is not None and known < needed:
        raise ConfigError(
            f"simulation.num_gpus is {needed:g}, but the Ray cluster has {known:g} GPUs",
            "start Ray on a machine with a GPU, or remove the key 'num_gpus'",
        )


def job_slots(gpus: float | None, cores: int = 1) -> int:
    """Return how many tasks run at once if each uses ``cores`` cores and ``gpus`` GPUs."""
    resources = _cluster_resources()
    found = resources.get("CPU", 0.0) / cores
    return max(1, int(min(found, resources.get("GPU", 0.0) / gpus if gpus else found)))


def require_cores(cores: int, origin: str) -> None:
    """Check that a node has the cores that one task needs.

    ``origin`` is the setting or option that asks for the cores, for errors.

    Raises:
        ConfigError: every node has fewer cores.
    """
    known: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
    most = max((each["Resources"].get("CPU", 0) for each in known if each["Alive"]), default=0)
    if most < cores:
        raise ConfigError(
            f"{origin}: a task uses {cores} threads, but no Ray node has more than {most:g} cores",
            f"use at most {most:g} threads, or add a larger node to the cluster",
        )


def _cluster_resources() -> dict[str, float]:
    """The resources of all nodes by name, among them ``CPU`` and ``GPU``."""
    resources: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
    return resources


def _only_on(node: dict[str, Any]) -> NodeAffinitySchedulingStrategy:
    return NodeAffinitySchedulingStrategy(node_id=node["NodeID"], soft=False)


def _answer_of(node: dict[str, Any], answer: "ray.ObjectRef[str]", origin: str) -> str:
    try:
        return str(ray.get(answer, timeout=MAX_SECONDS))
    except RayError as error:
        raise ConfigError(
            f"{origin}: the Ray node {node['NodeManagerAddress']} runs no task: {error}",
            "start Ray on this node again, or remove the node from the cluster",
        ) from error


def _program_reader() -> Callable[[], str]:
    """Return a function that describes the program of a machine: its version and its code.

    Ray sends a nested function by value, so it also runs on a node without this module.
    """

    def read_program() -> str:
        if find_spec("parties") is None:
            return "no package vfl"
        digest = sha256()
        for package in PACKAGES:
            spec = find_spec(package)
            for place in (spec.submodule_search_locations or ()) if spec else ():
                for path in sorted(Path(place).rglob("*.py")):
                    name = f"{package}/{path.relative_to(place).as_posix()}"
                    digest.update(f"{name}\0{path.stat().st_size}\0".encode())
                    digest.update(path.read_bytes())
        version = getattr(import_module("parties"), "__version__", "of an unknown version")
        return f"vfl {version} (code {digest.hexdigest()[:12]})"

    return read_program
