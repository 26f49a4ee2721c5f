"""Party settings: addresses, keys and devices of one party, never sent to other parties."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeAlias

from pydantic import Field, field_validator

from configs.address import checked_address, checked_target
from configs.requests import PartyRequestSettings
from configs.table import ConfigTable, Name, PathText, Pin

# Device of a model; a GPU needs a CUDA build of torch.
Device: TypeAlias = Annotated[str, Field(pattern=r"^(cpu|cuda(:[0-9]{1,2})?)$")]


class PartySettingsBase(ConfigTable):
    """Settings that all parties have; a server of the horizontal mode has no other settings."""

    added_later: ClassVar[frozenset[str]] = frozenset({"requests", "former"})

    hub: str | None = None  # address of the hub, host:port, at a passive party or a client
    listen: str | None = None  # address to listen on, host:port, at an active party or a server
    certificates: PathText = Path("certs")  # folder with ca.pem, NAME.pem and NAME.key
    # Folder of relative data paths; absent: the folder of the config.
    folder: PathText | None = None
    denied: tuple[Pin, ...] = ()  # pins of revoked keys
    # File with more pins of revoked keys, one per line; the file is read again after a change.
    denied_file: PathText | None = None
    # By party, the pins of keys that it had before: they confirm old events of the journal of
    # requests, and no connection.
    former: dict[Name, tuple[Pin, ...]] = Field(default={})
    strict: bool = False  # whether warnings about keys and certificates are errors
    threads: Annotated[int, Field(ge=1, le=1024)] = 1  # number of threads for computation
    requests: PartyRequestSettings = PartyRequestSettings()

    @field_validator("hub")
    @classmethod
    def _target(cls, address: str | None) -> str | None:
        return address if address is None else checked_target(address)

    @field_validator("listen")
    @classmethod
    def _address(cls, address: str | None) -> str | None:
        return address if address is None else checked_address(address)

    def check(self, agreement: Any, name: str, path: Path) -> None:
        """Check the rules between the settings of party ``name`` and the agreement.

        ``path`` is the file with the settings.

        Raises:
            ConfigError: a rule is broken; the message names the key to change.
        """

    def check_inline(
        self, agreement: Any, name: str, inline: Mapping[str, "PartySettingsBase"]
    ) -> None:
        """Check the rules between these settings and the other settings in the same file.

        Args:
            agreement: the agreement.
            name: the party with these settings.
            inline: the settings of all parties in the file, by party name.

        Raises:
            ValueError: a rule is broken; the message names the keys to change.
        """
