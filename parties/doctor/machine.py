"""Checks of the machine: versions, arithmetic, device, open files, memory."""

import json
import os
import platform
import resource
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from configs.agreement import BackboneBottom, CnnBottom, MlpBottom, ModuleBottom, ModuleTop
from configs.errors import ConfigError
from configs.language_party_settings import ModelPartySettings
from parties.common.device import prepare_device
from parties.common.libraries import library_versions
from parties.data.party_settings import VerticalPartySettings
from parties.doctor.check import (
    ExaminedParty,
    ExaminedVerticalParty,
    Finding,
    fail,
    ok,
    unknown,
    warning,
)
from parties.doctor.folders import path_exists
from parties.doctor.source import data_files
from parties.session.saved_model import MANIFEST
from parties.vertical.engine.networks import load_own_module

LIBRARIES = ("vfl", "torch", "grpcio", "protobuf")
_FILES = 256  # open files that a run needs: certificates, libraries, connections
PROCESS_MEMORY = 600 << 20  # bytes without data: interpreter, torch, gRPC, audits
_PER_BYTE = 20  # bytes of memory per byte of a CSV file while it is read; 16 were measured
# Numbers of parameters:
_BACKBONES = {"resnet18": 11_200_000, "resnet50": 23_600_000, "densenet121": 7_000_000}
MODEL_COPIES = 8  # weights, gradient, two moments of the optimiser, stored copies
_LIMIT = Path("/sys/fs/cgroup/memory.max")


def check_versions(party: ExaminedParty) -> Iterator[Finding]:
    """Report the versions of Python and libraries; warn if torch changed since the last run."""
    found = {"python": platform.python_version()} | library_versions(LIBRARIES)
    yield ok("versions", ", ".join(f"{name} {number}" for name, number in found.items()))
    last = _last_run(party)
    then, now = last.get("torch"), torch.__version__
    if then not in (None, now):
        yield warning(
            "versions",
            f"the last run here used torch {then}, this one will use {now}",
            "results may differ in their last digits",
        )


def _last_run(party: ExaminedParty) -> dict[str, Any]:
    try:
        found = json.loads((party.state / MANIFEST).read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def check_numbers(party: ExaminedParty) -> Iterator[Finding]:
    """Check settings that change results: number type, threads, device, CPU."""
    threads, cores = party.settings.threads, len(os.sched_getaffinity(0))
    yield ok(
        "numbers",
        f"{_dtype(party)}, deterministic algorithms, {threads} of {cores} "
        f"cores, CPU {torch.backends.cpu.get_cpu_capability()}",
    )
    yield _device(party)
    if threads > cores:
        yield warning(
            "threads",
            f"{threads} threads on {cores} cores",
            f"set threads = {cores} in the party settings",
        )
    if _last_run(party).get("threads", threads) != threads:
        yield warning(
            "threads",
            "the last run here had another number of threads",
            "results may differ in their last digits",
        )


def _dtype(party: ExaminedParty) -> str:
    return party.config.agreement.dtype if isinstance(party, ExaminedVerticalParty) else "float32"


def _device(party: ExaminedParty) -> Finding:
    """Check that the device of the party settings exists."""
    settings = party.settings
    name = (
        settings.device
        if isinstance(settings, VerticalPartySettings | ModelPartySettings)
        else "cpu"
    )
    try:
        prepare_device(name)
    except ConfigError as error:
        return fail("device", error)
    return ok("device", "main memory" if name == "cpu" else f"{name}, deterministic")


def check_module(party: ExaminedVerticalParty) -> Iterator[Finding]:
    """Check that a party's own modules exist and have the digests stated in the agreement."""
    agreement, settings = party.config.agreement, party.settings
    bottom, top = agreement.parties[party.name].bottom, agreement.top
    if isinstance(bottom, ModuleBottom):
        yield _module("module", settings.module, bottom.source)
    if party.active and isinstance(top, ModuleTop):
        yield _module("top module", settings.top_module, top.source)


def _module(title: str, path: str | None, source: str) -> Finding:
    try:
        load_own_module(path, source)
    except ConfigError as error:
        return fail(title, error)
    return ok(title, f"{path} has the digest of the agreement")


def check_open_files() -> Iterator[Finding]:
    """Check how many files a process of this account may open (the soft limit)."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < _FILES:
        yield warning(
            "open files",
            f"at most {soft}",
            f"raise the limit: ulimit -n {_FILES}, or LimitNOFILE={_FILES}",
        )
    else:
        yield ok("open files", f"at most {soft}")


def check_memory(party: ExaminedVerticalParty) -> Iterator[Finding]:
    """Compare the estimated memory of a run with the memory of this machine or container."""
    yield memory_finding(estimate_memory(party))


def memory_finding(needed: int) -> Finding:
    """Check whether this machine has ``needed`` bytes of memory; return the result."""
    message = f"about {needed / 1e9:.1f} GB at most"
    given = _memory()
    if given is None:
        return unknown("memory", message, "the memory of this machine cannot be read")
    if needed > 0.8 * given:
        return warning(
            "memory",
            f"{message}, of {given / 1e9:.1f} GB",
            "use more memory, or fewer rows and columns; the need is an estimate",
        )
    return ok("memory", f"{message}, of {given / 1e9:.1f} GB")


def estimate_memory(party: ExaminedVerticalParty) -> int:
    """Return an estimate of the bytes of memory for process, data and copies of the model."""
    sizes = [path.stat().st_size for path in data_files(party) if path_exists(path)]
    return PROCESS_MEMORY + _PER_BYTE * sum(sizes) + MODEL_COPIES * _weights(party)


def _weights(party: ExaminedVerticalParty) -> int:
    """Return the bytes of one copy of this party's layers; assume 1,000 inputs."""
    agreement = party.config.agreement
    plan = agreement.parties[party.name]
    layers: list[int] = []
    match plan.bottom:
        case MlpBottom(hidden=hidden):
            layers = [1000, *hidden, plan.width or 0]
        case CnnBottom(channels=channels):
            layers = [9 * size for size in (1, *channels, plan.width or 0)]
    count = sum(a * b for a, b in pairwise(layers)) if plan.width else 0
    if isinstance(plan.bottom, BackboneBottom):
        count += _BACKBONES[plan.bottom.kind]
    if party.active and agreement.top.kind == "mlp":
        inputs = sum(each.width or 0 for each in agreement.parties.values())
        outputs = agreement.labels.outputs
        count += sum(a * b for a, b in pairwise([inputs, *agreement.top.hidden, outputs]))
    return count * (8 if agreement.dtype == "float64" else 4)


def _memory() -> int | None:
    """Return the bytes of memory of this machine, or of its container if that is less."""
    try:
        given = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        limit = _LIMIT.read_text().strip() if _LIMIT.exists() else "max"
    except (OSError, ValueError):
        return None
    return min(given, int(limit)) if limit.isdecimal() else given
