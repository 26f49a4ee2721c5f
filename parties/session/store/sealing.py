"""Sealed files: content encrypted under a key of its own; a file whose key is gone is unreadable.

The keys are in the party's key file (mode 600), apart from the sealed files. If the environment
names a file with a master key, the key file contains only wrapped keys, so that a copy of the
party's folder reveals nothing. To erase a sealed file, its key is removed first; the key file lists
the names of removed keys, so that a removed key is never taken for a lost one.
"""

import fcntl
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from hashlib import sha256
from hmac import compare_digest
from hmac import digest as hmac_digest
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.keywrap import InvalidUnwrap, aes_key_unwrap, aes_key_wrap

from configs.errors import ConfigError
from parties.common.atomic_file import make_folder, write_atomically
from parties.common.errors import IntegrityError, StorageError

KEYS, LOCK = "keys.json", ".keys.lock"
FORMAT = 1
KEY_BYTES, NONCE_BYTES = 32, 12
LOST = "restore the key file and the sealed files from the same backup, or train again"


@dataclass(frozen=True, slots=True, repr=False)
class _Keys:
    """The content of a key file."""

    keys: Mapping[str, bytes] = field(default_factory=dict)  # 32 bytes by name
    destroyed: frozenset[str] = frozenset()  # names of removed keys
    wrapped: bool = True  # whether the file has wrapped keys only, or none


