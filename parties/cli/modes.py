"""The config files of all modes: their schemas, and the optional libraries that a config needs."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from configs.agreement import BackboneBottom, VerticalAgreement
from configs.config_file import AnyAgreement, AnySchema, ConfigFile, read_any
from configs.horizontal import HorizontalAgreement
from configs.language import LanguageAgreement
from parties.common.libraries import require_extra
from parties.horizontal.registry import SCHEMA as HORIZONTAL
from parties.language.registry import SCHEMA as LANGUAGE
from parties.vertical.methods.registry import SCHEMA as VERTICAL

# With the settings of methods and data sources.
SCHEMAS: Final[tuple[AnySchema, ...]] = (VERTICAL, HORIZONTAL, LANGUAGE)


def read_runnable(
    path: Path, changes: Iterable[str], party: str | None = None
) -> ConfigFile[Any, Any]:
    """Read a config of any mode whose optional libraries are installed.

    Args:
        path: the config file.
        changes: changed settings, in the form of ``--set``.
        party: the party that runs here; None for all parties.

    Raises:
        ConfigError: the file is not a valid config, or a library is not installed.
    """
    config = read_any(path, SCHEMAS, tuple(changes))
    _require_libraries(config.agreement, party)
    return config


def _require_libraries(agreement: AnyAgreement, party: str | None) -> None:
    """Raise ``ConfigError`` if a library that the agreement needs at ``party`` is missing."""
    if isinstance(agreement, VerticalAgreement):
        for name, entry in agreement.parties.items():
            if party in (None, name) and isinstance(entry.bottom, BackboneBottom):
                require_extra("vision", f"the bottom model {entry.bottom.kind} of party {name}")
        return
    if isinstance(agreement, LanguageAgreement):
        require_extra("llm", "the LLM mode")
    elif isinstance(agreement, HorizontalAgreement) and agreement.model.kind == "resnet18":
        require_extra("vision", "model.kind = 'resnet18'")
    if agreement.aggregation.kind == "ckks" and not agreement.clients:  # simulated: no encryption
        require_extra("ckks", "aggregation.kind = 'ckks'")
