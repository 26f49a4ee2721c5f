"""A config of a server and its clients: the agreement, and the seats that stand in it or beside."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from configs.errors import ConfigError
from configs.federated import Federated
from configs.horizontal import Horizontal
from configs.language import Language
from configs.language_seat import LanguageServerSeat, MuseTexts, TextSeat, TofuTexts
from configs.schema import changed, checked, refusal, validated
from configs.seat import Chair, RowSeat
from configs.toml_file import read_toml

SIMULATED = "client"  # the seat of all simulated clients
MODES: dict[str, type[Horizontal | Language]] = {"horizontal": Horizontal, "llm": Language}


@dataclass(frozen=True, slots=True)
class FederatedConfig:
    """One file.

    Attributes:
        notices: what was accepted in the files read so far, but deserves a word.
    """

    path: Path
    agreement: Federated
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


@dataclass(frozen=True, slots=True)
class HorizontalConfig(FederatedConfig):
    """A file whose clients learn a network on rows."""

    agreement: Horizontal


@dataclass(frozen=True, slots=True)
class LanguageConfig(FederatedConfig):
    """A file whose clients learn a language model."""

    agreement: Language


def is_federated(path: Path, changes: Sequence[str] = ()) -> bool:
    """Whether a config is of these modes; what is wrong with it is told when it is read."""
    raw = read_toml(path, [])
    for change in changes:
        changed(raw, change)
    return raw.get("mode") in MODES


def read_federated(path: Path, changes: Sequence[str] = ()) -> HorizontalConfig | LanguageConfig:
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
    agreement = checked(MODES.get(str(raw.get("mode")), Horizontal), raw, "", problems)
    inline = {
        name: checked(_kind(agreement, name), each, f"seats.{name}.", problems)
        for name, each in seats.items()
    }
    if agreement is None or problems:
        raise refusal(path, problems)
    strangers = sorted(set(seats) - {agreement.hub, *agreement.spokes, SIMULATED})
    if strangers:
        raise refusal(path, [f"[seats.{name}] is no party" for name in strangers])
    known = {n: each for n, each in inline.items() if each}
    if apart := _forgets_other(agreement, known):
        raise refusal(path, [apart])
    if isinstance(agreement, Language):
        return LanguageConfig(path, agreement, known, notices)
    return HorizontalConfig(path, agreement, known, notices)


def read_horizontal(path: Path, changes: Sequence[str] = ()) -> HorizontalConfig:
    """Read a config whose clients learn a network on rows.

    Raises:
        ConfigError: it is of another mode, or see ``read_federated``.
    """
    config = read_federated(path, changes)
    if not isinstance(config, HorizontalConfig):
        raise ConfigError(f"{path}: mode is {config.agreement.mode!r}, not 'horizontal'")
    return config


def read_language(path: Path, changes: Sequence[str] = ()) -> LanguageConfig:
    """Read a config whose clients learn a language model.

    Raises:
        ConfigError: it is of another mode, or see ``read_federated``.
    """
    config = read_federated(path, changes)
    if not isinstance(config, LanguageConfig):
        raise ConfigError(f"{path}: mode is {config.agreement.mode!r}, not 'llm'")
    return config


def _forgets_other(agreement: Federated, seats: Mapping[str, Chair]) -> str | None:
    """Whether the server would measure on other texts than those that clients forget."""
    server = seats.get(agreement.hub)
    asks = isinstance(agreement, Language) and agreement.evaluation.benchmark != "none"
    if not asks or not isinstance(server, LanguageServerSeat) or server.benchmark is None:
        return None
    for name, seat in seats.items():
        data = seat.data if isinstance(seat, TextSeat) else None
        if isinstance(data, TofuTexts | MuseTexts) and data.kind == server.benchmark.kind:
            field = "forget" if data.kind == "tofu" else "corpus"
            theirs, ours = getattr(data, field), getattr(server.benchmark, field)
            if theirs != ours:
                return (
                    f"seats.{name}.data.{field} is {theirs!r}, and seats.{agreement.hub}."
                    f"benchmark.{field} is {ours!r}: figures would be of other texts"
                )
    return None


def _kind(agreement: Federated | None, name: str) -> type[Chair]:
    """What a party's seat has; the server's of networks on rows has no data."""
    hub = agreement is not None and name == agreement.hub
    if isinstance(agreement, Language):
        return LanguageServerSeat if hub else TextSeat
    return Chair if hub else RowSeat
