"""Config files of the modes with a server: the agreement, and the settings of the parties."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from configs.errors import ConfigError
from configs.federated import FederatedAgreement
from configs.horizontal import HorizontalAgreement
from configs.language import LanguageAgreement
from configs.language_party_settings import (
    LanguageClientSettings,
    LanguageServerSettings,
    MuseTexts,
    TofuTexts,
)
from configs.party_settings import PartySettingsBase, RowPartySettings
from configs.schema import apply_change, config_error, validate_or_collect, validate_table
from configs.toml_file import read_toml

SIMULATED = "client"  # the table [settings.client] is for all simulated clients
MODES = ("horizontal", "llm")  # modes with a server
Agreement = TypeVar("Agreement", bound=FederatedAgreement)


@dataclass(frozen=True, slots=True)
class FederatedConfig:
    """A config file of a mode with a server: horizontal or LLM.

    Attributes:
        path: the file.
        agreement: the settings that all parties share.
        inline: the party settings that this file contains, by party name.
        notices: warnings about the files that were read so far.
    """

    path: Path
    agreement: FederatedAgreement
    inline: Mapping[str, PartySettingsBase]
    notices: list[str] = field(default_factory=list)

    def settings(self, name: str) -> PartySettingsBase:
        """The settings of party ``name``.

        The settings are in the config, in ``<name>.party.toml`` in the same folder, or, for a
        simulated client, in the config's table ``[settings.client]``.

        Raises:
            ConfigError: no party has this name, or the party's settings are missing or invalid.
        """
        known = (self.agreement.hub, *self.agreement.spokes)
        if name not in known:
            raise ConfigError(
                f"no party {name!r} in {self.path}", f"the parties are {', '.join(known[:20])}"
            )
        if name in self.inline:
            return self.inline[name]
        beside = self.path.with_name(f"{name}.party.toml")
        if beside.exists():
            kind = _settings_class(self.agreement, name)
            return validate_table(kind, read_toml(beside, self.notices), beside, "")
        if name not in self.agreement.parties and SIMULATED in self.inline:
            return self.inline[SIMULATED]
        raise ConfigError(
            f"{self.path} has no table [settings.{name}], and the file {beside} does not exist",
            f"write the settings of party {name} into {beside.name}; this file is never sent to "
            "other parties",
        )


@dataclass(frozen=True, slots=True)
class HorizontalConfig(FederatedConfig):
    """A config file of the horizontal mode: clients train a network on their rows."""

    agreement: HorizontalAgreement


@dataclass(frozen=True, slots=True)
class LanguageConfig(FederatedConfig):
    """A config file of the LLM mode: clients train a language model on their texts."""

    agreement: LanguageAgreement


def is_federated(path: Path, changes: Sequence[str] = ()) -> bool:
    """Return whether the config ``path`` has a mode with a server: horizontal or LLM."""
    return _read_table(path, changes, []).get("mode") in MODES


def read_federated(
    path: Path,
    horizontal: type[HorizontalAgreement],
    language: type[LanguageAgreement],
    changes: Sequence[str] = (),
) -> HorizontalConfig | LanguageConfig:
    """Read the config ``path`` and apply ``changes``, such as ``training.rounds=5``.

    Args:
        path: the file.
        horizontal: the class of an agreement of the horizontal mode.
        language: the class of an agreement of the LLM mode.
        changes: changed settings, in the form of ``--set``.

    Raises:
        ConfigError: the file is not a valid config; the message lists up to 20 problems.
    """
    if _read_table(path, changes, []).get("mode") == "llm":
        return read_language(path, language, changes)
    return read_horizontal(path, horizontal, changes)


def read_horizontal(
    path: Path, kind: type[HorizontalAgreement], changes: Sequence[str] = ()
) -> HorizontalConfig:
    """Read a config of the horizontal mode, whose agreement is of the class ``kind``.

    Raises:
        ConfigError: the config has another mode or is not valid; the message lists the problems.
    """
    notices: list[str] = []
    agreement, inline = _validated(path, _of_mode("horizontal", path, changes, notices), kind)
    return HorizontalConfig(path, agreement, inline, notices)


def read_language(
    path: Path, kind: type[LanguageAgreement], changes: Sequence[str] = ()
) -> LanguageConfig:
    """Read a config of the LLM mode, whose agreement is of the class ``kind``.

    Raises:
        ConfigError: the config has another mode or is not valid; the message lists the problems.
    """
    notices: list[str] = []
    agreement, inline = _validated(path, _of_mode("llm", path, changes, notices), kind)
    return LanguageConfig(path, agreement, inline, notices)


def _read_table(path: Path, changes: Sequence[str], notices: list[str]) -> dict[str, Any]:
    """The unchecked contents of a config, with changed settings."""
    raw = read_toml(path, notices)
    for change in changes:
        apply_change(raw, change)
    return raw


def _of_mode(mode: str, path: Path, changes: Sequence[str], notices: list[str]) -> dict[str, Any]:
    """The unchecked contents of a config that must not have another mode with a server."""
    raw = _read_table(path, changes, notices)
    found = raw.get("mode")
    if found in MODES and found != mode:
        raise ConfigError(f"{path}: mode must be {mode!r} (got {found!r})")
    return raw


def _validated(
    path: Path, raw: dict[str, Any], kind: type[Agreement]
) -> tuple[Agreement, dict[str, PartySettingsBase]]:
    """The agreement and the party settings of a config; raises ``ConfigError``."""
    problems: list[str] = []
    tables = raw.pop("settings", {})
    if not isinstance(tables, dict):
        raise ConfigError(
            f"{path}: 'settings' is not a table; write one table [settings.NAME] for each party"
        )
    agreement = validate_or_collect(kind, raw, "", problems)
    inline = {
        name: validate_or_collect(
            _settings_class(agreement, name), each, f"settings.{name}.", problems
        )
        for name, each in tables.items()
    }
    if agreement is None or problems:
        raise config_error(path, problems)
    strangers = sorted(set(tables) - {agreement.hub, *agreement.spokes, SIMULATED})
    if strangers:
        raise config_error(
            path, [f"[settings.{name}]: no party has this name" for name in strangers]
        )
    known = {name: each for name, each in inline.items() if each}
    if mismatch := _benchmark_mismatch(agreement, known):
        raise config_error(path, [mismatch])
    return agreement, known


def _benchmark_mismatch(
    agreement: FederatedAgreement, settings: Mapping[str, PartySettingsBase]
) -> str | None:
    """A message where the server's benchmark is about other texts than the clients forget."""
    server = settings.get(agreement.hub)
    asks = isinstance(agreement, LanguageAgreement) and agreement.evaluation.benchmark != "none"
    if not asks or not isinstance(server, LanguageServerSettings) or server.benchmark is None:
        return None
    for name, each in settings.items():
        data = each.data if isinstance(each, LanguageClientSettings) else None
        if isinstance(data, TofuTexts | MuseTexts) and data.kind == server.benchmark.kind:
            field = "forget" if data.kind == "tofu" else "corpus"
            theirs, ours = getattr(data, field), getattr(server.benchmark, field)
            if theirs != ours:
                return (
                    f"settings.{name}.data.{field} is {theirs!r}, and settings.{agreement.hub}."
                    f"benchmark.{field} is {ours!r}: the benchmark would measure other texts than "
                    "those that are forgotten; give both the same value"
                )
    return None


def _settings_class(agreement: FederatedAgreement | None, name: str) -> type[PartySettingsBase]:
    """The class of a party's settings; the server of the horizontal mode has no data."""
    hub = agreement is not None and name == agreement.hub
    if isinstance(agreement, LanguageAgreement):
        return LanguageServerSettings if hub else LanguageClientSettings
    return PartySettingsBase if hub else RowPartySettings
