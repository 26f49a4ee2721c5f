"""Strict reading of JSON lines, JSON arrays and plain text; errors never show the text."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from parties.common.errors import DataError, ResourceError
from parties.data.sources.files import opened

MAX_FILE = 256 << 20  # bytes of a file that is read whole
MAX_LINE = 4 << 20  # bytes of a line
MAX_ROWS = 2_000_000


@dataclass(frozen=True, slots=True, repr=False)
class Entry:
    """One JSON object of a file.

    Attributes:
        place: file and line (from 1), or entry of an array (from 1), for errors.
        fields: what the object has.
    """

    place: str
    fields: Mapping[str, object]

    def text(self, field: str) -> str:
        """A field that must be a text with something in it.

        Raises:
            DataError: it is not.
        """
        if field not in self.fields:
            raise DataError(f"{self.place} has no field {field!r}", "is it the right file?")
        return checked(self.fields[field], f"{field!r} of {self.place}")

    def texts(self, field: str, count: int) -> tuple[str, ...]:
        """A field that must be a list of ``count`` texts; raises like ``text``."""
        found = self.fields.get(field)
        if not isinstance(found, list) or len(found) != count:
            raise DataError(f"{field!r} of {self.place} is no list of {count} texts")
        return tuple(checked(each, f"{field!r} of {self.place}") for each in found)

    def refuse_others(self, known: tuple[str, ...]) -> None:
        """Refuse fields that the original file does not have.

        Raises:
            DataError: there is one; a field's name may be data, so only the number is told.
        """
        others = len(set(self.fields) - set(known))
        if others:
            raise DataError(
                f"{self.place} has {others} fields that this file does not have",
                f"its fields are {', '.join(known)}",
            )


def checked(found: object, what: str) -> str:
    """``found`` if it is a text with something in it.

    Raises:
        DataError: it is no text, empty, or has no UTF-8 form.
    """
    if not isinstance(found, str):
        raise DataError(f"{what} is no text")
    if not found.strip():
        raise DataError(f"{what} is empty")
    try:
        found.encode()
    except UnicodeEncodeError:
        raise DataError(f"{what} is not valid Unicode", "half of a surrogate pair") from None
    return found


def json_lines(folder: Path, path: Path, origin: str = "") -> Iterator[Entry]:
    """One JSON object a line; ``origin`` says where the file is to be had.

    Raises:
        DataError: the file is absent, or a line is no JSON object.
        ResourceError: a line or the file is longer than is read.
    """
    for place, line in text_lines(folder, path, origin):
        found = _parsed(line, place)
        if not isinstance(found, dict):
            raise DataError(f"{place} is no JSON object", "one object a line, {...}")
        yield Entry(place, found)


def text_lines(folder: Path, path: Path, origin: str = "") -> Iterator[tuple[str, str]]:
    """Place and text of every line; raises like ``json_lines``."""
    with opened(folder, path, origin) as file:
        for number, line in _bounded(file, path):
            place = f"{path} line {number}"
            text = _decoded(line, place).rstrip("\r\n")
            if not text.strip():
                raise DataError(f"{place} is empty", "only the end of the file may be")
            yield place, text


def json_array(folder: Path, path: Path, origin: str = "") -> list[tuple[str, object]]:
    """Place and content of every entry of a JSON array.

    Raises:
        DataError: the file is absent or no JSON array.
        ResourceError: it is larger than is read.
    """
    found = _parsed(whole_text(folder, path, origin), str(path))
    if not isinstance(found, list) or not found:
        raise DataError(f"{path} is no JSON array with something in it")
    return [(f"{path} entry {number}", each) for number, each in enumerate(found, 1)]


def whole_text(folder: Path, path: Path, origin: str = "") -> str:
    """A UTF-8 file; raises like ``json_array``."""
    with opened(folder, path, origin) as file:
        content = file.read(MAX_FILE + 1)
    if len(content) > MAX_FILE:
        raise ResourceError(f"{path} has more than {MAX_FILE >> 20} MiB", "divide it")
    return checked(_decoded(content, str(path)), str(path))


def _bounded(file: BinaryIO, path: Path) -> Iterator[tuple[int, bytes]]:
    """Number and bytes of the lines; only a line feed parts them, whatever Unicode says."""
    read = 0
    for number in range(1, MAX_ROWS + 2):
        line = file.readline(MAX_LINE + 1)
        if not line:
            return
        read += len(line)
        if len(line) > MAX_LINE:
            raise ResourceError(f"{path} line {number} has more than {MAX_LINE >> 20} MiB")
        if read > MAX_FILE or number > MAX_ROWS:
            raise ResourceError(
                f"{path} has more than {MAX_FILE >> 20} MiB or {MAX_ROWS} lines", "divide it"
            )
        yield number, line


def _decoded(content: bytes, place: str) -> str:
    if content.startswith(b"\xef\xbb\xbf"):
        raise DataError(f"{place} begins with a byte order mark", "save it as UTF-8 without BOM")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise DataError(
            f"{place} is not UTF-8 (byte {error.start} of it)", "save it as UTF-8"
        ) from None


def _parsed(text: str, place: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_once)
    except json.JSONDecodeError as error:
        at = f" (line {error.lineno})" if error.lineno > 1 else ""
        raise DataError(f"{place} is no JSON{at}: {error.msg}") from None
    except (_Twice, RecursionError, ValueError):
        raise DataError(f"{place} has a field twice, or is nested too deeply") from None


class _Twice(Exception):
    """A field stands twice in one object."""


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise _Twice
    return fields
