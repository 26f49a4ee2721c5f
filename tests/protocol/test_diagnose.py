"""Diagnosis of failed connections: every cause has its own error."""

import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from pathlib import Path
from threading import Thread

import pytest
from forge import Leaf, authority, write
from message_examples import end_of

from protocol.errors import IdentityError, LineBroken
from protocol.keyring import issue_certificate, make_authority, read_keyring
from tests.conftest import HUB, SPOKE, Dial, listening

Cause = Callable[[Path, Path], AbstractContextManager[str]]


@contextmanager
def no_process(keys: Path, folder: Path) -> Iterator[str]:
    with socket.socket() as held:  # bound, not listening
        held.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{held.getsockname()[1]}"


@contextmanager
def unknown_name(keys: Path, folder: Path) -> Iterator[str]:
    yield "no-such-host.invalid:7700"


@contextmanager
def other_authority(keys: Path, folder: Path) -> Iterator[str]:
    make_authority(folder, "trial")
    issue_certificate(folder, "trial", HUB)
    with listening(read_keyring(folder, HUB)) as (_, address):
        yield address


@contextmanager
def other_party(keys: Path, folder: Path) -> Iterator[str]:
    with listening(read_keyring(keys, "hospital")) as (_, address):
        yield address


@contextmanager
def expired_hub(keys: Path, folder: Path) -> Iterator[str]:
    old = Leaf(name=HUB, start=timedelta(days=-9), end=timedelta(days=-2))
    write(folder, keys, HUB, old.issue(authority(keys)))
    with listening(read_keyring(folder, HUB)) as (_, address):
        yield address


@contextmanager
def hub_of_others(keys: Path, folder: Path) -> Iterator[str]:
    """A hub with a valid certificate that trusts another authority."""
    make_authority(folder / "theirs", "trial")
    leaf = Leaf(name=HUB).issue(authority(keys))
    write(folder, folder / "theirs", HUB, leaf)
    with listening(read_keyring(folder, HUB)) as (_, address):
        yield address


@contextmanager
def request_pending(text: bytes) -> Iterator[str]:
    """A port without TLS that answers every connection with the same bytes."""
    with socket.create_server(("127.0.0.1", 0)) as plain:

        def answer() -> None:
            while True:
                try:
                    visitor, _ = plain.accept()
                except OSError:
                    return
                with visitor:
                    visitor.recv(1000)
                    visitor.sendall(text)

        thread = Thread(target=answer)
        thread.start()
        yield f"127.0.0.1:{plain.getsockname()[1]}"
        plain.shutdown(socket.SHUT_RDWR)
    thread.join(5)


@contextmanager
def no_tls(keys: Path, folder: Path) -> Iterator[str]:
    with request_pending(b"HTTP/1.1 400 Bad Request\r\n\r\n") as address:
        yield address


@contextmanager
def hanging_up(keys: Path, folder: Path) -> Iterator[str]:
    with request_pending(b"") as address:
        yield address


CAUSES = {
    hanging_up: (LineBroken, "closed the connection during the TLS handshake"),
    no_process: (LineBroken, "no process listens at"),
    unknown_name: (LineBroken, "the host name in no-such-host.invalid:7700 cannot be resolved"),
    other_authority: (
        IdentityError,
        "is not valid for bank: .*(issuer|signature)",
    ),
    other_party: (IdentityError, "is not valid for bank: .*Hostname mismatch"),
    expired_hub: (IdentityError, "is not valid for bank: certificate has expired"),
    hub_of_others: (
        IdentityError,
        "closed the connection after receiving this party's certificate",
    ),
    no_tls: (IdentityError, "does not use TLS"),
}


@pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: cause.__name__)
def test_every_cause_has_its_own_error(
    dialled: Dial, keys: Path, tmp_path: Path, cause: Cause
) -> None:
    kind, message = CAUSES[cause]
    with cause(keys, tmp_path / "certs") as address:
        error = end_of(dialled(address, SPOKE))
    assert type(error) is kind
    assert error.hint
    with pytest.raises(kind, match=message):
        raise error


def test_errors_differ() -> None:
    assert len({message for _, message in CAUSES.values()}) == len(CAUSES)


def test_error_of_an_expired_spoke_has_its_date(dialled: Dial, keys: Path, tmp_path: Path) -> None:
    old = Leaf(start=timedelta(days=-9), end=timedelta(days=-2)).issue(authority(keys))
    write(tmp_path / "certs", keys, SPOKE, old)
    with listening(read_keyring(keys, HUB)) as (_, address):
        error = end_of(dialled(address, SPOKE, tmp_path / "certs"))
    assert isinstance(error, IdentityError)
    assert "closed the connection after receiving this party's certificate" in str(error)
    assert (
        f"the certificate is valid until {old[0].not_valid_after_utc:%Y-%m-%d %H:%M} UTC"
        in error.hint
    )


def test_causes_are_found_on_unix_sockets_too(dialled: Dial, keys: Path, tmp_path: Path) -> None:
    """A spoke must not retry with a certificate that the hub refuses."""
    address = f"unix:{tmp_path}/hub"
    with listening(read_keyring(keys, "hospital"), address):
        error = end_of(dialled(address, SPOKE))
    assert isinstance(error, IdentityError)
    nowhere = end_of(dialled(f"unix:{tmp_path}/nobody", SPOKE))
    assert isinstance(nowhere, LineBroken)
    assert "no process listens at unix:" in str(nowhere)
