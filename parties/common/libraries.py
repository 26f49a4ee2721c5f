"""Libraries: versions, and optional libraries, which extras such as ``[ckks]`` install."""

from collections.abc import Iterable
from importlib.metadata import version
from importlib.util import find_spec
from typing import Final, Literal, TypeAlias

from configs.errors import ConfigError
from parties import __version__

Extra: TypeAlias = Literal["vision", "ckks", "llm", "ray", "postgres", "fast", "mlflow"]
EXTRA_OF: Final[dict[str, Extra]] = {  # by import name of the library
    "torchvision": "vision",
    "tenseal": "ckks",
    "peft": "llm",
    "rouge_score": "llm",
    "tokenizers": "llm",
    "transformers": "llm",
    "ray": "ray",
    "psycopg": "postgres",
    "numba": "fast",
    "mlflow": "mlflow",
}


def library_versions(names: Iterable[str]) -> dict[str, str]:
    """Return the versions of installed packages by name; ``vfl`` is this program."""
    return {name: __version__ if name == "vfl" else version(name) for name in names}


def missing_library(library: str, purpose: str = "this command") -> ConfigError:
    """Return the error for an optional library, an entry of ``EXTRA_OF``, that is not installed."""
    return ConfigError(
        f"{purpose} needs the library {library}, which is not installed",
        f"run: {install_command(EXTRA_OF[library])}",
    )


def install_command(extra: Extra) -> str:
    """Return the command that installs an extra."""
    return f"pip install 'vfl[{extra}]'"


def require_extra(extra: Extra, purpose: str) -> None:
    """Check that all libraries of an extra are installed, without importing them.

    Args:
        extra: name of the extra.
        purpose: what needs the extra, as the subject of the error's sentence.

    Raises:
        ConfigError: a library is not installed; the hint has the command that installs it.
    """
    for library, owner in EXTRA_OF.items():
        if owner == extra and find_spec(library) is None:
            raise missing_library(library, purpose)
