"""Config files of all modes: validation, overrides by --set, party settings, digests."""

import json
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Generic, TypeAlias, TypeVar

from pydantic import BaseModel, ValidationError

from configs.agreement import VerticalAgreement
from configs.errors import LISTED, ConfigError
from configs.federated import FederatedAgreement
from configs.messages import issue_message
from configs.party_settings import PartySettingsBase
from configs.toml_file import DEEPEST, read_toml, toml_value

MAX_PROBLEMS = 20
MAX_NAMES = 20  # names of parties in one message
AnyAgreement: TypeAlias = VerticalAgreement | FederatedAgreement
_Model = TypeVar("_Model", bound=BaseModel)
Agreement_co = TypeVar("Agreement_co", bound=AnyAgreement, covariant=True)
Settings_co = TypeVar("Settings_co", bound=PartySettingsBase, covariant=True)


@dataclass(frozen=True, slots=True)
class ConfigSchema(Generic[Agreement_co, Settings_co]):
    """The classes of the tables in the config files of one mode.

    The registry of a mode builds its schema, with the settings of all methods and data sources.

    Attributes:
        mode: value of the key ``mode``.
        agreement: class of the agreement.
        hub: class of the settings of the party to which all others connect.
        spoke: class of the settings of the other parties.
        simulated: name of the table [settings.NAME] for all simulated parties; None if the mode
            has no simulated parties.
    """

    mode: str
    agreement: type[Agreement_co]
    hub: type[Settings_co]
    spoke: type[Settings_co]
    simulated: str | None = None


AnySchema: TypeAlias = ConfigSchema[Any, Any]


@dataclass(frozen=True, slots=True)
class ConfigFile(Generic[Agreement_co, Settings_co]):
    """One config file.

    Attributes:
        path: the file.
        schema: the classes of the file's tables.
        agreement: the settings that all parties share.
        inline: the party settings that this file contains, by party name.
        notices: warnings about the files that were read so far.
    """

    path: Path
    schema: ConfigSchema[Agreement_co, Settings_co]
    agreement: Agreement_co
    inline: Mapping[str, Settings_co]
    notices: list[str] = field(default_factory=list)

    def settings(self, name: str) -> Settings_co:
        """The settings of party ``name``.

        The settings are in the config, in ``<name>.party.toml`` in the same folder, or, for a
        simulated party, in the config's table for all simulated parties.

        Raises:
            ConfigError: no party has this name, or the party's settings are missing or invalid.
        """
        if name not in _names(self.agreement):
            raise ConfigError(f"no party {name!r} in {self.path}", _the_parties(self.agreement))
        settings, path = self._read(name)
        settings.check(self.agreement, name, path)
        return settings

    def _read(self, name: str) -> tuple[Settings_co, Path]:
        """The settings of a party, and the file that contains them."""
        if name in self.inline:
            return self.inline[name], self.path
        beside = self.path.with_name(f"{name}.party.toml")
        if beside.exists():
            kind = _settings_class(self.schema, self.agreement, name)
            return validate_table(kind, read_toml(beside, self.notices), beside, ""), beside
        if name not in self.agreement.parties and (simulated := self._simulated()) is not None:
            return simulated, self.path
        raise ConfigError(
            f"{self.path} has no table [settings.{name}], and the file {beside} does not exist",
            f"write the settings of party {name} into {beside.name}; this file is never sent to "
            "other parties",
        )

    def _simulated(self) -> Settings_co | None:
        """The settings of all simulated parties, if the file contains them."""
        return None if self.schema.simulated is None else self.inline.get(self.schema.simulated)


AnyConfig: TypeAlias = ConfigFile[AnyAgreement, PartySettingsBase]
FederatedConfig: TypeAlias = ConfigFile[FederatedAgreement, PartySettingsBase]


def read_config(
    path: Path, schema: ConfigSchema[Agreement_co, Settings_co], changes: Sequence[str] = ()
) -> ConfigFile[Agreement_co, Settings_co]:
    """Read the config ``path`` of one mode and apply ``changes``, such as ``training.epochs=5``.

    Raises:
        ConfigError: the config has another mode or is not valid; the message lists up to 20
            problems.
    """
    notices: list[str] = []
    raw = _read_table(path, (schema,), changes, notices)
    found = raw.get("mode", schema.mode)
    if isinstance(found, str) and found != schema.mode:
        raise ConfigError(f"{path}: mode must be {schema.mode!r} (got {found!r})")
    return _validated(path, raw, schema, notices)


def read_any(
    path: Path, schemas: Sequence[AnySchema], changes: Sequence[str] = ()
) -> ConfigFile[Any, Any]:
    """Read the config ``path``; its key ``mode`` selects the schema, by default the first one.

    Raises:
        ConfigError: the file is not a valid config; the message lists up to 20 problems.
    """
    notices: list[str] = []
    raw = _read_table(path, schemas, changes, notices)
    mode = raw.get("mode")
    schema = next((each for each in schemas if each.mode == mode), schemas[0])
    return _validated(path, raw, schema, notices)


