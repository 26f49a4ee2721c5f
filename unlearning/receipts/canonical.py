"""Canonical JSON (RFC 8785) of the values that receipts and events use.

The values are objects, arrays, strings, integers, booleans and null. Floats are refused, because
programming languages print them differently; a number with a fraction is a string.
"""

import json
from collections.abc import Iterable
from typing import Any, NoReturn, TypeAlias

from unlearning.receipts.errors import CanonicalError

JsonValue: TypeAlias = "dict[str, JsonValue] | list[JsonValue] | str | int | bool | None"

MAX_INTEGER = 2**53 - 1  # RFC 7493: the largest integer that every reader represents exactly
MAX_DEPTH = 32  # nested objects and arrays


def canonical_bytes(value: Any) -> bytes:
    """Return the canonical bytes of ``value``: sorted keys, no white space, UTF-8.

    ``value`` may contain mappings with text keys, lists, tuples, text, integers, booleans and None.

    Raises:
        CanonicalError: ``value`` contains a float, another type, an integer beyond 2^53 - 1, text
            that is not Unicode, or more than 32 levels.
    """
    ordered = _ordered(value, 0)
    try:
        return json.dumps(ordered, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        raise CanonicalError("a text in the JSON value contains a lone surrogate") from None


def read_json(data: bytes, what: str) -> JsonValue:
    """Return the JSON value in ``data``; the bytes need not be canonical.

    Args:
        data: the bytes of a file or message.
        what: name of the file or message, for the error.

    Raises:
        CanonicalError: ``data`` is not JSON in UTF-8, has a key twice in one object, or contains a
            value that has no canonical form.
    """
    try:
        value: JsonValue = json.loads(
            data.decode(),
            object_pairs_hook=_object,
            parse_float=_refuse_number,
            parse_constant=_refuse_number,
        )
    except UnicodeDecodeError as error:
        raise CanonicalError(f"{what} is not UTF-8 (byte {error.start})") from None
    except json.JSONDecodeError as error:
        raise CanonicalError(f"{what} is not JSON: {error.msg} at character {error.pos}") from None
    except CanonicalError as error:
        raise CanonicalError(f"{what} is not legal JSON: {error}", error.hint) from None
    except RecursionError:
        raise CanonicalError(f"{what} has more than {MAX_DEPTH} levels of JSON") from None
    except ValueError:  # Python refuses integers of more than 4,300 digits
        raise CanonicalError(f"{what} contains an integer beyond 2^53 - 1") from None
    return value


def read_canonical(data: bytes, what: str) -> JsonValue:
    """Return the JSON value whose canonical bytes are exactly ``data``.

    Args:
        data: the bytes of a file or message.
        what: name of the file or message, for the error.

    Raises:
        CanonicalError: ``data`` is not JSON, or not its canonical form.
    """
    value = read_json(data, what)
    try:
        expected = canonical_bytes(value)
    except CanonicalError as error:
        raise CanonicalError(f"{what} is not canonical JSON: {error}") from None
    if expected != data:
        pairs = zip(expected, data, strict=False)
        at = next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(expected), len(data)))
        raise CanonicalError(
            f"{what} is not canonical JSON (RFC 8785): byte {at} differs from the canonical form",
            "keep the file as it was written; an editor may have added spaces or a newline",
        )
    return value


def _ordered(value: Any, depth: int) -> JsonValue:
    """Return a copy of ``value`` whose keys are sorted by their UTF-16 code units (RFC 8785)."""
    if depth > MAX_DEPTH:
        raise CanonicalError(f"the JSON value has more than {MAX_DEPTH} levels")
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        if abs(value) > MAX_INTEGER:
            raise CanonicalError("the JSON value contains an integer beyond 2^53 - 1")
        return value
    if isinstance(value, (list, tuple)):
        return [_ordered(each, depth + 1) for each in value]
    if isinstance(value, dict):
        return {key: _ordered(value[key], depth + 1) for key in _sorted_keys(value)}
    raise CanonicalError(
        f"the JSON value contains a {type(value).__name__}, which has no canonical form",
        "write a number with a fraction as text",
    )


def _sorted_keys(value: dict[Any, Any]) -> list[str]:
    """The keys in the order of their UTF-16 code units, which is that of the text for ASCII."""
    try:
        joined = "".join(value)
    except TypeError:
        raise CanonicalError("a key of a JSON object is not text") from None
    if joined.isascii():
        return sorted(value)
    return sorted(value, key=lambda key: key.encode("utf-16-be", "surrogatepass"))


def _object(pairs: Iterable[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    found: dict[str, JsonValue] = {}
    for key, value in pairs:
        if key in found:
            raise CanonicalError("an object has the same key twice")
        found[key] = value
    return found


def _refuse_number(_text: str) -> NoReturn:
    raise CanonicalError("it contains a float, NaN or Infinity", "write the number as text")
