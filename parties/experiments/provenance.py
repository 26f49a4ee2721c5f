"""Provenance of recorded figures: commit, machine, and a digest of the code behind a figure.

A figure is stale as soon as the code that it depends on has another digest. The digest is computed
from syntax trees, so comments, docstrings, imports and moves between files do not change it.
"""

import ast
import json
import os
import platform
import re
import subprocess
import threading
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Final, Self

ROOT: Final = Path(__file__).parents[2]
SUFFIXES: Final = (".py", ".toml", ".proto")
GENERATED: Final = "_pb2.py"  # generated from vfl.proto, which is digested itself
# CPython counts the depth of the parser for all threads together, and then fails by chance.
_PARSING: Final = threading.Lock()
IGNORED: Final = ("kind", "type_comment", "ctx")  # fields of a syntax tree without a meaning here

# Code of a run of the vertical mode, whatever its method. A scope is a list of folders and files.
VERTICAL: Final = (
    "models/arithmetic.py", "models/backbones.py", "models/bottoms.py", "models/initialisation.py",
    "models/noise.py", "models/tops.py", "unlearning/audit/", "unlearning/baselines.py",
    "unlearning/calibration.py", "unlearning/counterfactual.py", "unlearning/cvfu.py",
    "unlearning/kkt.py", "models/codes.py",
    "unlearning/objectives.py", "unlearning/primal_dual.py", "unlearning/step_sizes.py",
    "unlearning/stopping.py", "unlearning/thresholds.py", "configs/agreement.py",
    "configs/unlearning.py", "parties/common/shared_randomness.py", "parties/data/preprocess.py",
    "parties/requests/", "parties/vertical/engine/", "parties/vertical/methods/",
    "parties/vertical/evaluation/",
)  # fmt: skip
# Code of a run of the horizontal mode or of a language model, whatever its method.
FEDERATED: Final = (
    "models/arithmetic.py", "models/initialisation.py", "models/server_optimisers.py",
    "parties/common/shared_randomness.py", "parties/horizontal/engine/",
    "parties/horizontal/evaluation/", "parties/horizontal/local/", "parties/requests/",
)  # fmt: skip
HORIZONTAL: Final = (
    *FEDERATED, "models/full_networks.py", "models/generator.py", "models/gpfl.py",
    "unlearning/horizontal/", "configs/horizontal.py", "configs/client_unlearning.py",
    "parties/data/partition.py", "parties/horizontal/methods/",
)  # fmt: skip
LANGUAGE: Final = (
    *FEDERATED, "models/language/", "unlearning/llm/", "configs/language.py",
    "configs/language_unlearning.py", "parties/language/engine/", "parties/language/evaluation/",
    "parties/language/methods/", "parties/language/texts/",
)  # fmt: skip
# What the figures of each benchmark of ``vfl bench`` depend on, by section of the records.
SCOPES: Final[Mapping[str, tuple[str, ...]]] = {
    "fedora tables": (*VERTICAL, "configs/bench/fedora.toml"),
    "forgetting": (
        *VERTICAL, "parties/experiments/population/", "configs/bench/forgetting.toml",
        "configs/vertical/digits.toml", "configs/vertical/income.toml",
        "configs/vertical/fashion.toml",
    ),
    "exact-methods": (
        *VERTICAL, "parties/experiments/population/", "configs/bench/exact-methods.toml",
        "configs/vertical/income.toml", "configs/vertical/fashion.toml",
    ),
    "horizontal tables": (*HORIZONTAL, "configs/bench/horizontal.toml", "configs/horizontal/"),
    "llm tables": (*LANGUAGE, "configs/bench/language.toml", "configs/llm/"),
}  # fmt: skip
# Section of the tables in which a run of each mode is shown.
TABLES: Final = {
    "vertical": "fedora tables",
    "horizontal": "horizontal tables",
    "llm": "llm tables",
}


@dataclass(frozen=True, slots=True, order=True)
class Provenance:
    """Where a figure comes from.

    Attributes:
        commit: short hash of the commit that was checked out; a plus sign follows if product files
            had uncommitted changes. Several commits are separated by commas; empty: unknown.
        machine: cores, architecture, system, and the GPU if there is one; empty: unknown.
        code: digest of the code that the figure depends on; empty: unknown, so the figure is stale.
    """

    commit: str = ""
    machine: str = ""
    code: str = ""

    @classmethod
    def here(cls, scope: Iterable[str], root: Path = ROOT) -> Self:
        """Return the provenance of a figure that is measured now, with code in ``scope``."""
        return cls(checked_out_commit(root), this_machine(), code_digest(scope, root))

    @classmethod
    def common(cls, several: Iterable["Provenance"]) -> Self:
        """Return the provenance of a figure that is computed from several measurements.

        The digest is empty if the measurements depend on different code.
        """
        parts = sorted(set(several))
        codes = {each.code for each in parts}
        commits = dict.fromkeys(one for each in parts for one in each.commit.split(", "))
        machines = dict.fromkeys(each.machine for each in parts)
        return cls(
            ", ".join(filter(None, commits)),
            "; ".join(filter(None, machines)),
            codes.pop() if len(codes) == 1 else "",
        )


