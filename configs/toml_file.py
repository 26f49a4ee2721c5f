"""The bytes of a config file as TOML tables, or a sentence that says what is wrong where."""

import re
import stat
import tomllib
from collections.abc import Iterator
from datetime import date, time
from pathlib import Path
from typing import Any

from configs.errors import LISTED, ConfigError

LARGEST = 2**20  # bytes of a file
DEEPEST = 32  # tables in tables
_OTHERS = {".yaml": "YAML", ".yml": "YAML", ".json": "JSON", ".ini": "INI", ".cfg": "INI"}
_TOML = "a config is a TOML file: key = value under [table]"
_CHAIN = re.compile(rf"""(?<![\w"'-])(?:[\w"'-]++[ \t]*\.[ \t]*){{{DEEPEST}}}""")
_PLACE = re.compile(r"\(at line (\d+), column \d+\)")


def read_toml(path: Path, notices: list[str]) -> dict[str, Any]:
    """The tables of ``path``; what was accepted but deserves a word is added to ``notices``.

    Raises:
        ConfigError: the file cannot be read, or is not TOML.
    """
    text = _text(path, notices)
    if _CHAIN.search(text):  # a longer chain takes the parser quadratic time
        raise ConfigError(f"{path}: tables stand more than {DEEPEST} deep in each other")
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        said = str(error).replace("end of document)", f"the end, line {len(text.splitlines())})")
        raise ConfigError(f"{path}: {said}{_first(text, said)}", _TOML) from error
    except RecursionError:
        raise ConfigError(f"{path}: values are nested too deeply") from None
    except ValueError as error:  # Python reads no number of more than 4300 digits
        raise ConfigError(f"{path}: a number has too many digits") from error
    problems = [f"{path}: {problem}" for problem in _oddities("", raw, DEEPEST)]
    if problems:
        raise ConfigError(problems[:20], LISTED)
    return raw


def toml_value(key: str, text: str) -> Any:
    """The value that ``text`` writes; what is not TOML is text.

    Raises:
        ConfigError: no setting may have such a value.
    """
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        value = text
    problems = list(_oddities(key, value, DEEPEST))
    if problems:
        raise ConfigError(problems[:20], LISTED)
    return value


def _text(path: Path, notices: list[str]) -> str:
    content = _content(path)
    if content.startswith(b"\xef\xbb\xbf"):
        content = content[3:]
        notice = f"{path} begins with a byte order mark, which was passed over"
        notices += [] if notice in notices else [notice]
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(
            f"{path} is not UTF-8 at byte {error.start} (line {line})", "save it as UTF-8"
        ) from error
    if "\0" in text:
        offset = content.index(b"\0")
        line = content.count(b"\n", 0, offset) + 1
        raise ConfigError(f"{path} has a NUL byte at byte {offset} (line {line})", _TOML)
    return text


def _content(path: Path) -> bytes:
    if path.suffix.lower() in _OTHERS:
        raise ConfigError(f"{path} is a {_OTHERS[path.suffix.lower()]} file by its name", _TOML)
    try:
        state = path.stat()
        if not stat.S_ISREG(state.st_mode) and not stat.S_ISDIR(state.st_mode):
            raise ConfigError(f"cannot read {path}: it is no regular file", _TOML)
        if state.st_size > LARGEST:
            raise ConfigError(f"{path} has {state.st_size} bytes; a config has at most {LARGEST}")
        with path.open("rb") as file:
            return file.read(LARGEST)
    except PermissionError as error:
        raise ConfigError(
            f"cannot read {path}: {error.strerror}{_permissions(path)}",
            "make it readable for the account that runs this",
        ) from error
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}", _TOML) from error
    except ValueError as error:  # a NUL in the path
        raise ConfigError("the path of the config is no path") from error


def _permissions(path: Path) -> str:
    """The permission bits, where they can be seen."""
    try:
        state = path.stat()
    except OSError:
        return ""
    return f"; it is {stat.filemode(state.st_mode)} of user {state.st_uid}"


def _first(text: str, said: str) -> str:
    """Where the key stood first, if the parser stumbled over its second appearance."""
    place = _PLACE.search(said)
    if place is None or not re.search("overwrite|twice|mutate|redefine|extend", said):
        return ""
    keys = dict(_keys(text.splitlines()[: int(place[1])]))
    wanted = keys.pop(int(place[1]), None)
    before = [line for line, key in keys.items() if key == wanted]
    return f"; it stands first at line {before[-1]}" if wanted and before else ""


def _keys(lines: list[str]) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Line number and full path of every table header and key."""
    table: tuple[str, ...] = ()
    for number, line in enumerate(lines, 1):
        if header := re.match(r"\s*\[\[?([^\[\]]+)\]", line):
            table = _parts(header[1])
            yield number, table
        elif entry := re.match(r"\s*([\w.\"' -]+?)\s*=", line):
            yield number, table + _parts(entry[1])


def _parts(chain: str) -> tuple[str, ...]:
    return tuple(part.strip(" \t\"'") for part in chain.split("."))


def _oddities(place: str, value: Any, depth: int) -> Iterator[str]:
    """What is legal TOML and never legal in a config: depth, dates, NUL, private keys."""
    if depth == 0:
        yield f"{place[:80]}: values stand more than {DEEPEST} deep in each other"
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _oddities(f"{place}.{key}".lstrip("."), inner, depth - 1)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _oddities(f"{place}.{number}", inner, depth - 1)
    elif isinstance(value, date | time):
        yield f"{place}: a date or time; no setting is one, and text stands in quotes"
    elif isinstance(value, str) and "\0" in value:
        yield f"{place}: text with a NUL character"
    elif isinstance(value, str) and "-----BEGIN" in value:
        yield (
            f"{place}: a key or certificate stands in the config; "
            "keep it in a file of its own, in the folder that certificates names"
        )
