"""Deny list: a file with the pins of keys that are no longer trusted, read again during a run."""

import re
import stat
from dataclasses import dataclass, field
from pathlib import Path

from protocol.errors import IdentityError

_PIN = re.compile(r"sha256:[0-9a-f]{64}")
_LARGEST = 2**20  # bytes

_State = tuple[int, int, int]


@dataclass(slots=True)
class DenyList:
    """A file of denied pins: one pin per line, and ``#`` starts a comment.

    The file is read again only if its date, size or inode changed, so ``pins`` may be called for
    every message. To change the list, write a new file and rename it to this path: a file that is
    written in place may be read before all pins are written.
    """

    path: Path
    _read: tuple[_State, frozenset[str]] | None = field(default=None, repr=False)

    def pins(self) -> frozenset[str]:
        """Return all pins that the file contains now.

        Raises:
            IdentityError: the file is absent, unreadable or too large, or a line is not a pin.
        """
        state = self._state()
        if self._read is None or self._read[0] != state:
            self._read = state, self._parsed()
        return self._read[1]

    def _state(self) -> _State:
        try:
            found = self.path.stat()
        except OSError as error:
            raise self._unusable(error) from error
        if not stat.S_ISREG(found.st_mode) or found.st_size > _LARGEST:
            raise IdentityError(
                f"the deny list {self.path} is not a regular file, or exceeds {_LARGEST} bytes"
            )
        return found.st_mtime_ns, found.st_size, found.st_ino

    def _parsed(self) -> frozenset[str]:
        try:
            lines = self.path.read_bytes().decode().splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise self._unusable(error) from error
        pins = set()
        for number, line in enumerate(lines, 1):
            pin = line.partition("#")[0].strip()
            if pin and not _PIN.fullmatch(pin):
                raise IdentityError(
                    f"{self.path}: line {number} is not a pin",
                    "write sha256: and 64 hexadecimal digits, as vfl certs prints a pin",
                )
            pins |= {pin} if pin else set()
        return frozenset(pins)

    def _unusable(self, error: Exception) -> IdentityError:
        reason = error.strerror if isinstance(error, OSError) else "the file is not UTF-8"
        return IdentityError(
            f"cannot read the deny list {self.path}: {reason}",
            "no key is trusted without the deny list; an empty file denies no key",
        )
