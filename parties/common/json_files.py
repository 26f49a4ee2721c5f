"""Files of a run: written whole or not at all, and readable for this account alone."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from parties.common.atomic_file import write
from parties.common.errors import StorageError

INCARNATION = "incarnation"


def canonical(content: Any) -> bytes:
    """JSON with sorted keys, no spaces and one newline at the end.

    Raises:
        ValueError: a number is not finite; it names the place.
    """
    for place, value in _numbers(content, "$"):
        if not math.isfinite(value):
            raise ValueError(f"{place} is {value}; legal is a finite number, or null if not run")
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"{text}\n".encode()


def finite(content: Any) -> Any:
    """The same with null for numbers that are not finite: of a model that left them, say."""
    if isinstance(content, float):
        return content if math.isfinite(content) else None
    if isinstance(content, dict):
        return {name: finite(part) for name, part in content.items()}
    if isinstance(content, list | tuple):
        return [finite(part) for part in content]
    return content


def _numbers(value: Any, place: str) -> Iterator[tuple[str, float]]:
    """Every real number of a document with the place where it stands."""
    if isinstance(value, float):
        yield place, value
    elif isinstance(value, dict):
        for name, part in value.items():
            yield from _numbers(part, f"{place}.{name}")
    elif isinstance(value, list | tuple):
        for number, part in enumerate(value):
            yield from _numbers(part, f"{place}[{number}]")


def next_incarnation(state: Path) -> int:
    """The number of this start of the party; it grows with every start.

    Raises:
        StorageError: the state folder cannot be used.
    """
    path = state / INCARNATION
    try:
        state.mkdir(parents=True, exist_ok=True, mode=0o700)
        last = int(path.read_text()) if path.exists() else 0
    except (OSError, ValueError) as error:
        raise StorageError(f"cannot use {state}", "choose another --out folder") from error
    write(path, f"{last + 1}\n".encode())
    return last + 1
