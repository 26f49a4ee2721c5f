"""Strict readers of JSON lines, JSON arrays and plain text; error messages contain no text data."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from parties.common.errors import DataError, ResourceError
from parties.data.sources.files import open_data_file

MAX_FILE = 256 << 20  # bytes of a file
MAX_LINE = 4 << 20  # bytes of a line
MAX_ROWS = 2_000_000


@dataclass(frozen=True, slots=True, repr=False)
class JsonEntry:
    """One JSON object of a file."""

    place: str  # file and line number or array index (counted from 1), for error messages
    fields: Mapping[str, object]  # fields of the object

    def text(self, field: str) -> str:
        """Return a field, and check that the value is a non-empty text.

        Raises:
            DataError: the field is missing, empty or not a text.
        """
        if field not in self.fields:
            raise DataError(
                f"{self.place} has no field {field!r}", "check that this is the right file"
            )
        return require_text(self.fields[field], f"the field {field!r} of {self.place}")

    def texts(self, field: str, count: int) -> tuple[str, ...]:
        """Return a field, and check that the value is a list of ``count`` non-empty texts.

        Raises:
            DataError: the field is not a list of ``count`` texts, or one of the texts is empty.
        """
        found = self.fields.get(field)
        if not isinstance(found, list) or len(found) != count:
            raise DataError(f"the field {field!r} of {self.place} is not a list of {count} texts")
        return tuple(require_text(each, f"the field {field!r} of {self.place}") for each in found)

    def refuse_others(self, known: tuple[str, ...]) -> None:
        """Raise an error if the object has fields that are not in ``known``.

        Raises:
            DataError: the object has unknown fields. The message contains only the number of
                unknown fields, because the name of a field may be private.
        """
        others = len(set(self.fields) - set(known))
        if others:
            raise DataError(
                f"{self.place} has {others} unknown fields",
                f"allowed fields: {', '.join(known)}",
            )


def require_text(found: object, name: str) -> str:
    """Return ``found`` if it is a non-empty text; error messages call the value ``name``.

    Raises:
        DataError: ``found`` is not a text, is empty, or cannot be encoded as UTF-8.
    """
    if not isinstance(found, str):
        raise DataError(f"{name} is not a text")
    if not found.strip():
        raise DataError(f"{name} is empty")
    try:
        found.encode()
    except UnicodeEncodeError:
        raise DataError(f"{name} is not valid Unicode", "remove unpaired surrogates") from None
    return found


def read_json_lines(folder: Path, path: Path, origin: str = "") -> Iterator[JsonEntry]:
    """Yield the JSON object of each line; ``origin`` is the download address of the file.

    Raises:
        DataError: the file is missing, or a line is not a JSON object.
        ResourceError: a line or the file exceeds the size limit.
    """
    for place, line in _text_lines(folder, path, origin):
        found = _parsed(line, place)
        if not isinstance(found, dict):
            raise DataError(f"{place} is not a JSON object", "write one object {...} per line")
        yield JsonEntry(place, found)


def read_json_array(folder: Path, path: Path, origin: str = "") -> list[tuple[str, object]]:
    """Return the place and the value of each entry of a JSON array.

    Raises:
        DataError: the file is missing, or is not a JSON array with at least one entry.
        ResourceError: the file exceeds the size limit.
    """
    found = _parsed(read_whole_text(folder, path, origin), str(path))
    if not isinstance(found, list) or not found:
        raise DataError(f"{path} is not a JSON array with at least one entry")
    return [(f"{path} entry {number}", each) for number, each in enumerate(found, 1)]


def read_whole_text(folder: Path, path: Path, origin: str = "") -> str:
    """Return the text of a UTF-8 file.

    Raises:
        DataError: the file is missing, empty or not UTF-8.
        ResourceError: the file exceeds the size limit.
    """
    with open_data_file(folder, path, origin) as file:
        content = file.read(MAX_FILE + 1)
    if len(content) > MAX_FILE:
        raise ResourceError(f"{path} has more than {MAX_FILE >> 20} MiB", "split the file")
    return require_text(_decoded(content, str(path)), str(path))


def _text_lines(folder: Path, path: Path, origin: str) -> Iterator[tuple[str, str]]:
    """Place and text of each line."""
    with open_data_file(folder, path, origin) as file:
        for number, line in _bounded(file, path):
            place = f"{path} line {number}"
            text = _decoded(line, place).rstrip("\r\n")
            if not text.strip():
                raise DataError(f"{place} is empty", "remove empty lines")
            yield place, text


def _bounded(file: BinaryIO, path: Path) -> Iterator[tuple[int, bytes]]:
    """Number and bytes of each line; only a line feed ends a line, not Unicode's separators."""
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
                f"{path} has more than {MAX_FILE >> 20} MiB or {MAX_ROWS} lines", "split the file"
            )
        yield number, line


def _decoded(content: bytes, place: str) -> str:
    if content.startswith(b"\xef\xbb\xbf"):
        raise DataError(f"{place} begins with a byte order mark", "save it as UTF-8 without BOM")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise DataError(
            f"{place} is not UTF-8 (invalid byte at offset {error.start})", "save it as UTF-8"
        ) from None


def _parsed(text: str, place: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_unique_fields)
    except json.JSONDecodeError as error:
        at = f" (line {error.lineno})" if error.lineno > 1 else ""
        raise DataError(f"{place} is not valid JSON{at}: {error.msg}") from None
    except (_DuplicateField, RecursionError, ValueError):
        raise DataError(f"{place} has the same field twice, or is nested too deeply") from None


class _DuplicateField(Exception):
    """An object has the same field twice."""


def _unique_fields(pairs: list[tuple[str, object]]) -> dict[str, object]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise _DuplicateField
    return fields