def _read_table(
    path: Path, schemas: Sequence[AnySchema], changes: Sequence[str], notices: list[str]
) -> dict[str, Any]:
    """The unchecked contents of a config, with changed settings."""
    raw = read_toml(path, notices)
    known = {key for each in schemas for key in each.agreement.model_fields}
    for change in changes:
        apply_change(raw, change, known)
    return raw


def _validated(
    path: Path,
    raw: dict[str, Any],
    schema: ConfigSchema[Agreement_co, Settings_co],
    notices: list[str],
) -> ConfigFile[Agreement_co, Settings_co]:
    """The config with the contents ``raw``; raises ``ConfigError``."""
    problems: list[str] = []
    tables = raw.pop("settings", {})
    if not isinstance(tables, dict):
        raise ConfigError(
            f"{path}: 'settings' is not a table; write one table [settings.NAME] for each party"
        )
    agreement = validate_or_collect(schema.agreement, raw, "", problems)
    # Without an agreement the parties' roles are unknown, and a role may have its own settings.
    checked = tables if agreement is not None or schema.hub is schema.spoke else {}
    inline = {
        name: validate_or_collect(
            _settings_class(schema, agreement, name), table, f"settings.{name}.", problems
        )
        for name, table in checked.items()
    }
    if agreement is not None:
        strangers = set(tables) - {*_names(agreement), schema.simulated}
        problems += [
            f"[settings.{name}]: no party has this name; {_the_parties(agreement)}"
            for name in sorted(strangers)
        ]
    if agreement is None or problems:
        raise config_error(path, problems)
    known = {name: each for name, each in inline.items() if each}
    for name, each in known.items():
        try:
            each.check_inline(agreement, name, known)
        except ValueError as error:
            raise config_error(path, [str(error)]) from None
    return ConfigFile(path, schema, agreement, known, notices)


def _settings_class(
    schema: ConfigSchema[Any, Settings_co], agreement: AnyAgreement | None, name: str
) -> type[Settings_co]:
    """The class of the settings of party ``name``."""
    return schema.hub if agreement is not None and name == agreement.hub else schema.spoke


def _names(agreement: AnyAgreement) -> tuple[str, ...]:
    """The names of all parties: the named ones, sorted, then the simulated ones."""
    simulated = (each for each in agreement.spokes if each not in agreement.parties)
    return (*sorted(agreement.parties), *simulated)


def _the_parties(agreement: AnyAgreement) -> str:
    """The end of a message: the names of the first parties."""
    return f"the parties are {', '.join(_names(agreement)[:MAX_NAMES])}"


def canonical_agreement(agreement: AnyAgreement) -> str:
    """The agreement, defaults included, as canonical JSON: the input of ``agreement_digest``."""
    return json.dumps(
        agreement.canonical(), sort_keys=True, separators=(",", ":"), ensure_ascii=False
    )


def agreement_digest(agreement: AnyAgreement) -> bytes:
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
    elif (ours_named := _named(ours)) and (theirs_named := _named(theirs)):
        for name in dict.fromkeys([*ours_named, *theirs_named]):
            mine, other = ours_named.get(name), theirs_named.get(name)
            yield from _differences(f"{field}[{name!r}]", mine, other)
        yield from _order_differences(field, list(ours_named), list(theirs_named))
    elif ours != theirs:
        yield field, ours, theirs


def _order_differences(
    field: str, ours: list[str], theirs: list[str]
) -> Iterator[tuple[str, Any, Any]]:
    """The difference in the order of the names that both lists have."""
    first = [name for name in ours if name in theirs]
    second = [name for name in theirs if name in ours]
    places = [at for at, pair in enumerate(zip(first, second, strict=True)) if len({*pair}) > 1]
    if places:
        at = places[0]
        yield f"the order of {field} from place {at + 1}", first[at:], second[at:]


def _named(values: Any) -> dict[str, Any] | None:
    """Return tables in a list by their names; None if an entry has no name, or two the same."""
    tables = values if isinstance(values, list) else []
    names = [each.get("name") if isinstance(each, dict) else None for each in tables]
    if len(set(map(str, names))) < len(names) or not all(isinstance(each, str) for each in names):
        return None
    return dict(zip(map(str, names), tables, strict=True))


def apply_change(raw: dict[str, Any], change: str, known: Container[str]) -> None:
    """Set one value in the tables ``raw`` of a config, from a text like ``training.epochs=5``.

    ``known`` are the keys of an agreement; a message repeats no other word.

    Raises:
        ConfigError: ``change`` has no ``=``, names no setting, or has an illegal value.
    """
    key, equals, text = change.partition("=")
    if not equals:
        # An unknown word may be a secret that was typed by mistake, so it is not repeated.
        shown = repr(key) if key.split(".")[0] in known else "a change without '='"
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
