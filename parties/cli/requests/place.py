"""The options that say whose requests a command uses, the desk that they open, and who acts."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from configs.agreement import VerticalAgreement
from configs.config_file import ConfigFile
from configs.errors import ConfigError
from parties.cli.modes import read_runnable
from parties.data.party_settings import VerticalConfig
from parties.requests.local_desk import LocalDesk
from parties.requests.persons import PersonKey, PersonRole, read_person_key
from parties.session.setup import StartOptions
from parties.vertical.offline.local_desk import VerticalDesk, open_local_desk


@dataclass(frozen=True, slots=True)
class Place:
    """The options that say whose requests a command uses."""

    config: Path
    party: str
    out: Path
    certificates: Path | None
    master_key: Path | None
    changes: list[str]
    data: Path | None = None


def read_vertical(place: Place) -> VerticalConfig:
    """Read the config of a command.

    Raises:
        ConfigError: the config is not valid, or its mode keeps no model.
    """
    config = read_runnable(place.config, place.changes, place.party)
    if not isinstance(config.agreement, VerticalAgreement):
        raise ConfigError(
            f"{place.config} is the agreement of a {config.agreement.mode} run, but this command "
            "is for the vertical mode",
            "vfl unlearn --help lists the commands of all modes",
        )
    config.settings(place.party)
    return config


def read_keeping(place: Place) -> ConfigFile[Any, Any]:
    """Read the config of a command, in any mode.

    Raises:
        ConfigError: the config is not valid, or its parties keep no model.
    """
    config = read_runnable(place.config, place.changes, place.party)
    if not isinstance(config.agreement, VerticalAgreement) and (
        config.agreement.requests.keep != "model"
    ):
        raise ConfigError(
            f"{place.config} has requests.keep = 'nothing', so no model is kept for requests",
            "list the requests in the agreement of the run, or set requests.keep = 'model' at all "
            "parties, and train again",
        )
    config.settings(place.party)
    return config


@contextmanager
def local_desk(place: Place, *, attends: bool = True) -> Iterator[LocalDesk]:
    """Open the requests that ``place`` names in a ``with`` block, in any mode.

    Raises:
        ConfigError: the config is not valid, or its parties keep no model.
    """
    config = read_keeping(place)
    if isinstance(config.agreement, VerticalAgreement):
        with vertical_desk(place, attends=attends) as local:
            yield local
        return
    from parties.horizontal.service.desk import open_federated_local_desk

    options = StartOptions(place.out, place.data, place.certificates, master_key=place.master_key)
    with open_federated_local_desk(config, place.party, options, attends=attends) as found:
        yield found


@contextmanager
def vertical_desk(
    place: Place, *, reads_data: bool = False, attends: bool = True
) -> Iterator[VerticalDesk]:
    """Open the requests that ``place`` names in a ``with`` block, in the vertical mode.

    Raises:
        ConfigError: the config is not valid, or is of another mode.
    """
    config = read_vertical(place)
    options = StartOptions(place.out, place.data, place.certificates, master_key=place.master_key)
    how = {"reads_data": reads_data, "attends": attends}
    with open_local_desk(config, place.party, options, **how) as local:
        yield local


def acting_person(local: LocalDesk, path: Path | None, role: PersonRole) -> PersonKey | None:
    """Return the key of the person who acts, if the policy allows the action.

    Raises:
        PolicyError: the policy does not allow the action.
    """
    key = None if path is None else read_person_key(path)
    if key is not None and local.policy.automatic and not local.policy.persons:
        return key  # the party lists no persons: the key only signs
    return local.policy.acting(key, role)
