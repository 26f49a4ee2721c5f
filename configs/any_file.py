"""Config files of any mode."""

from collections.abc import Sequence
from pathlib import Path

from configs.federated_file import HorizontalConfig, LanguageConfig, is_federated, read_federated
from configs.schema import VerticalConfig, read_config


def read_any(
    path: Path, changes: Sequence[str] = ()
) -> VerticalConfig | HorizontalConfig | LanguageConfig:
    """Read the config ``path`` as a config of the mode that its key ``mode`` names.

    Raises:
        ConfigError: all problems of the file, at most 20, each with its place.
    """
    if is_federated(path, changes):
        return read_federated(path, changes)
    return read_config(path, changes)