@dataclass(frozen=True, slots=True)
class RunningCode:
    """The code that a process executes; a change of its files later does not change what it runs.

    Attributes:
        scope: the code that the figures depend on: folders and files below ``root``.
        started: the provenance at the start.
    """

    scope: tuple[str, ...]
    started: Provenance
    root: Path = ROOT

    @classmethod
    def begin(cls, scope: Iterable[str], root: Path = ROOT) -> Self:
        """Read the code in ``scope``; call it before the process that measures starts its work."""
        listed = tuple(scope)
        return cls(listed, Provenance.here(listed, root), root)

    def provenance(self) -> Provenance:
        """Return the provenance of a figure that is measured now.

        The digest is empty if the files have changed since the start: the process may have imported
        modules before and after the change.
        """
        same = code_digest(self.scope, self.root) == self.started.code
        return self.started if same else replace(self.started, code="")


def checked_out_commit(root: Path = ROOT) -> str:
    """Return the short hash of the commit at ``root``; empty outside of a git repository."""
    short = _git(root, "rev-parse", "--short=7", "HEAD")
    changed = short and _git(root, "status", "--porcelain", "--untracked-files=no", "--", "*.py")
    return f"{short}+" if changed else short


def _git(root: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments],  # noqa: S607  from PATH, as everywhere
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    except OSError:  # git is not installed
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def this_machine() -> str:
    """Return cores, architecture and system of this machine, and the name of its GPU."""
    import torch  # noqa: PLC0415  slow, and unnecessary for a digest

    gpus = [torch.cuda.get_device_name()] if torch.cuda.is_available() else []
    cores = f"{os.cpu_count()} cores"
    return ", ".join([cores, platform.machine(), platform.system(), *gpus])


def code_digest(scope: Iterable[str], root: Path = ROOT) -> str:
    """Return a digest of the code in ``scope``: folders and files below ``root``.

    The digest is empty if a folder or a file is missing.
    """
    files: dict[str, bytes] = {}
    for each in scope:
        path = root / each
        if not path.exists():
            return ""
        found = sorted(path.rglob("*")) if path.is_dir() else [path]
        files |= {str(one): one.read_bytes() for one in found if is_code(one.name)}
    return digest_of_files(files)


def values_digest(values: object) -> str:
    """Return a digest of recorded values, which are given as JSON values."""
    return sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]


def is_code(name: str) -> bool:
    """Return whether a file of this name belongs to the digested code."""
    return name.endswith(SUFFIXES) and not name.endswith(GENERATED)


def digest_of_files(files: Mapping[str, bytes]) -> str:
    """Return a digest of all top-level definitions of the files, whichever file has them."""
    parts = sorted(one for name, content in files.items() for one in _parts(name, content))
    return sha256("\n".join(parts).encode()).hexdigest()[:16]


def _parts(name: str, content: bytes) -> tuple[str, ...]:
    """Digests of the definitions in one file."""
    return _definitions(Path(name).suffix, content)


@cache
def _definitions(suffix: str, content: bytes) -> tuple[str, ...]:
    if suffix == ".py":
        with _PARSING:
            tree = ast.parse(content)
        texts = [_text(each) for each in _without_notes(tree.body)]
    elif suffix == ".toml":
        texts = [json.dumps(tomllib.loads(content.decode()), sort_keys=True, default=str)]
    else:  # Protocol Buffers
        texts = [" ".join(re.sub(r"//.*", "", content.decode()).split())]
    return tuple(sha256(each.encode()).hexdigest() for each in texts)


def _without_notes(body: list[ast.stmt]) -> list[ast.stmt]:
    """The statements without imports and docstrings."""
    kept = [each for each in body if not isinstance(each, ast.Import | ast.ImportFrom)]
    if kept and isinstance(kept[0], ast.Expr) and isinstance(kept[0].value, ast.Constant):
        kept = kept[1:] if isinstance(kept[0].value.value, str) else kept
    return [each for each in kept if not (isinstance(each, ast.If) and _only_imports(each))]


def _only_imports(node: ast.If) -> bool:
    return not _without_notes(node.body) and not _without_notes(node.orelse)


def _text(node: object) -> str:
    """A syntax tree as text, without positions; absent fields are left out.

    Python's own ``ast.dump`` changes between versions of Python.
    """
    if isinstance(node, list):
        body = _without_notes(node) if node and isinstance(node[0], ast.stmt) else node
        return "[" + ",".join(_text(each) for each in body) + "]"
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = [
        f"{name}={_text(value)}"
        for name, value in ast.iter_fields(node)
        if name not in IGNORED and value is not None and value != []
    ]
    return f"{type(node).__name__}({','.join(fields)})"
