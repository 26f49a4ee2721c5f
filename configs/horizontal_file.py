"""A horizontal config: the agreement, and the seats that stand in it or beside it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from configs.errors import ConfigError
from configs.horizontal import Horizontal
from configs.schema import changed, checked, refusal, validated
from configs.seat import Chair, Seat
from configs.toml_file import read_toml

SIMULATED = "client"  # the seat of all simulated clients


@dataclass(frozen=True, slots=True)
class HorizontalConfig:
    """One file.

    Attributes:
        notices: what was accepted in the files read so far, but deserves a word.
    """

    path: Path
    agreement: Horizontal
    inline: Mapping[str, Chair]
    notices: list[str] = field(default_factory=list)

    def seat(self, name: str) -> Chair:
        """The seat of party ``name``: inline, beside the config, or that of all simulated clients.

        Raises:
            ConfigError: no such party, or no such seat.
        """
        known = (self.agreement.hub, *self.agreement.spokes)
        if name not in known:
            raise ConfigError(
                f"no seat {name!r} in {self.path}", f"the seats are {', '.join(known[:20])}"
            )
        if name in self.inline:
            return self.inline[name]
        beside = self.path.with_name(f"{name}.seat.toml")
        if beside.exists():
            kind = _kind(self.agreement, name)
            return validated(kind, read_toml(beside, self.notices), beside, "")
        if name not in self.agreement.parties and SIMULATED in self.inline:
            return self.inline[SIMULATED]
        raise ConfigError(
            f"{self.path} has no [seats.{name}] and {beside} does not exist",
            "the seat of a party is private: write it there",
        )


def is_horizontal(path: Path, changes: Sequence[str] = ()) -> bool:
    """Whether a config is of this mode; what is wrong with it is told when it is read."""
    raw = read_toml(path, [])
    for change in changes:
        changed(raw, change)
    return raw.get("mode") == "horizontal"


def read_horizontal(path: Path, changes: Sequence[str] = ()) -> HorizontalConfig:
    """Read ``path``; ``changes`` are settings like ``training.rounds=5``.

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
    agreement = checked(Horizontal, raw, "", problems)
    inline = {
        name: checked(_kind(agreement, name), each, f"seats.{name}.", problems)
        for name, each in seats.items()
    }
    if agreement is None or problems:
        raise refusal(path, problems)
    strangers = sorted(set(seats) - {agreement.hub, *agreement.spokes, SIMULATED})
    if strangers:
        raise refusal(path, [f"[seats.{name}] is no party" for name in strangers])
    return HorizontalConfig(
        path, agreement, {n: each for n, each in inline.items() if each}, notices
    )


def _kind(agreement: Horizontal | None, name: str) -> type[Chair]:
    """What a party's seat has; the server's has no data."""
    return Chair if agreement is not None and name == agreement.hub else Seat
