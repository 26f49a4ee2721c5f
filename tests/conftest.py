"""What tests share: certificates made once, and connected lines of both transports."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pytest

# pytest puts tests/ on the path, where tests/protocol would hide the package of that name.
sys.path.insert(0, str(Path(__file__).parents[1]))

from protocol.grpc_line import Server, dial
from protocol.keyring import issue, make_authority, read_keyring, trust
from protocol.line import Line, memory_lines

FEDERATION, HUB, SPOKE = "trial", "bank", "shop"
PARTIES = (HUB, SPOKE, "hospital", "stranger")


class Lines(NamedTuple):
    """The two ends of one line."""

    hub: Line
    spoke: Line


@pytest.fixture(scope="session")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an authority and the keys of every party; made once, never changed."""
    folder = tmp_path_factory.mktemp("keys") / "trial"
    make_authority(folder, FEDERATION)
    for name in PARTIES:
        issue(folder, FEDERATION, name)
    return folder


@contextmanager
def port(keys: Path, address: str, *, seats: int = 1) -> Iterator[Server]:
    """The hub's port; it admits every party of the authority."""
    ring = read_keyring(keys, HUB)
    trusted = trust(ring, FEDERATION, {})
    with Server(
        address, ring, lambda leaf: trusted.check(leaf, datetime.now(UTC)), seats
    ) as server:
        yield server


@contextmanager
def grpc_lines(keys: Path, address: str) -> Iterator[Lines]:
    """A line over gRPC with mutual TLS."""
    with port(keys, address) as server:
        spoke = dial(address, read_keyring(keys, SPOKE), HUB)
        try:
            yield Lines(server.accept(10), spoke)
        finally:
            spoke.cut()


@pytest.fixture(params=["memory", "grpc"])
def lines(request: pytest.FixtureRequest, keys: Path, tmp_path: Path) -> Iterator[Lines]:
    """A connected line, over every transport."""
    if request.param == "memory":
        yield Lines(*memory_lines(SPOKE))
        return
    with grpc_lines(keys, f"unix:{tmp_path}/hub") as connected:
        yield connected
