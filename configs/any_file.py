"""A config of any mode, for what treats all modes alike."""

from collections.abc import Sequence
from pathlib import Path

from configs.federated_file import HorizontalConfig, LanguageConfig, is_federated, read_federated
from configs.schema import Config, read_config


def read_any(path: Path, changes: Sequence[str] = ()) -> Config | HorizontalConfig | LanguageConfig:
    """Read ``path`` as its ``mode`` says.

    Raises:
        ConfigError: all problems of the file, at most 20, each with its place.
    """
    if is_federated(path, changes):
        return read_federated(path, changes)
    return read_config(path, changes)
