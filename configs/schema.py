"""Config files: validation of a TOML file, overrides by --set, digest of an agreement."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel, ValidationError

from configs.agreement import VerticalAgreement
from configs.errors import LISTED, ConfigError
from configs.messages import issue_message
from configs.party_settings import VerticalPartySettings
from configs.toml_file import DEEPEST, read_toml, toml_value

MAX_PROBLEMS = 20
_Model = TypeVar("_Model", bound=BaseModel)


class Dumpable(Protocol):
    """An agreement of any mode; ``model_dump`` returns the agreement as JSON values."""

    def model_dump(self, *, mode: str) -> dict[str, Any]:
        """Return all settings, defaults included, as a dictionary."""


@dataclass(frozen=True, slots=True)
class VerticalConfig:
    """One config file of the vertical mode.

    Attributes:
        path: the file.
        agreement: the settings that all parties share.
        inline: the party settings that this file contains, by party name.
        notices: warnings about the files that were read so far.
    """

    path: Path
    agreement: VerticalAgreement
    inline: Mapping[str, VerticalPartySettings]
    notices: list[str] = field(default_factory=list)

    def settings(self, name: str) -> VerticalPartySettings:
        """The settings of party ``name``, from the config or from the file ``<name>.party.toml``.

        Raises:
            ConfigError: no party has this name, or the party's settings are missing or invalid.
        """
        if name not in self.agreement.parties:
            raise ConfigError(
                f"no party {name!r} in {self.path}",
                f"the parties are {', '.join(sorted(self.agreement.parties))}",
            )
        if name in self.inline:
            return self._checked(name, self.inline[name], self.path)
        beside = self.path.with_name(f"{name}.party.toml")
        if not beside.exists():
            raise ConfigError(
                f"{self.path} has no table [settings.{name}], and the file {beside} does not exist",
                f"write the settings of party {name} into {beside.name}; this file is never sent "
                "to other parties",
            )
        settings = validate_table(
            VerticalPartySettings, read_toml(beside, self.notices), beside, ""
        )
        return self._checked(name, settings, beside)

    def _checked(
        self, name: str, settings: VerticalPartySettings, path: Path
    ) -> VerticalPartySettings:
        """The settings, once it is clear that they go with the role and the agreement."""
        role = self.agreement.parties[name].role
        others = ("hub",) if role == "active" else ("listen", "unlearn")
        for key in others:
            if getattr(settings, key):
                other = "passive" if role == "active" else "active"
                raise ConfigError(
                    f"{path}: the key {key!r} is not allowed in the settings of the {role} party "
                    f"{name}",
                    f"remove the key {key!r}; only the settings of the {other} party may have "
                    "this key",
                )
        if settings.statistics and self.agreement.preprocessing == "declared":
            raise ConfigError(
                f"{path}: the settings of {name} contain the key 'statistics', which is not used "
                "with preprocessing = 'declared'",
                "remove the key 'statistics' and set the keys 'ranges' and 'vocabulary' of the "
                "party's data, or set preprocessing = 'fitted' in the agreement",
            )
        return settings


def read_config(
    path: Path, kind: type[VerticalAgreement], changes: Sequence[str] = ()
) -> VerticalConfig:
    """Read the config ``path`` and apply ``changes``, such as ``training.epochs=5``.

    Raises:
        ConfigError: the file is not a valid config; the message lists up to 20 problems.
    """
    notices: list[str] = []
    problems: list[str] = []
    raw = read_toml(path, notices)
    for change in changes:
        apply_change(raw, change)
    tables = raw.pop("settings", {})
    if not isinstance(tables, dict):
        raise ConfigError(
            f"{path}: 'settings' is not a table; write one table [settings.NAME] for each party"
        )
    agreement = validate_or_collect(kind, raw, "", problems)
    inline = {
        name: validate_or_collect(VerticalPartySettings, each, f"settings.{name}.", problems)
        for name, each in tables.items()
    }
    if agreement is not None:
        parties = ", ".join(sorted(agreement.parties))
        strangers = sorted(set(tables) - set(agreement.parties))
        problems += [
            f"[settings.{name}]: no party has this name; the parties are {parties}"
            for name in strangers
        ]
    if agreement is None or problems:
        raise config_error(path, problems)
    known = {name: each for name, each in inline.items() if each}
    return VerticalConfig(path, agreement, known, notices)


def canonical_agreement(agreement: Dumpable) -> str:
    """The agreement, defaults included, as canonical JSON: the input of ``agreement_digest``."""
    content = agreement.model_dump(mode="json")
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def agreement_digest(agreement: Dumpable) -> bytes:
    """SHA-256 digest of the canonical agreement; all parties of a run must have the same digest."""
    return sha256(canonical_agreement(agreement).encode()).digest()


def agreement_differences(ours: str, theirs: str) -> list[tuple[str, Any, Any]]:
    """Return the differences of two canonical agreements, as (field, our value, their value).

    Raises:
        ConfigError: ``theirs`` is not a JSON object.
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


def apply_change(raw: dict[str, Any], change: str) -> None:
    """Set one value in the tables ``raw`` of a config, from a text like ``training.epochs=5``.

    Raises:
        ConfigError: ``change`` has no ``=``, names no setting, or has an illegal value.
    """
    key, equals, text = change.partition("=")
    if not equals:
        # An unknown word may be a secret that was typed by mistake, so it is not repeated.
        known = key.split(".")[0] in VerticalAgreement.model_fields
        shown = repr(key) if known else "a change without '='"
        raise ConfigError(
            f"{shown} is not of the form KEY=VALUE",
            "write the key of a setting, =, and the value, such as training.epochs=5",
        )
    *tables, last = key.strip().split(".")
    table: Any = raw
    for name in tables[:DEEPEST]:
        table = table.setdefault(name, {}) if isinstance(table, dict) else None
    if not isinstance(table, dict) or len(tables) > DEEPEST:
        raise ConfigError(f"{key} is not a setting, because {'.'.join(tables)} is not a table")
    table[last] = toml_value(key, text)


def validate_table(model: type[_Model], raw: Any, path: Path, prefix: str) -> _Model:
    """Validate the tables ``raw`` of the file ``path``; messages put ``prefix`` before keys.

    Raises:
        ConfigError: the tables are not valid; the message lists up to 20 problems.
    """
    problems: list[str] = []
    found = validate_or_collect(model, raw, prefix, problems)
    if found is None:
        raise config_error(path, problems)
    return found


def validate_or_collect(
    model: type[_Model], raw: Any, prefix: str, problems: list[str]
) -> _Model | None:
    """Validate ``raw``; if ``raw`` is invalid, append messages to ``problems`` and return None."""
    try:
        # JSON mode turns TOML's lists into the model's tuples; numbers and texts stay strict.
        return model.model_validate_json(json.dumps(raw), strict=True)
    except ValidationError as error:
        issues = error.errors(include_url=False)
        problems += [issue_message(model, issue, prefix) for issue in issues[:MAX_PROBLEMS]]
        return None


def config_error(path: Path, problems: list[str]) -> ConfigError:
    """Return an error that lists at most 20 ``problems`` of the file ``path``."""
    shown = [f"{path}: {each}" for each in problems[:MAX_PROBLEMS]]
    return ConfigError(shown, LISTED)
