"""Every file that a program reads from its own folders is installed as package data."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
SETUP = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
PACKAGES = [name.removesuffix("*") for name in SETUP["packages"]["find"]["include"]]
READ = {".toml", ".html", ".css", ".js", ".proto"}


def test_every_package_data_file_is_installed() -> None:
    installed = {
        path
        for package, patterns in SETUP["package-data"].items()
        for pattern in patterns
        for path in (ROOT / package.replace(".", "/")).glob(pattern)
    }
    read = {path for name in PACKAGES for path in (ROOT / name).rglob("*") if path.suffix in READ}
    assert len(read) > 20
    assert read <= installed, read - installed
