"""Nodes of a Ray cluster: the check of their programs, their cores and their GPUs."""

from collections.abc import Callable
from hashlib import sha256
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from configs.errors import ConfigError

PACKAGES = ("configs", "models", "parties", "protocol", "psi", "unlearning")
MAX_SECONDS = 120.0  # time limit for the answer of one node


def check_nodes() -> None:
    """Check that every node that can run clients has the version and the code of this machine.

    Raises:
        ConfigError: a node has no package vfl, or has another version or other code.
    """
    expected = _program_reader()()
    probe = ray.remote(num_cpus=0)(_program_reader())
    known: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
    nodes = [each for each in known if each["Alive"] and each["Resources"].get("CPU", 0)]
    answers = [probe.options(scheduling_strategy=_only_on(each)).remote() for each in nodes]
    for node, answer in zip(nodes, answers, strict=True):
        found = _answer_of(node, answer)
        if found != expected:
            raise ConfigError(
                f"simulation.backend: the Ray node {node['NodeManagerAddress']} has {found}, but "
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


def job_slots(gpus: float | None) -> int:
    """Return how many clients, with a core and ``gpus`` GPUs each, the cluster trains at once."""
    resources = _cluster_resources()
    cores = resources.get("CPU", 0.0)
    return max(1, int(min(cores, resources.get("GPU", 0.0) / gpus if gpus else cores)))


def _cluster_resources() -> dict[str, float]:
    """The resources of all nodes by name, among them ``CPU`` and ``GPU``."""
    resources: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
    return resources


def _only_on(node: dict[str, Any]) -> NodeAffinitySchedulingStrategy:
    return NodeAffinitySchedulingStrategy(node_id=node["NodeID"], soft=False)


def _answer_of(node: dict[str, Any], answer: "ray.ObjectRef[str]") -> str:
    try:
        return str(ray.get(answer, timeout=MAX_SECONDS))
    except RayError as error:
        raise ConfigError(
            f"simulation.backend: the Ray node {node['NodeManagerAddress']} runs no task: {error}",
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
