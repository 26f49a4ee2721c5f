"""The product's source files, parsed: definitions, public functions and imports."""

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, TypeAlias

ROOT = Path(__file__).parents[2]
CORE = ("protocol", "psi", "unlearning", "models", "configs")
PRODUCT = (*CORE, "parties")
FRONT = "vfl.py"  # the only module beside the packages: the interface for Python programs

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
Kind: TypeAlias = Literal["top", "lazy", "typing"]
FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True, order=True, slots=True)
class Culprit:
    """A place that breaks a rule."""

    path: str
    line: int
    name: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line} {self.name}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Import:
    """One imported name.

    Attributes:
        path: the importing file.
        line: line of the import statement.
        module: full name of the imported module, or of the module that holds the imported name.
        target: file of that module; None if the module is not a part of the product.
        kind: at top level, inside a function, or under ``if TYPE_CHECKING``.
    """

    path: str
    line: int
    module: str
    target: str | None
    kind: Kind


@dataclass(frozen=True, slots=True)
class Definition:
    """A public function or class, or a public method of a public class."""

    path: str
    name: str
    node: Function | ast.ClassDef

    @property
    def docstring(self) -> str | None:
        """The docstring; None if the definition has none."""
        return ast.get_docstring(self.node)

    def culprit(self, reason: str) -> Culprit:
        """The place of this definition as a breach of a rule."""
        return Culprit(self.path, self.node.lineno, self.name, reason)


@dataclass(frozen=True)
class Source:
    """Parsed files of a folder, by path relative to that folder."""

    trees: Mapping[str, ast.Module]

    @cached_property
    def modules(self) -> dict[str, str]:
        """Path of the file of each module."""
        return {module_name(path): path for path in self.trees}

    @cached_property
    def imports(self) -> list[Import]:
        """All imports of all files."""
        return [each for path in self.trees for each in self._imports_of(path)]

    def _imports_of(self, path: str) -> Iterator[Import]:
        for node, kind in _import_statements(self.trees[path], "top"):
            for module, name in _imported(node, path):
                full = f"{module}.{name}" if name else module
                found = full if full in self.modules else module
                yield Import(path, node.lineno, found, self.modules.get(found), kind)

    @cached_property
    def definitions(self) -> list[Definition]:
        """Public functions and classes of all modules and the public methods of these classes."""
        return [
            Definition(path, name, node)
            for path, tree in self.trees.items()
            for name, node in _public(tree.body)
        ]

    @property
    def functions(self) -> Iterator[tuple[Definition, Function]]:
        """The public functions and methods among the definitions."""
        for each in self.definitions:
            if isinstance(each.node, FUNCTION):
                yield each, each.node


def read_source(root: Path = ROOT, folders: Iterable[str] = PRODUCT) -> Source:
    """Parse all Python files of these folders except generated ones, and the module ``FRONT``."""
    front = [root / FRONT] if (root / FRONT).exists() else []
    paths = sorted(path for folder in folders for path in (root / folder).rglob("*.py"))
    return Source(
        {
            path.relative_to(root).as_posix(): ast.parse(path.read_bytes(), str(path))
            for path in (*paths, *front)
            if not path.name.endswith("_pb2.py")
        }
    )


def module_name(path: str) -> str:
    """Full name of the module in a file: ``a/b.py`` is ``a.b`` and ``a/__init__.py`` is ``a``."""
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _import_statements(
    node: ast.AST, kind: Kind
) -> Iterator[tuple[ast.Import | ast.ImportFrom, Kind]]:
    for child in ast.iter_child_nodes(node):
        inner: Kind = kind
        if isinstance(child, (*FUNCTION, ast.Lambda)):
            inner = "lazy"
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            inner = "typing"
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child, kind
        yield from _import_statements(child, inner)


def _imported(node: ast.Import | ast.ImportFrom, path: str) -> Iterator[tuple[str, str | None]]:
    """Pairs of a module and the name taken from it; the name is None for ``import module``."""
    if isinstance(node, ast.Import):
        yield from ((alias.name, None) for alias in node.names)
        return
    parents = path.split("/")[: -node.level] if node.level else []
    module = ".".join([*parents, *filter(None, [node.module])])
    yield from ((module, alias.name) for alias in node.names)


def _public(
    body: Iterable[ast.stmt], owner: str = ""
) -> Iterator[tuple[str, Function | ast.ClassDef]]:
    for node in body:
        if isinstance(node, ast.If | ast.Try):
            handlers = getattr(node, "handlers", [])
            inner = [*node.body, *node.orelse, *(each for part in handlers for each in part.body)]
            yield from _public(inner, owner)
        if not isinstance(node, (*FUNCTION, ast.ClassDef)) or node.name.startswith("_"):
            continue
        if _is_repeated(node):
            continue
        yield owner + node.name, node
        if isinstance(node, ast.ClassDef) and not owner:
            yield from _public(node.body, f"{node.name}.")


def _is_repeated(node: Function | ast.ClassDef) -> bool:
    """Setters of properties and overloads share the docstring of another definition."""
    names = [ast.unparse(each) for each in node.decorator_list]
    return any(each.endswith(("overload", ".setter", ".deleter")) for each in names)
