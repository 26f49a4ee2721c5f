"""Options of a party's start: folders, handling of checkpoints, and address of the hub."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from configs.errors import ConfigError

if TYPE_CHECKING:  # the command line imports this module for --help
    from configs.party_settings import PartySettingsBase


NEWEST = "newest"  # in place of the number of a version


class Begin(StrEnum):
    """What a party does at its start with the checkpoints of an unfinished run."""

    AUTO = "auto"  # resume from checkpoints if there are any
    FRESH = "fresh"  # remove checkpoints and start from the beginning
    RESUME = "resume"  # fail if there is no checkpoint


@dataclass(frozen=True, slots=True)
class StartOptions:
    """Options of one start of a party, which take precedence over the party settings."""

    out: Path  # folder of the runs
    data: Path | None = None  # folder in which relative data paths are resolved
    certificates: Path | None = None  # folder of the party's key and certificates
    begin: Begin = Begin.AUTO  # how to use the checkpoints of an unfinished run
    # Whether ``vfl simulate`` started this party on the machine of all parties. ``vfl simulate``
    # notices when a party ends, so a supervised party waits without a limit.
    supervised: bool = False
    master_key: Path | None = None  # file of the key that wraps the keys of sealed files
    serves: bool = False  # whether the party carries out requests with a kept model
    replays: str = ""  # ID of the request that the party replays; empty otherwise
    # The kept version from which a training goes on, a number or ``NEWEST``; empty: new weights.
    continues: str = ""


def data_folder(config: Path, settings: "PartySettingsBase", given: Path | None) -> Path:
    """Return the folder in which the relative data paths of a party are resolved.

    It is ``given``, or else the folder in the settings, relative to the folder of the file
    ``config``.
    """
    return given or config.parent / (settings.folder or Path())


def hub_address(settings: "PartySettingsBase", name: str, given: str | None) -> str:
    """Return the address ``given``; if it is empty, the address in the settings of ``name``.

    Raises:
        ConfigError: ``given`` is empty, and the settings contain no address.
    """
    address = given or settings.hub or settings.listen
    if address is None:
        raise ConfigError(
            f"the settings of {name} contain neither the key 'hub' nor the key 'listen'",
            'add hub = "host:7700" to the settings, or give --hub',
        )
    return address
