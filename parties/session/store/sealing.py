"""Sealed files: content encrypted under a key of its own; a file whose key is gone is unreadable.

The keys are in the party's key file (mode 600), apart from the sealed files. If the environment
names a file with a master key, the key file contains only wrapped keys, so that a copy of the
party's folder reveals nothing. To erase a sealed file, its key is removed first.
"""

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hmac import digest as hmac_digest
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.keywrap import InvalidUnwrap, aes_key_unwrap, aes_key_wrap

from configs.errors import ConfigError
from parties.common.atomic_file import write_atomically
from parties.common.errors import IntegrityError, StorageError

KEYS = "keys.json"
FORMAT = 1
KEY_BYTES, NONCE_BYTES = 32, 12
LOST = "restore the key file and the sealed files from the same backup, or train again"


class KeyFile:
    """The keys of one party, by name, in one file that is replaced atomically.

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
        known = self._read().get(name)
        if known is not None:
            return known
        with self._locked():
            keys = self._read()
            if name not in keys:
                keys[name] = os.urandom(KEY_BYTES)
                self._write(keys)
            return keys[name]

    def get(self, name: str) -> bytes | None:
        """Return the key ``name``; None if it does not exist, or was destroyed.

        Raises:
            IntegrityError: the key file is damaged, or was written with another master key.
        """
        return self._read().get(name)

    def names(self) -> list[str]:
        """Return the names of all keys."""
        return list(self._read())

    def destroy(self, *names: str) -> None:
        """Remove keys; the files that they seal cannot be read afterwards.

        The old content of the key file is overwritten before the file is replaced. A file system
        or disk that stores copies of overwritten blocks may still have it; a master key that is
        stored elsewhere protects also these copies.
        """
        if not set(names) & set(self._read()):
            return
        with self._locked():
            keys = {name: key for name, key in self._read().items() if name not in names}
            self._write(keys, self.path.read_bytes())

    def mac(self, name: str, content: bytes) -> bytes:
        """Return HMAC-SHA256 of ``content`` under the key ``name``, 32 bytes."""
        return hmac_digest(self.create(name), content, "sha256")

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Let no other process of this party change the keys during the ``with`` block.

        A request is raised by another process than the one that serves. Without the lock, one of
        the two would overwrite the keys of the other, and the files that they seal were lost.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            folder = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise StorageError(f"cannot write {self.path}: {error.strerror}") from error
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)

    def _read(self) -> dict[str, bytes]:
        try:
            content = json.loads(self.path.read_bytes())
            stored = {str(name): bytes.fromhex(key) for name, key in content["keys"].items()}
            wrapped, number = bool(content["wrapped"]), content["format"]
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise StorageError(f"cannot read {self.path}: {error.strerror}") from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise IntegrityError(f"the key file {self.path} is damaged", LOST) from error
        if number != FORMAT:
            raise IntegrityError(
                f"the key file {self.path} has format {number}; expected {FORMAT}",
                "use the version of vfl that wrote it",
            )
        return {name: self._unwrapped(key) if wrapped else key for name, key in stored.items()}

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

    def _write(self, keys: Mapping[str, bytes], old: bytes = b"") -> None:
        wrap = self._master
        stored = {
            name: (key if wrap is None else aes_key_wrap(wrap, key)).hex()
            for name, key in keys.items()
        }
        content = {"format": FORMAT, "wrapped": wrap is not None, "keys": stored}
        try:
            before = os.open(self.path, os.O_WRONLY | os.O_NOFOLLOW) if old else None
        except OSError as error:
            raise StorageError(f"cannot write {self.path}: {error.strerror}") from error
        write_atomically(self.path, json.dumps(content, sort_keys=True).encode())
        if before is not None:  # the replaced file, which has no name any more
            os.pwrite(before, bytes(len(old)), 0)
            os.fsync(before)
            os.close(before)


MASTER = "VFL_MASTER_KEY_FILE"


def read_master_key(path: Path | None) -> bytes | None:
    """Return the master key in a file of 32 bytes or 64 hexadecimal digits; None without a path.

    Raises:
        ConfigError: the file cannot be read, or contains no such key.
    """
    if path is None:
        return None
    try:
        content = path.read_bytes()
        key = content if len(content) == KEY_BYTES else bytes.fromhex(content.decode().strip())
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"cannot read a master key from {path}", "write 64 hexadecimal digits to the file"
        ) from error
    if len(key) != KEY_BYTES:
        raise ConfigError(
            f"the master key in {path} has {len(key)} bytes; expected {KEY_BYTES}",
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
