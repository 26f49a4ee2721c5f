"""The wheel, installed without extras in an environment outside the checkout, runs the demo."""

import json
import re
import shutil
import subprocess
import sys
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

from parties import __version__

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PACKAGES = [each.removesuffix("*") for each in PROJECT["tool"]["setuptools"]["packages"]["find"]["include"]]  # fmt: skip  # noqa: E501
SHORT = [
    "training.epochs=1",
    "unlearning.retrains=2",
    "unlearning.fedora.iterations=1",
    'unlearning.compare=["fine-tune", "relabel"]',
]


def test_license_is_the_one_that_the_project_names() -> None:
    assert PROJECT["project"]["license"] == "Apache-2.0"
    assert PROJECT["project"]["license-files"] == ["LICENSE"]
    text = (ROOT / "LICENSE").read_text()
    assert text.lstrip().startswith("Apache License\n")
    assert "9. Accepting Warranty or Additional Liability" in text
    assert "APPENDIX: How to apply the Apache License to your work" in text


def test_version_has_one_source() -> None:
    assert PROJECT["project"]["dynamic"] == ["version"]
    assert PROJECT["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "parties.__version__"}
    assert f"## [{__version__}]" in (ROOT / "CHANGELOG.md").read_text()


def test_torch_has_a_range_in_the_metadata_and_a_pin_in_the_constraints() -> None:
    assert "torch>=2.11" in PROJECT["project"]["dependencies"]
    pins = (ROOT / "constraints.txt").read_text().splitlines()
    assert [each for each in pins if re.fullmatch(r"torch==[\d.]+", each)]
    assert all("==" in each for each in pins if each and not each.startswith("#"))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy, so that no build folder appears in the checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in (*PACKAGES, "vfl.py", "pyproject.toml", "README.md", "LICENSE"):
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder / name)
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*build, "--wheel-dir", str(folder), str(folder)], check=True)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The ``bin`` folder of an environment that has the wheel and its core dependencies alone."""
    folder = tmp_path_factory.mktemp("installed") / "venv"
    venv.create(folder, with_pip=True)
    install = [str(folder / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check"]
    pinned = ["--constraint", str(ROOT / "constraints.txt"), str(wheel)]
    subprocess.run([*install, *pinned], check=True)
    return folder / "bin"


def vfl(installed: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(installed / "vfl"), *arguments],
        cwd=folder, capture_output=True, text=True, check=False, timeout=500,
        env={"PATH": "/usr/bin:/bin", "HOME": str(folder), "OMP_NUM_THREADS": "1"},
    )  # fmt: skip


@pytest.mark.slow
def test_wheel_has_the_license_the_version_and_the_types(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        info = f"vfl-{__version__}.dist-info"
        metadata = archive.read(f"{info}/METADATA").decode()
        assert archive.read(f"{info}/licenses/LICENSE") == (ROOT / "LICENSE").read_bytes()
    assert {f"{package}/py.typed" for package in PACKAGES} <= names
    assert "vfl.py" in names
    assert f"Version: {__version__}\n" in metadata
    assert "License-Expression: Apache-2.0\n" in metadata
    assert 'Requires-Dist: tenseal>=0.3.16; extra == "ckks"\n' in metadata
    assert not [each for each in names if each.startswith(("tests/", "docs/"))]


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_wheel_runs_the_demo_outside_the_checkout(installed: Path, tmp_path: Path) -> None:
    version = vfl(installed, tmp_path, "--version")
    assert version.stdout.startswith(f"vfl {__version__}, protocol ")
    listed = vfl(installed, tmp_path, "runs", "--format", "json").stdout.splitlines()
    paths = {each["name"]: Path(each["path"]) for each in map(json.loads, listed)}
    assert len(paths) == len(list((ROOT / "configs").glob("[!b]*/*.toml")))
    assert not paths["digits"].is_relative_to(ROOT)
    changes = [part for change in SHORT for part in ("--set", change)]
    run = vfl(installed, tmp_path, "simulate", "digits", *changes)
    assert run.returncode == 0, run.stderr
    metrics = json.loads((tmp_path / "runs" / "digits" / "metrics.json").read_text())
    assert metrics["run"]["software"]["vfl"] == __version__
    assert metrics["run"]["common_rows"] == 1533
    assert (tmp_path / "runs" / "digits" / "report.html").exists()


PROGRAM = """
import vfl

run = vfl.simulate("digits", progress=False, training={"epochs": 1}, unlearning={"retrains": 0,
    "compare": []}, unlearn=[])
print(len(run.predict(["digits:1", "digits:2"])), run.report())
"""


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_installed_module_runs_a_federation(installed: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [str(installed / "python"), "-c", PROGRAM],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=500,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.stdout == "2 runs/digits/report.html\n", done.stderr


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("run", "extra"), [("cifar10", "vision"), ("tofu", "llm")])
def test_run_without_its_extra_is_refused_with_the_command(
    installed: Path, tmp_path: Path, run: str, extra: str
) -> None:
    refused = vfl(installed, tmp_path, "simulate", run)
    assert refused.returncode == 3
    assert f"pip install 'vfl[{extra}]'" in refused.stderr
