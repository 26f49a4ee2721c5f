"""The agreements of all modes, and the optional libraries that an agreement needs."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from configs.agreement import BackboneBottom
from configs.any_file import Agreements, read_any
from configs.federated_file import HorizontalConfig, LanguageConfig
from configs.schema import VerticalConfig
from parties.common.libraries import require_extra
from parties.horizontal.registry import AGREEMENT as HORIZONTAL
from parties.language.registry import AGREEMENT as LANGUAGE
from parties.vertical.methods.registry import AGREEMENT as VERTICAL

AGREEMENTS: Final = Agreements(VERTICAL, HORIZONTAL, LANGUAGE)
AnyModeConfig = VerticalConfig | HorizontalConfig | LanguageConfig


def read_runnable(path: Path, changes: Iterable[str], party: str | None = None) -> AnyModeConfig:
    """Read a config of any mode whose optional libraries are installed.

    Args:
        path: the config file.
        changes: changed settings, in the form of ``--set``.
        party: the party that runs here; None for all parties.

    Raises:
        ConfigError: the file is not a valid config, or a library is not installed.
    """
    config = read_any(path, AGREEMENTS, tuple(changes))
    _require_libraries(config, party)
    return config


def _require_libraries(config: AnyModeConfig, party: str | None) -> None:
    """Raise ``ConfigError`` if a library that the agreement needs at ``party`` is missing."""
    if isinstance(config, VerticalConfig):
        for name, entry in config.agreement.parties.items():
            if party in (None, name) and isinstance(entry.bottom, BackboneBottom):
                require_extra("vision", f"the bottom model {entry.bottom.kind} of party {name}")
        return
    if isinstance(config, LanguageConfig):
        require_extra("llm", "the LLM mode")
    elif config.agreement.model.kind == "resnet18":
        require_extra("vision", "model.kind = 'resnet18'")
    # Simulated clients do not encrypt.
    if config.agreement.aggregation.kind == "ckks" and not config.agreement.clients:
        require_extra("ckks", "aggregation.kind = 'ckks'")
