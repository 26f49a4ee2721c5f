"""A file of denied keys: whose key is no longer believed, even while a run lasts."""

import re
import stat
from dataclasses import dataclass, field
from pathlib import Path

from protocol.errors import IdentityError

_PIN = re.compile(r"sha256:[0-9a-f]{64}")
_LARGEST = 2**20  # bytes

_State = tuple[int, int, int]


@dataclass(slots=True)
class DenyFile:
    """One pin a line, ``#`` begins a comment; read again whenever the file has changed.

    Asking costs one look at the file's date, so it may be asked at every message. Replace the file
    whole (write another, then rename it): a file half written denies only half.
    """

    path: Path
    _read: tuple[_State, frozenset[str]] | None = field(default=None, repr=False)

    def pins(self) -> frozenset[str]:
        """The pins that the file holds now.

        Raises:
            IdentityError: the file is gone, too large, or a line of it is no pin.
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
            raise IdentityError(f"{self.path} is no regular file of at most {_LARGEST} bytes")
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
                    f"{self.path}, line {number}: no pin",
                    "a pin is sha256: and 64 hexadecimal digits, as vfl certs prints it",
                )
            pins |= {pin} if pin else set()
        return frozenset(pins)

    def _unusable(self, error: Exception) -> IdentityError:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        return IdentityError(
            f"cannot read the denied keys in {self.path}: {reason}",
            "without it nobody is believed; an empty file denies nobody",
        )
