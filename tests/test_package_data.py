"""What a program reads from its own folders goes with it when it is installed elsewhere."""

import tomllib
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).parents[1]
SETUP = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
PACKAGES = [name.removesuffix("*") for name in SETUP["packages"]["find"]["include"]]
READ = {".toml", ".html", ".css", ".proto"}


def test_every_file_that_a_program_reads_is_installed() -> None:
    named = {
        f"{package.replace('.', '/')}/{pattern}"
        for package, patterns in SETUP["package-data"].items()
        for pattern in patterns
    }
    files = [
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.suffix in READ
    ]
    assert len(files) > 20
    assert [each for each in files if not any(fnmatch(each, mask) for mask in named)] == []
