"""Reading of TOML files up to a size limit; error messages name the line of a problem."""

import re
import stat
import tomllib
from collections.abc import Iterator
from datetime import date, time
from pathlib import Path
from typing import Any

from configs.errors import LISTED, ConfigError

LARGEST = 2**20  # largest size of a config file in bytes
DEEPEST = 32  # deepest nesting of tables
_OTHERS = {".yaml": "YAML", ".yml": "YAML", ".json": "JSON", ".ini": "INI", ".cfg": "INI"}
_TOML = "give a TOML file with lines of the form key = value under [table]"
_CHAIN = re.compile(rf"""(?<![\w"'-])(?:[\w"'-]++[ \t]*\.[ \t]*){{{DEEPEST}}}""")
_PLACE = re.compile(r"\(at line (\d+), column \d+\)")


def read_toml(path: Path, notices: list[str]) -> dict[str, Any]:
    """Return the tables of the TOML file ``path``; append warnings to ``notices``.

    Raises:
        ConfigError: the file cannot be read, or is not TOML.
    """
    text = _text(path, notices)
    if _CHAIN.search(text):  # the parser takes quadratic time for it
        raise ConfigError(f"{path}: tables are nested more than {DEEPEST} levels deep")
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message = str(error)
        message = message.replace("end of document)", f"the end, line {len(text.splitlines())})")
        raise ConfigError(f"{path}: {message}{_first_definition(text, message)}", _TOML) from error
    except RecursionError:
        raise ConfigError(
            f"{path}: values are nested too deeply; at most {DEEPEST} levels are allowed"
        ) from None
    except ValueError as error:  # Python reads no number of more than 4300 digits
        raise ConfigError(
            f"{path}: a number has more than 4300 digits; at most 4300 digits are allowed"
        ) from error
    problems = [f"{path}: {problem}" for problem in _illegal_values("", raw, DEEPEST)]
    if problems:
        raise ConfigError(problems[:20], LISTED)
    return raw


def toml_value(key: str, text: str) -> Any:
    """Return ``text`` parsed as a TOML value, or ``text`` itself if it is not TOML.

    Raises:
        ConfigError: no setting can have this value, for example a date.
    """
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        value = text
    problems = list(_illegal_values(key, value, DEEPEST))
    if problems:
        raise ConfigError(problems[:20], LISTED)
    return value


def _text(path: Path, notices: list[str]) -> str:
    content = _content(path)
    if content.startswith(b"\xef\xbb\xbf"):
        content = content[3:]
        notice = f"{path} begins with a byte order mark, which was ignored"
        notices += [] if notice in notices else [notice]
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(
            f"{path} is not UTF-8 at byte {error.start} (line {line})",
            "save the file as UTF-8",
        ) from error
    if "\0" in text:
        offset = content.index(b"\0")
        line = content.count(b"\n", 0, offset) + 1
        raise ConfigError(f"{path} contains a NUL character at byte {offset} (line {line})", _TOML)
    return text


def _content(path: Path) -> bytes:
    if path.suffix.lower() in _OTHERS:
        raise ConfigError(
            f"{path} has the extension of a {_OTHERS[path.suffix.lower()]} file; a config must "
            "be a TOML file",
            _TOML,
        )
    try:
        state = path.stat()
        if not stat.S_ISREG(state.st_mode) and not stat.S_ISDIR(state.st_mode):
            raise ConfigError(f"cannot read {path}: the path is not a regular file", _TOML)
        if state.st_size > LARGEST:
            raise ConfigError(
                f"{path} has {state.st_size} bytes, but a config may have at most {LARGEST} bytes"
            )
        with path.open("rb") as file:
            return file.read(LARGEST)
    except PermissionError as error:
        raise ConfigError(
            f"cannot read {path}: {error.strerror}{_permissions(path)}",
            "make the file readable for the account that runs this program",
        ) from error
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}", _TOML) from error
    except ValueError as error:  # a NUL in the path
        raise ConfigError("the path of the config contains a NUL character") from error


def _permissions(path: Path) -> str:
    """A text with the permission bits and the owner of the file, if they can be read."""
    try:
        state = path.stat()
    except OSError:
        return ""
    return f"; its mode is {stat.filemode(state.st_mode)}, its owner is user {state.st_uid}"


def _first_definition(text: str, message: str) -> str:
    """A text with the line of the first definition, if the error is a second definition."""
    place = _PLACE.search(message)
    if place is None or not re.search("overwrite|twice|mutate|redefine|extend", message):
        return ""
    keys = dict(_keys(text.splitlines()[: int(place[1])]))
    wanted = keys.pop(int(place[1]), None)
    before = [line for line, key in keys.items() if key == wanted]
    return f"; the first definition is at line {before[-1]}" if wanted and before else ""


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


def _illegal_values(place: str, value: Any, depth: int) -> Iterator[str]:
    """Messages for legal TOML that no config may contain: deep nesting, dates, NUL, keys."""
    if depth == 0:
        yield f"{place[:80]}: values are nested more than {DEEPEST} levels deep"
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _illegal_values(f"{place}.{key}".lstrip("."), inner, depth - 1)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _illegal_values(f"{place}.{number}", inner, depth - 1)
    elif isinstance(value, date | time):
        yield f"{place}: no setting is a date or a time; put text in quotes"
    elif isinstance(value, str) and "\0" in value:
        yield f"{place}: the text contains a NUL character"
    elif isinstance(value, str) and "-----BEGIN" in value:
        yield (
            f"{place}: the config contains a key or certificate; write it into a file of its own, "
            "in the folder that certificates names"
        )
