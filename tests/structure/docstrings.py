"""Docstrings that lack what the rules ask for: shapes, raised exceptions, a text of their own."""

import ast
import re
from collections.abc import Iterator, Mapping

from structure.source import FUNCTION, Culprit, Definition, Function, Source, module_name

ARRAYS = {"Tensor", "NDArray", "ndarray"}
_BRACKETED = re.compile(r"(?<![\w\])])\[([^\[\]]{1,120})\]")
_DIMENSION = re.compile(r"(\.\.\.|…|[\w.()*+/×·-]+)(or[\w.()*+/×·-]+)?")
_OPERATOR = re.compile(r"\s*(//|[-+*/×·])\s*")
_IN_WORDS = re.compile(r"\bscalars?\b|\bany\s+shape\b", re.IGNORECASE)
_REFERENCE = re.compile(
    r"(see|as\s+in|like\s+in|the\s+same\s+as|as\s+``[^`]+``)(?!\w)", re.IGNORECASE
)
_REFERENCE_ONLY = re.compile(r"as\s+[\w.]+\s+(does|do|is|are|has|have)\b", re.IGNORECASE)


def arrays(source: Source) -> list[str]:
    """Names of the public functions and methods that take or return arrays."""
    return [each.name for each, _ in _with_arrays(source)]


def without_shapes(source: Source) -> list[Culprit]:
    """Public functions and methods with arrays whose docstring gives no shape."""
    return [
        each.culprit(f"no shape for {words}")
        for each, words in _with_arrays(source)
        if not gives_shape(each.docstring or "")
    ]


def gives_shape(docstring: str) -> bool:
    """True if a docstring has a shape such as ``[rows, width]``, or "scalar", or "any shape"."""
    return bool(_IN_WORDS.search(docstring)) or any(
        _is_shape(found[1]) for found in _BRACKETED.finditer(docstring)
    )


def _is_shape(content: str) -> bool:
    dimensions = _OPERATOR.sub(r"\1", content.strip()).removesuffix(",").split(",")
    words = [each.strip().replace(" or ", "or") for each in dimensions]
    return all(map(_DIMENSION.fullmatch, words)) and any(
        char.isalpha() or char in ".…" for char in content
    )


def _with_arrays(source: Source) -> Iterator[tuple[Definition, str]]:
    """Each public function with arrays, and which of its parameters are arrays."""
    aliases = _aliases(source)
    for each, node in source.functions:
        words = [name for name, kind in _annotations(node) if _mentions(kind, aliases[each.path])]
        if words:
            yield each, ", ".join(words)


def _annotations(node: Function) -> Iterator[tuple[str, ast.expr]]:
    spec = node.args
    extra = [part for part in (spec.vararg, spec.kwarg) if part]
    for each in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs, *extra):
        if each.annotation:
            yield each.arg, each.annotation
    if node.returns:
        yield "the result", node.returns


def _mentions(annotation: ast.AST, names: set[str]) -> bool:
    text = ast.unparse(annotation)
    return any(re.search(rf"(?<![\w]){re.escape(name)}\b", text) for name in names)


def _aliases(source: Source) -> Mapping[str, set[str]]:
    """Names of array types in each file: the usual ones, and aliases that it makes or imports."""
    found = {path: set(ARRAYS) for path in source.trees}
    size = -1
    while size != (size := sum(map(len, found.values()))):  # aliases of aliases, to the end
        for path, tree in source.trees.items():
            for node in tree.body:
                if isinstance(node, ast.Assign | ast.AnnAssign | ast.ImportFrom):
                    found[path] |= _new_aliases(node, found, path, source)
    return found


def _new_aliases(
    node: ast.Assign | ast.AnnAssign | ast.ImportFrom,
    found: Mapping[str, set[str]],
    path: str,
    source: Source,
) -> set[str]:
    if isinstance(node, ast.ImportFrom):
        known = found.get(source.modules.get(node.module or "", ""), set())
        return {alias.asname or alias.name for alias in node.names if alias.name in known}
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    is_type = isinstance(node.value, ast.Subscript | ast.BinOp | ast.Name | ast.Attribute)
    if not is_type or node.value is None or not _mentions(node.value, found[path]):
        return set()
    return {each.id for each in targets if isinstance(each, ast.Name)}


def raising(source: Source) -> list[str]:
    """Names of the public functions and methods that raise an exception."""
    return [each.name for each, node in source.functions if _raised(node, each.path, source)]


def without_raises(source: Source) -> list[Culprit]:
    """Public functions and methods that raise an exception their docstring does not name."""
    found = []
    for each, node in source.functions:
        missing = [
            name
            for name in _raised(node, each.path, source)
            if not re.search(rf"\b{name}\b", each.docstring or "")
        ]
        if missing:
            found.append(each.culprit(f"raises {', '.join(missing)}"))
    return found


def _raised(function: Function, path: str, source: Source) -> list[str]:
    """Public exception classes raised in the function itself, not in functions inside it."""
    found: set[str] = set()
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, (*FUNCTION, ast.Lambda, ast.ClassDef)):
            continue
        if isinstance(node, ast.Raise) and node.exc is not None:
            name = _exception(node.exc, path, source)
            if name and name[0].isupper():
                found.add(name)
        waiting.extend(ast.iter_child_nodes(node))
    return sorted(found)


def _exception(raised: ast.expr, path: str, source: Source) -> str | None:
    """Class of a raised exception; a function that makes it is looked up in the same file."""
    called = raised.func if isinstance(raised, ast.Call) else raised
    name = ast.unparse(called).rpartition(".")[2]
    if name[:1].isupper() or not isinstance(raised, ast.Call):
        return name
    makers = [
        node.returns
        for node in ast.walk(source.trees[path])
        if isinstance(node, FUNCTION) and node.name == name and node.returns
    ]
    return ast.unparse(makers[0]) if makers else None


def references(source: Source) -> list[Culprit]:
    """Docstrings that are empty, or that only point to another place ("See X", "As in X")."""
    found = []
    for path, tree in source.trees.items():
        for node in ast.walk(tree):
            if not isinstance(node, (*FUNCTION, ast.ClassDef, ast.Module)):
                continue
            text, name = ast.get_docstring(node), getattr(node, "name", module_name(path))
            line = getattr(node, "lineno", 1)
            if text is not None and not text.strip():
                found.append(Culprit(path, line, name, "empty docstring"))
            elif text and is_reference(text):
                found.append(Culprit(path, line, name, text.splitlines()[0]))
    return found


def is_reference(docstring: str) -> bool:
    """True if the first sentence of a docstring points to another place."""
    text = docstring.strip()
    return bool(_REFERENCE.match(text) or _REFERENCE_ONLY.match(text))
