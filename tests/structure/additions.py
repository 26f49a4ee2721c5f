"""What an addition to the product changes: files of a method or source, places of a setting."""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import median

from structure.source import Source

# What was added last of each kind. Additions change few files if few files name what was added.
ADDED: Mapping[str, str] = {
    "vertical method": "parties/vertical/methods/scrub.py",
    "horizontal method": "parties/horizontal/methods/noisy_fine_tune.py",
    "data source": "parties/data/sources/parquet_source.py",
}
MOST_FILES_OF_ADDITION = 2
MOST_PLACES = 1
METHODS = "/methods/"


@dataclass(frozen=True, order=True, slots=True)
class Setting:
    """A setting of a method, and the places where it is written: declared or copied.

    Attributes:
        path: the file of the method.
        name: class and key of the setting.
        places: file and line of each place.
    """

    path: str
    name: str
    places: tuple[str, ...]


def files_naming(source: Source, path: str) -> list[str]:
    """The file ``path`` of a method or source, and the files that import it or quote its name."""
    name = path.rsplit("/", 1)[-1].removesuffix(".py").removesuffix("_source").replace("_", "-")
    found = {path} | {each.path for each in source.imports if each.target == path}
    found |= {
        other
        for other, tree in source.trees.items()
        if any(isinstance(node, ast.Constant) and node.value == name for node in ast.walk(tree))
    }
    return sorted(found)


def settings(source: Source) -> list[Setting]:
    """The settings of all methods: the keys of their tables."""
    return [
        Setting(path, f"{table.name}.{key}", tuple(_places(source, path, key)))
        for path, tree in source.trees.items()
        if METHODS in path
        for table in tree.body
        if isinstance(table, ast.ClassDef) and table.name.endswith("Settings")
        for key in _declared(table)
    ]


def median_places(source: Source) -> float:
    """The median over methods of the mean number of places of a method's settings."""
    counts: dict[str, list[int]] = {}
    for each in settings(source):
        counts.setdefault(each.path, []).append(len(each.places))
    return median(sum(each) / len(each) for each in counts.values())


def _declared(node: ast.ClassDef) -> Iterator[str]:
    """The keys of a table or the fields of a dataclass."""
    for each in node.body:
        named = isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
        if named and "ClassVar" not in ast.unparse(each.annotation):
            yield each.target.id


def _places(source: Source, path: str, key: str) -> Iterator[str]:
    """Where a method's file, or a file that imports it, declares a setting or hands it on."""
    importing = {each.path for each in source.imports if each.target == path}
    for each in sorted({path} | importing):
        for node in ast.walk(source.trees[each]):
            if isinstance(node, ast.ClassDef) and each == path and key in _declared(node):
                yield f"{each}:{node.lineno}"
            elif isinstance(node, ast.Call):
                given = [*node.args, *(one.value for one in node.keywords)]
                yield from (
                    f"{each}:{one.lineno}"
                    for one in given
                    if isinstance(one, ast.Attribute)
                    and ast.unparse(one) == f"plan.{key}"
                    and isinstance(node.func, ast.Name)
                    and node.func.id == "cls"
                )
