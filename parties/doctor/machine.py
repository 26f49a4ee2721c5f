"""The machine and its numbers: versions, arithmetic, memory, open files."""

import json
import os
import platform
import resource
from collections.abc import Iterator
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from configs.agreement import BackboneBottom, CnnBottom, MlpBottom, ModuleBottom
from configs.errors import ConfigError
from configs.language_seat import ModelSeat
from configs.seat import Seat
from parties.common.device import ready
from parties.doctor.check import Examined, Finding, Looked, fail, ok, unknown, warning
from parties.doctor.folders import is_there
from parties.doctor.source import data_files
from parties.vertical.engine.bottom import own_class
from parties.vertical.saved_model import MANIFEST

LIBRARIES = ("vfl", "torch", "grpcio", "protobuf")
_FILES = 256  # open ones: certificates, libraries, lines
BARE = 600 << 20  # bytes of a party that has no data: interpreter, torch, gRPC, audits
_PER_BYTE = 20  # of a text table: cells while it is read; 16 were measured
_BACKBONES = {"resnet18": 11_200_000, "resnet50": 23_600_000, "densenet121": 7_000_000}
COPIES = 8  # of a model: weights, gradient, two moments, kept copies
_LIMIT = Path("/sys/fs/cgroup/memory.max")


def check_versions(examined: Looked) -> Iterator[Finding]:
    """What is installed; peers of another version warn each other when they greet."""
    found = {"python": platform.python_version()} | {name: version(name) for name in LIBRARIES}
    yield ok("versions", ", ".join(f"{name} {number}" for name, number in found.items()))
    last = _last_run(examined)
    then, now = last.get("torch"), torch.__version__
    if then not in (None, now):
        yield warning(
            "versions",
            f"the last run here used torch {then}, now it is {now}",
            "figures may differ in their last digits",
        )


def _last_run(examined: Looked) -> dict[str, Any]:
    try:
        found = json.loads((examined.state / MANIFEST).read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def check_numbers(examined: Looked) -> Iterator[Finding]:
    """What makes two runs of this party equal: type, threads, deterministic algorithms, CPU."""
    threads, cores = examined.seat.threads, len(os.sched_getaffinity(0))
    yield ok(
        "numbers",
        f"{_dtype(examined)}, deterministic algorithms, {threads} of {cores} "
        f"cores, CPU {torch.backends.cpu.get_cpu_capability()}",
    )
    yield _device(examined)
    if threads > cores:
        yield warning(
            "threads", f"{threads} threads on {cores} cores", f"threads = {cores} in the seat"
        )
    if _last_run(examined).get("threads", threads) != threads:
        yield warning(
            "threads",
            "the last run here had another number of threads",
            "figures may differ in their last digits",
        )


def _dtype(examined: Looked) -> str:
    return examined.config.agreement.dtype if isinstance(examined, Examined) else "float32"


def _device(examined: Looked) -> Finding:
    """Whether the model can be computed where the seat says."""
    seat = examined.seat
    name = seat.device if isinstance(seat, Seat | ModelSeat) else "cpu"
    try:
        ready(name)
    except ConfigError as error:
        return fail("device", error)
    return ok("device", "main memory" if name == "cpu" else f"{name}, deterministic")


def check_module(examined: Examined) -> Iterator[Finding]:
    """A party's own module is there and is the one that was agreed on."""
    plan = examined.config.agreement.parties[examined.name].bottom
    if not isinstance(plan, ModuleBottom):
        return
    try:
        own_class(examined.seat.module, plan.source)
    except ConfigError as error:
        yield fail("module", error)
    else:
        yield ok("module", f"{examined.seat.module} is the one that was agreed on")


def check_open_files() -> Iterator[Finding]:
    """The soft limit of this account."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < _FILES:
        yield warning("open files", f"at most {soft}", f"ulimit -n {_FILES}, or LimitNOFILE=")
    else:
        yield ok("open files", f"at most {soft}")


def check_memory(examined: Examined) -> Iterator[Finding]:
    """An estimate of the most that a run takes, and what this machine or its container gives."""
    yield memory(needs(examined))


def memory(needed: int) -> Finding:
    """Whether this machine has so many bytes."""
    said = f"about {needed / 1e9:.1f} GB at most"
    given = _memory()
    if given is None:
        return unknown("memory", said, "this machine does not tell how much it has")
    if needed > 0.8 * given:
        return warning(
            "memory",
            f"{said}, of {given / 1e9:.1f} GB that there are",
            "an estimate: give it more, or fewer rows and columns",
        )
    return ok("memory", f"{said}, of {given / 1e9:.1f} GB that there are")


def needs(examined: Examined) -> int:
    """Bytes: the bare process, the data while it is read, the models that are kept."""
    sizes = [path.stat().st_size for path in data_files(examined) if is_there(path)]
    return BARE + _PER_BYTE * sum(sizes) + COPIES * _weights(examined)


def _weights(examined: Examined) -> int:
    """Bytes of one copy of this party's layers; inputs that are not known yet count as 1,000."""
    agreement = examined.config.agreement
    plan = agreement.parties[examined.name]
    layers: list[int] = []
    match plan.bottom:
        case MlpBottom(hidden=hidden):
            layers = [1000, *hidden, plan.width or 0]
        case CnnBottom(channels=channels):
            layers = [9 * size for size in (1, *channels, plan.width or 0)]
    count = sum(a * b for a, b in pairwise(layers)) if plan.width else 0
    if isinstance(plan.bottom, BackboneBottom):
        count += _BACKBONES[plan.bottom.kind]
    if examined.active and agreement.top.kind == "mlp":
        inputs = sum(each.width or 0 for each in agreement.parties.values())
        outputs = len(agreement.labels.classes)
        count += sum(a * b for a, b in pairwise([inputs, *agreement.top.hidden, outputs]))
    return count * (8 if agreement.dtype == "float64" else 4)


def _memory() -> int | None:
    """Bytes of this machine, or of its container where that is less."""
    try:
        given = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        limit = _LIMIT.read_text().strip() if _LIMIT.exists() else "max"
    except (OSError, ValueError):
        return None
    return min(given, int(limit)) if limit.isdecimal() else given
