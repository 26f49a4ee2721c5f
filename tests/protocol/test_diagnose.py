"""Every cause of a failed connection has its own words, and no certificate is worth a retry."""

import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from pathlib import Path
from threading import Thread

import pytest
from forge import Leaf, authority, write
from talk import end_of

from protocol.errors import IdentityError, LineBroken
from protocol.keyring import issue, make_authority, read_keyring
from tests.conftest import HUB, SPOKE, Dial, listening

Cause = Callable[[Path, Path], AbstractContextManager[str]]


@contextmanager
def nobody(keys: Path, folder: Path) -> Iterator[str]:
    with socket.socket() as held:  # bound, not listening
        held.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{held.getsockname()[1]}"


@contextmanager
def unknown_name(keys: Path, folder: Path) -> Iterator[str]:
    yield "no-such-host.invalid:7700"


@contextmanager
def other_authority(keys: Path, folder: Path) -> Iterator[str]:
    make_authority(folder, "trial")
    issue(folder, "trial", HUB)
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
    """It believes another authority: ours is unknown to it, its certificate is good."""
    make_authority(folder / "theirs", "trial")
    leaf = Leaf(name=HUB).issue(authority(keys))
    write(folder, folder / "theirs", HUB, leaf)
    with listening(read_keyring(folder, HUB)) as (_, address):
        yield address


@contextmanager
def answering(text: bytes) -> Iterator[str]:
    """A port without TLS that answers everything in one way."""
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
    with answering(b"HTTP/1.1 400 Bad Request\r\n\r\n") as address:
        yield address


@contextmanager
def hanging_up(keys: Path, folder: Path) -> Iterator[str]:
    with answering(b"") as address:
        yield address


CAUSES = {
    hanging_up: (LineBroken, "hung up"),
    nobody: (LineBroken, "nobody listens at"),
    unknown_name: (LineBroken, "the name in no-such-host.invalid:7700 is unknown"),
    other_authority: (
        IdentityError,
        "is not that of bank: .*(issuer|signature)",
    ),
    other_party: (IdentityError, "is not that of bank: .*Hostname mismatch"),
    expired_hub: (IdentityError, "is not that of bank: certificate has expired"),
    hub_of_others: (IdentityError, "hung up when it saw our certificate"),
    no_tls: (IdentityError, "does not speak TLS"),
}


@pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: cause.__name__)
def test_every_cause_has_its_own_words(
    dialled: Dial, keys: Path, tmp_path: Path, cause: Cause
) -> None:
    kind, told = CAUSES[cause]
    with cause(keys, tmp_path / "certs") as address:
        error = end_of(dialled(address, SPOKE))
    assert type(error) is kind
    assert error.hint
    with pytest.raises(kind, match=told):
        raise error


def test_words_differ() -> None:
    assert len({told for _, told in CAUSES.values()}) == len(CAUSES)


def test_expired_dialler_is_told_so(dialled: Dial, keys: Path, tmp_path: Path) -> None:
    old = Leaf(start=timedelta(days=-9), end=timedelta(days=-2)).issue(authority(keys))
    write(tmp_path / "certs", keys, SPOKE, old)
    with listening(read_keyring(keys, HUB)) as (_, address):
        error = end_of(dialled(address, SPOKE, tmp_path / "certs"))
    assert isinstance(error, IdentityError)
    assert "hung up when it saw our certificate" in str(error)
    assert f"ours ends {old[0].not_valid_after_utc:%Y-%m-%d %H:%M} UTC" in error.hint


def test_causes_are_told_over_unix_sockets_too(dialled: Dial, keys: Path, tmp_path: Path) -> None:
    """Otherwise a spoke would go on dialling with a certificate that will never do."""
    address = f"unix:{tmp_path}/hub"
    with listening(read_keyring(keys, "hospital"), address):
        error = end_of(dialled(address, SPOKE))
    assert isinstance(error, IdentityError)
    nowhere = end_of(dialled(f"unix:{tmp_path}/nobody", SPOKE))
    assert isinstance(nowhere, LineBroken)
    assert "nobody listens at unix:" in str(nowhere)
