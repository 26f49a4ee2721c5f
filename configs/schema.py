"""The door of the configs: TOML in, a checked agreement and seats out, or a sentence that helps."""

import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from configs.agreement import Agreement
from configs.errors import ConfigError
from configs.keys import keys_at, nearest
from configs.seat import Seat

MAX_PROBLEMS = 20
_Model = TypeVar("_Model", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Config:
    """One config file: the agreement, and the seats that stand in it or beside it."""

    path: Path
    agreement: Agreement
    inline: Mapping[str, Seat]

    def seat(self, name: str) -> Seat:
        """The seat of party ``name``: inline, or the file ``<name>.seat.toml`` beside the config.

        Raises:
            ConfigError: no such party, or no such seat.
        """
        if name not in self.agreement.parties:
            raise ConfigError(
                f"no seat {name!r} in {self.path}",
                f"the seats are {', '.join(sorted(self.agreement.parties))}",
            )
        if name in self.inline:
            return self.inline[name]
        beside = self.path.with_name(f"{name}.seat.toml")
        if not beside.exists():
            raise ConfigError(
                f"{self.path} has no [seats.{name}] and {beside} does not exist",
                "the seat of a party is private: write it there",
            )
        return _validated(Seat, _toml(beside), beside, "")


def read_config(path: Path, changes: Sequence[str] = ()) -> Config:
    """Read ``path``; ``changes`` are settings of the agreement like ``training.epochs=5``.

    Raises:
        ConfigError: all problems of the file, at most 20, each with its place.
    """
    raw = _toml(path)
    seats = raw.pop("seats", {})
    if not isinstance(seats, dict):
        raise ConfigError(f"{path}: seats must be tables, [seats.<party>]")
    for change in changes:
        _change(raw, change)
    agreement = _validated(Agreement, raw, path, "")
    for stranger in set(seats) - set(agreement.parties):
        raise ConfigError(
            f"{path}: [seats.{stranger}] is no party of the agreement",
            f"the parties are {', '.join(sorted(agreement.parties))}",
        )
    inline = {name: _validated(Seat, seat, path, f"seats.{name}.") for name, seat in seats.items()}
    return Config(path, agreement, inline)


def canonical(agreement: Agreement) -> str:
    """The agreement with its defaults as canonical JSON: the text whose digest is compared."""
    content = agreement.model_dump(mode="json")
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def digest(agreement: Agreement) -> bytes:
    """SHA-256 of the canonical agreement."""
    return sha256(canonical(agreement).encode()).digest()


def differences(ours: str, theirs: str) -> list[tuple[str, Any, Any]]:
    """Fields that differ between two canonical agreements: (field, ours, theirs).

    Raises:
        ConfigError: theirs is not a JSON object.
    """
    try:
        other = json.loads(theirs)
    except (ValueError, RecursionError) as error:
        raise ConfigError("the peer's agreement is not JSON") from error
    if not isinstance(other, dict):
        raise ConfigError("the peer's agreement is not a JSON object")
    return list(_differences("", json.loads(ours), other))


def _differences(field: str, ours: Any, theirs: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in sorted(ours.keys() | theirs.keys()):
            yield from _differences(f"{field}.{key}".lstrip("."), ours.get(key), theirs.get(key))
    elif ours != theirs:
        yield field, ours, theirs


def _toml(path: Path) -> dict[str, Any]:
    try:
        text = path.read_bytes().removeprefix(b"\xef\xbb\xbf").decode()
        return tomllib.loads(text)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 at byte {error.start}") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: {error}") from error


def _change(raw: dict[str, Any], change: str) -> None:
    key, equals, text = change.partition("=")
    if not equals:
        raise ConfigError(f"{change!r} is no setting", "write it as training.epochs=5")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text
    *tables, last = key.strip().split(".")
    table: Any = raw
    for name in tables:
        table = table.setdefault(name, {}) if isinstance(table, dict) else None
    if not isinstance(table, dict):
        raise ConfigError(f"{key} is no setting: {'.'.join(tables)} is no table")
    table[last] = value


def _validated(model: type[_Model], raw: Any, path: Path, prefix: str) -> _Model:
    try:
        # JSON mode: TOML has lists where the model has tuples; numbers and texts stay strict.
        return model.model_validate_json(json.dumps(raw, default=str), strict=True)
    except ValidationError as error:
        problems = [_problem(model, issue, prefix) for issue in error.errors()[:MAX_PROBLEMS]]
        raise ConfigError("\n".join(f"{path}: {problem}" for problem in problems)) from error


def _problem(model: type[BaseModel], issue: Any, prefix: str) -> str:
    place = [str(part) for part in issue["loc"]]
    where = prefix + ".".join(place)
    if issue["type"] == "extra_forbidden":
        return f"unknown key {where!r}{nearest(place[-1], keys_at(model, place[:-1]))}"
    if issue["type"] == "missing":
        return f"{where!r} is missing"
    said = issue["msg"].removeprefix("Value error, ")
    return f"{where}: {said}" if where else said
