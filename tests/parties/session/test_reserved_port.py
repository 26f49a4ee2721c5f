"""A reserved port: no other process can bind it, and one hub at a time can listen on it."""

import socket
from pathlib import Path

import pytest

from protocol.errors import ProtocolError
from protocol.grpc_line import LineServer
from protocol.keyring import read_keyring
from tests.conftest import HUB, listening


def test_other_processes_cannot_bind_a_reserved_port(port: int) -> None:
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", port))


def test_one_hub_at_a_time_listens_on_a_reserved_port(port: int, keys: Path) -> None:
    address = f"127.0.0.1:{port}"
    for _ in range(2):
        with listening(read_keyring(keys, HUB), address) as (server, _):
            assert server.port == port
            with pytest.raises(ProtocolError, match=f"cannot listen on {address}"):
                LineServer(address, read_keyring(keys, HUB), lambda _: HUB, 1)
            with socket.create_connection(("127.0.0.1", port), 5) as caller:
                assert caller.getpeername()[1] == port
