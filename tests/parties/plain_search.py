"""A search for persons in all files of a folder that uses none of the project's code.

It knows how the files are stored from their documentation alone: the key file is JSON, and a sealed
file is a line of JSON followed by a nonce of 12 bytes and a ChaCha20-Poly1305 ciphertext, whose
content is compressed with zlib. A sealed file whose key is gone is searched as it is. SQLite files
are searched as bytes, with their write-ahead logs.
"""

import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305


def patterns_of(person: str, cells: Sequence[str]) -> dict[str, bytes]:
    """What to search for: the ID, and the feature row as text and as numbers in four forms.

    Args:
        person: the ID.
        cells: the features as they stand in the file of data; the number forms need numbers.
    """
    found = {"ID": person.encode(), "ID in UTF-16": person.encode("utf-16-le")}
    found["ID in hexadecimal"] = person.encode().hex().encode()
    if len(cells) > 1:
        found["features as text"] = ",".join(cells).encode()
        numbers = np.array([float(each) for each in cells])
        for name, kind in (("float32", "<f4"), ("float64", "<f8")):
            found[f"features as {name}"] = numbers.astype(kind).tobytes()
        found["features as JSON"] = ", ".join(map(str, numbers.tolist())).encode()
    return found


def search(folder: Path, patterns: Mapping[str, bytes]) -> list[str]:
    """Return a line for each file below ``folder``, and each pattern that the file contains."""
    return [
        f"{path.relative_to(folder)}: {name}"
        for path, content in _contents(folder)
        for name, pattern in patterns.items()
        if pattern in content
    ]


def search_persons(folder: Path, persons: Mapping[str, Sequence[Sequence[str]]]) -> list[str]:
    """Search for several persons: by ID, the features of each party as texts."""
    patterns = {
        f"{form} of {person}, party {number}": pattern
        for person, rows in persons.items()
        for number, cells in enumerate(rows)
        for form, pattern in patterns_of(person, cells).items()
        if number == 0 or form.startswith("features")
    }
    return search(folder, patterns)


def _contents(folder: Path) -> Iterator[tuple[Path, bytes]]:
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            content = path.read_bytes()
            yield path, content
            if path.suffix == ".sealed":
                yield path, _unsealed(path, content)


def _unsealed(path: Path, content: bytes) -> bytes:
    """The content of a sealed file; empty if its key is gone."""
    keys = json.loads((path.parents[1] / "keys.json").read_bytes())["keys"]
    key = keys.get(f"model {int(path.stem)}")
    line, _, sealed = content.partition(b"\n")
    if key is None:
        return b""
    try:
        cipher = ChaCha20Poly1305(bytes.fromhex(key))
        return zlib.decompress(cipher.decrypt(sealed[:12], sealed[12:], line + b"\n"))
    except (InvalidTag, zlib.error):
        return b""
