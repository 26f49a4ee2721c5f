"""The import rule: psi imports itself, the standard library and three other packages."""

import ast
import sys
from pathlib import Path

import pytest

import psi

FILES = sorted(Path(psi.__file__).parent.glob("*.py"))
ALLOWED = {"psi", "numpy", "cryptography", "rbcl"} | sys.stdlib_module_names
FORBIDDEN = {"pickle", "marshal", "shelve", "random", "socket", "threading", "multiprocessing"}


def imported(source: str) -> set[str]:
    """The top-level names of all imports in ``source``."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add((node.module or "relative").split(".")[0])
    return names


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_psi_imports_only_allowed_packages(file: Path) -> None:
    names = imported(file.read_text())
    extra = {"numba"} if file.name == "column_kernels_numba.py" else set()
    assert names <= (ALLOWED | extra) - FORBIDDEN
    assert ("rbcl" in names) == (file.name == "group.py")


def test_planted_import_is_found() -> None:
    assert imported("from protocol.channel import Channel\nimport pickle") == {"protocol", "pickle"}
