"""The door of the configs: TOML in, a checked agreement and seats out, or a sentence that helps."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel, ValidationError

from configs.agreement import Agreement
from configs.errors import LISTED, ConfigError
from configs.problems import problem
from configs.seat import Seat
from configs.toml_file import DEEPEST, read_toml, toml_value

MAX_PROBLEMS = 20
_Model = TypeVar("_Model", bound=BaseModel)


class Dumped(Protocol):
    """What can be written as plain values: an agreement of any mode."""

    def model_dump(self, *, mode: str) -> dict[str, Any]:
        """All settings, defaults included."""


@dataclass(frozen=True, slots=True)
class Config:
    """One config file: the agreement, and the seats that stand in it or beside it.

    Attributes:
        notices: what was accepted in the files read so far, but deserves a word.
    """

    path: Path
    agreement: Agreement
    inline: Mapping[str, Seat]
    notices: list[str] = field(default_factory=list)

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
            return self._fitting(name, self.inline[name], self.path)
        beside = self.path.with_name(f"{name}.seat.toml")
        if not beside.exists():
            raise ConfigError(
                f"{self.path} has no [seats.{name}] and {beside} does not exist",
                "the seat of a party is private: write it there",
            )
        seat = validated(Seat, read_toml(beside, self.notices), beside, "")
        return self._fitting(name, seat, beside)

    def _fitting(self, name: str, seat: Seat, path: Path) -> Seat:
        """The seat, unless it sets what only the other role has."""
        role = self.agreement.parties[name].role
        others = ("hub",) if role == "active" else ("listen", "unlearn")
        for key in others:
            if getattr(seat, key):
                other = "passive" if role == "active" else "active"
                raise ConfigError(
                    f"{path}: {key} in the seat of {name}, which is {role}",
                    f"only the {other} party has {key}",
                )
        if seat.statistics and self.agreement.preprocessing == "declared":
            raise ConfigError(
                f"{path}: statistics in the seat of {name}, but the agreement says "
                "preprocessing = 'declared', which does not look at them",
                "ranges and vocabulary of the seat's data are used: take statistics out, or agree "
                "on preprocessing = 'fitted'",
            )
        return seat


def read_config(path: Path, changes: Sequence[str] = ()) -> Config:
    """Read ``path``; ``changes`` are settings like ``training.epochs=5``, or of a seat in the file.

    Raises:
        ConfigError: all problems of the file, at most 20, each with its place.
    """
    notices: list[str] = []
    problems: list[str] = []
    raw = read_toml(path, notices)
    for change in changes:
        changed(raw, change)
    seats = raw.pop("seats", {})
    if not isinstance(seats, dict):
        raise ConfigError(f"{path}: seats must be tables, [seats.<party>]")
    agreement = checked(Agreement, raw, "", problems)
    inline = {name: checked(Seat, seat, f"seats.{name}.", problems) for name, seat in seats.items()}
    if agreement is not None:
        parties = ", ".join(sorted(agreement.parties))
        strangers = sorted(set(seats) - set(agreement.parties))
        problems += [f"[seats.{name}] is no party; the parties are {parties}" for name in strangers]
    if agreement is None or problems:
        raise refusal(path, problems)
    return Config(path, agreement, {name: seat for name, seat in inline.items() if seat}, notices)


def canonical(agreement: Dumped) -> str:
    """The agreement with its defaults as canonical JSON: the text whose digest is compared."""
    content = agreement.model_dump(mode="json")
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def digest(agreement: Dumped) -> bytes:
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


def changed(raw: dict[str, Any], change: str) -> None:
    """Carry out one change, like ``training.epochs=5``."""
    key, equals, text = change.partition("=")
    if not equals:
        known = key.split(".")[0] in Agreement.model_fields  # else it may be anything: not shown
        shown = repr(key) if known else "a change without '='"
        raise ConfigError(f"{shown} is no setting", "write it as training.epochs=5")
    *tables, last = key.strip().split(".")
    table: Any = raw
    for name in tables[:DEEPEST]:
        table = table.setdefault(name, {}) if isinstance(table, dict) else None
    if not isinstance(table, dict) or len(tables) > DEEPEST:
        raise ConfigError(f"{key} is no setting: {'.'.join(tables)} is no table")
    table[last] = toml_value(key, text)


def validated(model: type[_Model], raw: Any, path: Path, prefix: str) -> _Model:
    """The model of what a file has; raises ``ConfigError`` with all its problems."""
    problems: list[str] = []
    found = checked(model, raw, prefix, problems)
    if found is None:
        raise refusal(path, problems)
    return found


def checked(model: type[_Model], raw: Any, prefix: str, problems: list[str]) -> _Model | None:
    """The model of ``raw``; None where something is wrong, which is added to ``problems``."""
    try:
        # JSON mode: TOML has lists where the model has tuples; numbers and texts stay strict.
        return model.model_validate_json(json.dumps(raw), strict=True)
    except ValidationError as error:
        issues = error.errors(include_url=False)
        problems += [problem(model, issue, prefix) for issue in issues[:MAX_PROBLEMS]]
        return None


def refusal(path: Path, problems: list[str]) -> ConfigError:
    """An error that lists the problems of a file."""
    shown = [f"{path}: {each}" for each in problems[:MAX_PROBLEMS]]
    return ConfigError(shown, LISTED)
