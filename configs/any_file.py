"""Config files of any mode."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from configs.agreement import VerticalAgreement
from configs.federated_file import HorizontalConfig, LanguageConfig, is_federated, read_federated
from configs.horizontal import HorizontalAgreement
from configs.language import LanguageAgreement
from configs.schema import VerticalConfig, read_config


@dataclass(frozen=True, slots=True)
class Agreements:
    """The classes of the agreements of all modes, with the settings of all methods.

    Attributes:
        vertical: the agreement of the vertical mode.
        horizontal: the agreement of the horizontal mode.
        language: the agreement of the LLM mode.
    """

    vertical: type[VerticalAgreement]
    horizontal: type[HorizontalAgreement]
    language: type[LanguageAgreement]


def read_any(
    path: Path, agreements: Agreements, changes: Sequence[str] = ()
) -> VerticalConfig | HorizontalConfig | LanguageConfig:
    """Read the config file ``path``; its key ``mode`` selects the schema.

    Raises:
        ConfigError: the file is not a valid config; the message lists up to 20 problems.
    """
    if is_federated(path, changes):
        return read_federated(path, agreements.horizontal, agreements.language, changes)
    return read_config(path, agreements.vertical, changes)
