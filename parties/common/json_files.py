"""Canonical JSON for files of a run, and the counter of a party's starts."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from parties.common.atomic_file import make_folder, write_atomically
from parties.common.errors import StorageError

INCARNATION = "incarnation"


def canonical_json(content: Any) -> bytes:
    """Return JSON with sorted keys, no spaces and one newline at the end.

    Raises:
        ValueError: a number is not finite; the message gives the path of the number.
    """
    for path, value in _numbers(content, "$"):
        if not math.isfinite(value):
            raise ValueError(f"{path} is {value}; expected a finite number or null")
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"{text}\n".encode()


def null_non_finite(content: Any) -> Any:
    """Return ``content`` with null in place of each number that is not finite."""
    if isinstance(content, float):
        return content if math.isfinite(content) else None
    if isinstance(content, dict):
        return {name: null_non_finite(part) for name, part in content.items()}
    if isinstance(content, list | tuple):
        return [null_non_finite(part) for part in content]
    return content


def _numbers(value: Any, path: str) -> Iterator[tuple[str, float]]:
    """Yield path and value of each float of a document."""
    if isinstance(value, float):
        yield path, value
    elif isinstance(value, dict):
        for name, part in value.items():
            yield from _numbers(part, f"{path}.{name}")
    elif isinstance(value, list | tuple):
        for number, part in enumerate(value):
            yield from _numbers(part, f"{path}[{number}]")


def next_incarnation(state: Path) -> int:
    """Increment the party's start counter in the folder ``state`` and return the new count.

    Raises:
        StorageError: the folder cannot be used.
    """
    path = state / INCARNATION
    try:
        make_folder(state)
        last = int(path.read_text()) if path.exists() else 0
    except (OSError, ValueError) as error:
        raise StorageError(
            f"cannot use the folder {state}", "choose another --out folder"
        ) from error
    write_atomically(path, f"{last + 1}\n".encode())
    return last + 1