class KeyFile:
    """The keys of one party, by name, in one file that is replaced atomically.

    Several processes may use the file: a change holds the lock of a file beside it.

    Args:
        folder: the party's folder.
        master: 32 bytes that wrap the keys; None: the file contains the keys themselves.
    """

    def __init__(self, folder: Path, master: bytes | None = None) -> None:
        self.path, self._master = folder / KEYS, master

    def create(self, name: str) -> bytes:
        """Make the key ``name``, 32 random bytes; an existing key of that name is returned.

        Raises:
            StorageError: the key file cannot be written.
            IntegrityError: the key file is damaged, or was written with another master key.
        """
        key = self.get(name)
        if key is not None:
            return key
        with self._locked():
            now = self._read()
            if name not in now.keys:
                keys = {**now.keys, name: os.urandom(KEY_BYTES)}
                now = replace(now, keys=keys, destroyed=now.destroyed - {name})
                self._write(now)
            return now.keys[name]

    def add(self, keys: Mapping[str, bytes]) -> None:
        """Store ``keys``, 32 bytes each, by name, beside those that exist.

        Raises:
            StorageError: the key file cannot be written.
            IntegrityError: the key file is damaged, or was written with another master key.
        """
        with self._locked():
            now = self._read()
            both = {**now.keys, **keys}
            self._write(replace(now, keys=both, destroyed=now.destroyed - set(keys)))

    def get(self, name: str) -> bytes | None:
        """Return the key ``name``; None if it does not exist, or was destroyed.

        Raises:
            IntegrityError: the key file is damaged, or was written with another master key.
        """
        return self._read().keys.get(name)

    def all(self) -> Mapping[str, bytes]:
        """Return all keys, 32 bytes each, by name."""
        return self._read().keys

    @property
    def destroyed(self) -> frozenset[str]:
        """The names of destroyed keys whose files may be left, because the process ended."""
        return self._read().destroyed

    def destroy(self, *names: str, erased: Iterable[str] = ()) -> None:
        """Remove keys; the files that they seal cannot be read afterwards.

        The old content of the key file is overwritten after the file is replaced. A file system
        or disk that stores copies of overwritten blocks may still have it; a master key that is
        stored elsewhere protects also these copies.

        Args:
            names: the keys to remove; ``destroyed`` lists them afterwards.
            erased: names that ``destroyed`` need not list any longer, because their files are gone.

        Raises:
            StorageError: the key file cannot be written.
            IntegrityError: the key file is damaged, or was written with another master key.
        """
        with self._locked():
            now = self._read()
            gone = set(names) & set(now.keys)
            keys = {name: key for name, key in now.keys.items() if name not in gone}
            left = replace(now, keys=keys, destroyed=now.destroyed - set(erased) | gone)
            if left != now:
                self._write(left, overwrite=True)

    def mac(self, name: str, content: bytes) -> bytes:
        """Return HMAC-SHA256 of ``content`` under the key ``name``, 32 bytes."""
        return hmac_digest(self.create(name), content, "sha256")

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the lock of the key file in a ``with`` block; wait for other processes."""
        try:
            make_folder(self.path.parent)
            place = self.path.with_name(LOCK)
            lock = os.open(place, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise StorageError(f"cannot lock {self.path}: {error.strerror}") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)  # the file stays: if removed, two processes could lock two files

    def _read(self) -> _Keys:
        try:
            content = json.loads(self._content())
            digest, number = content.pop("sha256"), content["format"]
            if number != FORMAT:
                raise IntegrityError(
                    f"the key file {self.path} has format {number}; expected {FORMAT}",
                    "use the version of vfl that wrote it",
                )
            if not compare_digest(_digest(content), digest):
                raise ValueError("the digest is wrong")
            stored = {str(name): bytes.fromhex(key) for name, key in content["keys"].items()}
            wrapped, destroyed = content["wrapped"], frozenset(content["destroyed"])
        except FileNotFoundError:
            return _Keys()
        except OSError as error:
            raise StorageError(f"cannot read {self.path}: {error.strerror}") from error
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise IntegrityError(f"the key file {self.path} is damaged", LOST) from error
        keys = {name: self._unwrapped(key) if wrapped else key for name, key in stored.items()}
        return _Keys(keys, destroyed, wrapped or not keys)

    def _content(self) -> bytes:
        """The content of the key file.

        Another process overwrites the old file after it has replaced it. So a file that is not in
        its place any more after the reading is read again.
        """
        while True:
            with self.path.open("rb") as file:
                content = file.read()
                if os.fstat(file.fileno()).st_ino == self.path.stat().st_ino:
                    return content

    def _unwrapped(self, key: bytes) -> bytes:
        if self._master is None:
            raise IntegrityError(
                f"the keys in {self.path} are wrapped, but no master key is given",
                f"name the file of the master key in the environment variable {MASTER}",
            )
        try:
            return aes_key_unwrap(self._master, key)
        except InvalidUnwrap as error:
            raise IntegrityError(
                f"the master key does not fit the keys in {self.path}",
                "name the file of the master key with which this party was started before",
            ) from error

    def _write(self, keys: _Keys, *, overwrite: bool = False) -> None:
        """Replace the key file.

        Zeros are written over its old content with ``overwrite``, and when a master key wraps keys
        that were not wrapped in the old file.
        """
        wrap = self._master
        overwrite = overwrite or (wrap is not None and not keys.wrapped)
        stored = {
            name: (key if wrap is None else aes_key_wrap(wrap, key)).hex()
            for name, key in keys.keys.items()
        }
        content = {
            "format": FORMAT,
            "wrapped": wrap is not None,
            "keys": stored,
            "destroyed": sorted(keys.destroyed),
        }
        text = json.dumps(content | {"sha256": _digest(content)}, sort_keys=True).encode()
        old: int | None = None
        try:
            if overwrite:
                old = os.open(self.path, os.O_WRONLY | os.O_NOFOLLOW)
            write_atomically(self.path, text)
            if old is not None:  # the replaced file, which has no name any more
                os.pwrite(old, bytes(os.fstat(old).st_size), 0)
                os.fsync(old)
        except OSError as error:
            raise StorageError(f"cannot write {self.path}: {error.strerror}") from error
        finally:
            if old is not None:
                os.close(old)


def _digest(content: Mapping[str, Any]) -> str:
    """SHA-256 of the content of a key file, 64 hexadecimal digits: it detects damage."""
    return sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


MASTER = "VFL_MASTER_KEY_FILE"


def read_master_key(path: Path | None) -> bytes | None:
    """Return the master key in a file of 32 bytes or 64 hexadecimal digits; None without a path.

    Raises:
        ConfigError: the file cannot be read, or contains no such key.
    """
    return None if path is None else read_key(path, "master key")


def read_key(path: Path, what: str) -> bytes:
    """Return the key in a file of 32 bytes or 64 hexadecimal digits; errors call it ``what``.

    Raises:
        ConfigError: the file cannot be read, or contains no such key.
    """
    try:
        content = path.read_bytes()
        digits = all(each in b"0123456789abcdefABCDEF \r\n" for each in content)
        key = bytes.fromhex(content.decode().strip()) if digits else content
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"cannot read a {what} from {path}", "write 64 hexadecimal digits to the file"
        ) from error
    if len(key) != KEY_BYTES:
        raise ConfigError(
            f"the {what} in {path} has {len(key)} bytes; expected {KEY_BYTES}",
            "write 64 hexadecimal digits to the file, for example from: openssl rand -hex 32",
        )
    return key


def seal(key: bytes, content: bytes, facts: bytes) -> bytes:
    """Encrypt ``content``; ``facts`` are stored elsewhere in clear, and authenticated."""
    nonce = os.urandom(NONCE_BYTES)
    return nonce + ChaCha20Poly1305(key).encrypt(nonce, content, facts)


def unseal(key: bytes, sealed: bytes, facts: bytes) -> bytes | None:
    """Decrypt; None if the content, the facts or the key is not that of the sealing."""
    try:
        return ChaCha20Poly1305(key).decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], facts)
    except (InvalidTag, ValueError):
        return None
