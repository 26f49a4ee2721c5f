"""Shared fixtures: certificates, ports, and connected lines over memory and gRPC."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pytest
from cryptography.x509 import Certificate
from hypothesis import HealthCheck, settings
from party_folder import HUB, SPOKE, PartyFolder, make_party_folder

from parties.session.simulation import reserved_port
from protocol.errors import IdentityError
from protocol.grpc_line import DEFAULT_TIMEOUTS, GrpcLine, LineServer, dial_hub
from protocol.keyring import Keyring, issue_certificate, make_authority, make_trust, read_keyring
from protocol.line import Line, memory_lines
from protocol.receive_queue import LineTimeouts
from tests import data_folder
from tests.tiers import Tiers

FEDERATION = "trial"
PARTIES = (HUB, SPOKE, "hospital", "stranger")

data_folder.hide()
settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option of a machine on which every test must run."""
    parser.addoption(
        "--complete",
        action="store_true",
        help="fail if a test is skipped for want of a piece that is not listed in tests/tiers.py",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the rules of the tiers."""
    config.pluginmanager.register(Tiers(complete=config.getoption("--complete")), "tiers")


class Lines(NamedTuple):
    """The two ends of one line."""

    hub: Line
    spoke: Line


@pytest.fixture(scope="session")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an authority and the keys of all parties; no test changes it."""
    folder = tmp_path_factory.mktemp("keys") / "trial"
    make_authority(folder, FEDERATION)
    for name in PARTIES:
        issue_certificate(folder, FEDERATION, name)
    return folder


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """A free port of the loopback for the processes of a test module."""
    with reserved_port() as number:
        yield number


@pytest.fixture
def party_folder(tmp_path: Path, keys: Path) -> PartyFolder:
    """A party's folder for ``vfl doctor``."""
    return make_party_folder(tmp_path, keys)


@contextmanager
def listening(
    keyring: Keyring, address: str = "127.0.0.1:0", timeouts: LineTimeouts = DEFAULT_TIMEOUTS
) -> Iterator[tuple[LineServer, str]]:
    """A hub that admits the shop and the hospital, and its address."""
    trusted = make_trust(keyring, FEDERATION, {})

    def admit(leaf: Certificate) -> str:
        name = trusted.check(leaf, datetime.now(UTC))
        if name not in (SPOKE, "hospital"):
            raise IdentityError(f"{name} is not a passive party of this agreement")
        return name

    with LineServer(address, keyring, admit, 2, timeouts) as server:
        host = address.rpartition(":")[0]
        yield server, address if host == "unix" else f"{host}:{server.port}"


@contextmanager
def grpc_lines(
    keys: Path, address: str, timeouts: LineTimeouts = DEFAULT_TIMEOUTS
) -> Iterator[Lines]:
    """A line over gRPC with mutual TLS."""
    with listening(read_keyring(keys, HUB), address, timeouts) as (server, _):
        spoke = dial_hub(address, read_keyring(keys, SPOKE), HUB, timeouts)
        try:
            yield Lines(server.accept(10), spoke)
        finally:
            spoke.cut()


Dial = Callable[..., GrpcLine]


@pytest.fixture
def dialled(keys: Path) -> Iterator[Dial]:
    """Return a function that dials as any party; the lines are cut at the end."""
    lines: list[GrpcLine] = []

    def go(
        address: str, name: str, folder: Path = keys, timeouts: LineTimeouts = DEFAULT_TIMEOUTS
    ) -> GrpcLine:
        lines.append(dial_hub(address, read_keyring(folder, name), HUB, timeouts))
        return lines[-1]

    yield go
    for line in lines:
        line.cut()


@pytest.fixture(params=["memory", "grpc"])
def lines(request: pytest.FixtureRequest, keys: Path, tmp_path: Path) -> Iterator[Lines]:
    """A connected line, over memory and over gRPC."""
    if request.param == "memory":
        yield Lines(*memory_lines(SPOKE))
        return
    with grpc_lines(keys, f"unix:{tmp_path}/hub") as connected:
        yield connected
