"""Settings of parties with rows: the data of a client, and of a party of the vertical mode."""

from pathlib import Path
from typing import Any, ClassVar, Self, TypeAlias

from pydantic import Field, model_validator

from configs.agreement import VerticalAgreement
from configs.config_file import ConfigFile
from configs.errors import ConfigError
from configs.party_settings import Device, PartySettingsBase
from configs.table import Name, PathText
from parties.data.sources.registry import Data


class RowPartySettings(PartySettingsBase):
    """Settings of a client in the horizontal mode."""

    data: Data  # rows of the party


class VerticalPartySettings(RowPartySettings):
    """Settings of a party in the vertical mode."""

    added_later: ClassVar[frozenset[str]] = frozenset({"top_module", "former"})

    device: Device = "cpu"  # device of the party's network: cpu, cuda or cuda:NUMBER
    # JSON file with statistics of public rows for preprocessing; absent: statistics of the
    # training rows.
    statistics: PathText | None = None
    module: str | None = None  # import path of the party's own bottom, "package.module:Class"
    # Import path of the active party's own top, "package.module:Class"; only for the active party.
    top_module: str | None = None
    # For each request without classes, a file with the IDs to forget, one ID per line; only for the
    # active party.
    unlearn: dict[Name, PathText] = Field(default={})

    @model_validator(mode="after")
    def _modules_are_import_paths(self) -> Self:
        for key, path in (("module", self.module), ("top_module", self.top_module)):
            if path is not None and path.count(":") != 1:
                raise ValueError(
                    f"the key {key!r} must be an import path such as mypackage.nets:Bottom"
                )
        return self

    def check(self, agreement: Any, name: str, path: Path) -> None:
        """Check that the settings contain no key of the other role, and no unused statistics.

        Raises:
            ConfigError: the settings contain such a key.
        """
        role = agreement.parties[name].role
        others = ("hub",) if role == "active" else ("listen", "unlearn", "top_module")
        for key in others:
            if getattr(self, key):
                other = "passive" if role == "active" else "active"
                raise ConfigError(
                    f"{path}: the key {key!r} is not allowed in the settings of the {role} party "
                    f"{name}",
                    f"remove the key {key!r}; only the settings of the {other} party may have "
                    "this key",
                )
        if self.statistics and getattr(self.data, "ranks", False):
            raise ConfigError(
                f"{path}: the settings of {name} contain the key 'statistics', and ranks = true in "
                "[data]; with 'statistics' the file says whether there are ranks",
                "remove ranks",
            )
        if self.statistics and agreement.preprocessing == "declared":
            raise ConfigError(
                f"{path}: the settings of {name} contain the key 'statistics', which is not used "
                "with preprocessing = 'declared'",
                "remove the key 'statistics' and set the keys 'ranges' and 'vocabulary' of the "
                "party's data, or set preprocessing = 'fitted' in the agreement",
            )


VerticalConfig: TypeAlias = ConfigFile[VerticalAgreement, VerticalPartySettings]
