"""The house: who may import whom, what may not be used at all, and how long things may be."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PILLARS = ("protocol", "psi", "unlearning", "models", "configs")
PRODUCT = (*PILLARS, "parties")
MAY_TOUCH_THE_ENVIRONMENT = {
    "parties/common/device.py",
    "parties/horizontal/simulation/ray_workers.py",
    "parties/cli/options.py",
    "protocol/__init__.py",
}
# Modules that run what they read, or are about to.
MODULES = {"pickle", "_pickle", "cPickle", "cloudpickle", "dill", "marshal", "shelve"}
CALLS = {
    "joblib.load",
    "torch.load",
    "torch.hub.load",
    "yaml.load",
    "yaml.unsafe_load",
    "pandas.read_pickle",
    "pd.read_pickle",
    "eval",
    "exec",
    "builtins.eval",
    "builtins.exec",
    "__import__",
}
LONGEST_FILE, LONGEST_FUNCTION = 350, 50


def files(*folders: str) -> list[Path]:
    return sorted(
        path
        for folder in folders
        for path in (ROOT / folder).rglob("*.py")
        if not path.name.endswith("_pb2.py")
    )


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.name


def imports(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and full name of every import."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.lineno, "." * node.level + (node.module or "")


def strangers(path: Path, home: str) -> list[str]:
    """Imports by which ``path``, a file of ``home``, breaks the import rule."""
    forbidden = {*PRODUCT, "tests"} - {home} if home in PILLARS else {"tests"}
    return [
        f"{name(path)}:{line} imports {module}"
        for line, module in imports(ast.parse(path.read_text()))
        if module.split(".")[0] in forbidden
    ]


def dangers(path: Path) -> list[str]:
    """What ``path`` uses that could run what a peer sends."""
    tree = ast.parse(path.read_text())
    found = [
        f"{name(path)}:{line} imports {module}"
        for line, module in imports(tree)
        if module.split(".")[0] in MODULES
    ]
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            called = {f"{node.module}.{alias.name}" for alias in node.names} & CALLS
            found += [f"{name(path)}:{node.lineno} imports {each}" for each in sorted(called)]
        if isinstance(node, ast.Call):
            called_name = ast.unparse(node.func)
            pickles = any(
                word.arg == "allow_pickle" and getattr(word.value, "value", True) is not False
                for word in node.keywords
            )
            if called_name in CALLS or pickles:
                found.append(f"{name(path)}:{node.lineno} calls {called_name}")
    return found


def reads_environment(path: Path) -> list[str]:
    """Where ``path`` reads or writes an environment variable."""
    words = {"environ", "environb", "getenv", "getenvb", "putenv", "unsetenv", "load_dotenv"}
    return [
        f"{name(path)}:{node.lineno} touches the environment"
        for node in ast.walk(ast.parse(path.read_text()))
        if (isinstance(node, ast.Attribute) and node.attr in words)
        or (isinstance(node, ast.alias) and node.name in words)
        or (isinstance(node, ast.keyword) and node.arg == "envvar")
    ]


def too_long(path: Path) -> list[str]:
    text = path.read_text()
    lines = len(text.splitlines())
    found = [f"{name(path)} has {lines} lines"] if lines > LONGEST_FILE else []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or 0) - node.lineno + 1
            if length > LONGEST_FUNCTION:
                found.append(f"{name(path)}:{node.lineno} {node.name} has {length} lines")
    return found


@pytest.mark.parametrize("home", PRODUCT)
def test_import_rule(home: str) -> None:
    """A pillar imports only itself and libraries; nobody imports parties but parties and tests."""
    assert [breach for path in files(home) for breach in strangers(path, home)] == []


def test_folders_are_the_product() -> None:
    found = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert found == set(PRODUCT)
    assert not found & sys.stdlib_module_names


def test_nothing_runs_what_it_reads() -> None:
    assert [danger for path in files(*PRODUCT) for danger in dangers(path)] == []


def test_environment_is_touched_at_the_door_only() -> None:
    touching = {name(path) for path in files(*PRODUCT) if reads_environment(path)}
    assert touching <= MAY_TOUCH_THE_ENVIRONMENT


def test_files_and_functions_are_short() -> None:
    assert [long for path in files(*PRODUCT, "tests") for long in too_long(path)] == []


def test_every_file_begins_with_its_signboard() -> None:
    bare = [
        name(path)
        for path in files(*PRODUCT, "tests")
        if not ast.get_docstring(ast.parse(path.read_text()))
    ]
    assert bare == []


# --- planted breaches: the rules above can fail ---------------------------------------------------


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    return tmp_path / "planted.py"


@pytest.mark.parametrize(
    ("home", "line", "told"),
    [
        ("psi", "from protocol.channel import Channel", "planted.py:1 imports protocol.channel"),
        ("models", "import parties", "planted.py:1 imports parties"),
        ("protocol", "import numpy, configs.schema", "planted.py:1 imports configs.schema"),
        ("unlearning", "def f():\n    import models", "planted.py:2 imports models"),
        ("configs", "import tests", "planted.py:1 imports tests"),
        ("parties", "from tests import conftest", "planted.py:1 imports tests"),
    ],
)
def test_planted_import_is_named(planted: Path, home: str, line: str, told: str) -> None:
    planted.write_text(line)
    assert strangers(planted, home) == [told]


@pytest.mark.parametrize("line", ["import psi", "from psi.ids import hashed", "import torch"])
def test_own_and_foreign_imports_are_free(planted: Path, line: str) -> None:
    planted.write_text(line)
    assert strangers(planted, "psi") == []


@pytest.mark.parametrize(
    ("line", "told"),
    [
        *((f"import {module}", f"imports {module}") for module in sorted(MODULES)),
        ("from pickle import loads", "imports pickle"),
        ("torch.load(path)", "calls torch.load"),
        ("torch.load(path, weights_only=True)", "calls torch.load"),
        ("from torch import load", "imports torch.load"),
        ("joblib.load(path)", "calls joblib.load"),
        ("np.load(path, allow_pickle=True)", "calls np.load"),
        ("np.load(path, allow_pickle=chosen)", "calls np.load"),
        ("yaml.load(text)", "calls yaml.load"),
        ("eval(text)", "calls eval"),
        ("exec(text)", "calls exec"),
        ("__import__(name)", "calls __import__"),
    ],
)
def test_planted_danger_is_named(planted: Path, line: str, told: str) -> None:
    planted.write_text(line)
    assert dangers(planted) == [f"planted.py:1 {told}"]


@pytest.mark.parametrize(
    "line", ["np.load(path, allow_pickle=False)", "model.eval()", "json.load(file)"]
)
def test_harmless_likeness_is_free(planted: Path, line: str) -> None:
    planted.write_text(line)
    assert dangers(planted) == []


@pytest.mark.parametrize(
    "line", ["os.environ['A'] = 'b'", "os.getenv('A')", "from os import environ"]
)
def test_planted_environment_is_named(planted: Path, line: str) -> None:
    planted.write_text(line)
    assert reads_environment(planted) == ["planted.py:1 touches the environment"]


def test_planted_length_is_named(planted: Path) -> None:
    planted.write_text("def long():\n" + "    pass\n" * 350)
    told = ["planted.py has 351 lines", "planted.py:1 long has 351 lines"]
    assert too_long(planted) == told
