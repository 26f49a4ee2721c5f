"""Optional libraries: a command that needs a missing one names the command that installs it."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from configs.errors import ConfigError
from parties import __version__
from parties.cli.main import app, party_app, simulate_app
from parties.common.libraries import EXTRA_OF, library_versions, require_extra

ROOT = Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
DISTRIBUTIONS = {"rouge_score": "rouge-score"}  # import names that differ
CLIENTS = """
federation = "wards"
mode = "horizontal"
shape = [1, 8, 8]
labels = { classes = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"] }
unlearning = { method = "fine-tune" }
model = { kind = "MODEL" }
aggregation = { kind = "SUMS" }

[parties]
server = { role = "server" }
north = { role = "client" }
south = { role = "client" }
west = { role = "client" }

[settings.server]
listen = "127.0.0.1:7709"
"""


def vfl(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200", "VFL_DATA": None})


def test_every_optional_library_is_in_its_extra() -> None:
    extras = PROJECT["optional-dependencies"]
    for library, extra in EXTRA_OF.items():
        name = DISTRIBUTIONS.get(library, library)
        assert any(each.startswith(name) for each in extras[extra]), library
    assert set(EXTRA_OF.values()) == set(extras) - {"dev"}
    assert extras["dev"][0] == f"vfl[{','.join(each for each in extras if each != 'dev')}]"


def test_no_optional_library_is_a_core_dependency() -> None:
    core = PROJECT["dependencies"]
    for library in EXTRA_OF:
        name = DISTRIBUTIONS.get(library, library)
        assert not [each for each in core if each.startswith(name)]


@pytest.mark.parametrize("library", sorted(EXTRA_OF))
def test_missing_library_is_refused_with_the_command(
    library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)  # as if it were not installed
    with pytest.raises(ConfigError, match="the trial needs the library") as error:
        require_extra(EXTRA_OF[library], "the trial")
    assert error.value.hint == f"run: pip install 'vfl[{EXTRA_OF[library]}]'"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("library", "arguments", "purpose"),
    [
        ("torchvision", ["simulate", "cifar10"], "the bottom model resnet18 of party left"),
        ("transformers", ["simulate", "tofu"], "the LLM mode"),
        ("peft", ["doctor", "configs/llm/tofu.toml", "--party", "server"], "the LLM mode"),
        ("transformers", ["language", "digest", "."], "this command"),
    ],
    ids=["backbone", "language", "doctor", "command"],
)
def test_command_without_its_library_is_refused_before_the_run(
    library: str, arguments: list[str], purpose: str
) -> None:
    """In a process of its own, because other tests have imported the library already."""
    script = (
        f"import sys; sys.modules[{library!r}] = None; from parties.cli.main import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        capture_output=True, text=True, cwd=ROOT, check=False,
    )  # fmt: skip
    output = " ".join((done.stdout + done.stderr).split())
    assert f"{purpose} needs the library {library}" in output
    assert f"pip install 'vfl[{EXTRA_OF[library]}]'" in output
    assert done.returncode == 3


@pytest.mark.parametrize(
    ("library", "model", "sums", "purpose"),
    [
        ("tenseal", "lenet5", "ckks", "aggregation.kind = 'ckks'"),
        ("torchvision", "resnet18", "none", "model.kind = 'resnet18'"),
    ],
    ids=["ckks", "resnet18"],
)
def test_clients_without_their_library_are_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    library: str,
    model: str,
    sums: str,
    purpose: str,
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    config = tmp_path / "wards.toml"
    config.write_text(CLIENTS.replace("MODEL", model).replace("SUMS", sums))
    result = vfl("simulate", str(config), "--out", str(tmp_path / "runs"))
    assert f"{purpose} needs the library {library}" in result.output
    assert f"pip install 'vfl[{EXTRA_OF[library]}]'" in result.output
    assert result.exit_code == 3


def test_party_without_its_library_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchvision", None)
    config = str(ROOT / "configs" / "vertical" / "cifar10.toml")
    command = ["--config", config, "--role", "passive", "--party", "left"]
    result = CliRunner().invoke(party_app, command, env={"COLUMNS": "200"})
    assert "pip install 'vfl[vision]'" in result.output
    assert result.exit_code == 3


# --- version and completion -----------------------------------------------------------------------


@pytest.mark.parametrize("program", [app, party_app, simulate_app])
def test_version_is_printed_without_other_options(program: object) -> None:
    result = CliRunner().invoke(program, ["--version"])  # type: ignore[call-overload]
    assert (result.output, result.exit_code) == (f"vfl {__version__}, protocol 3\n", 0)


def test_reports_and_doctor_use_the_same_version() -> None:
    assert library_versions(["vfl"]) == {"vfl": __version__}


@pytest.mark.parametrize("program", [app, party_app, simulate_app])
def test_shell_completion_can_be_installed(
    program: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The shell is named here; else Typer looks for it among the parents of this process.
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    result = CliRunner().invoke(program, ["--show-completion", "bash"])  # type: ignore[call-overload]
    assert result.exit_code == 0, result.output
    assert "complete" in result.output


def test_runs_are_listed_with_one_line_each() -> None:
    lines = vfl("runs").output.splitlines()
    assert "digits " in "\n".join(lines)
    assert len(lines) == len(list((ROOT / "configs").glob("[!b]*/*.toml")))
