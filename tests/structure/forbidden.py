"""Code that the product may not contain: unsafe loading, environment variables, long functions."""

import ast
from collections.abc import Iterator

from structure.source import FUNCTION, Culprit, Source, module_name

# Files that may read or write environment variables.
MAY_USE_ENVIRONMENT = {
    "parties/cli/options.py",
    "parties/common/device.py",
    "parties/horizontal/simulation/ray_nodes.py",
    "protocol/__init__.py",
}
# Modules that can execute the data they load.
UNSAFE_MODULES = {"pickle", "_pickle", "cPickle", "cloudpickle", "dill", "marshal", "shelve"}
# Functions that can execute the data they load.
UNSAFE_CALLS = {
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
ENVIRONMENT = {"environ", "environb", "getenv", "getenvb", "putenv", "unsetenv", "load_dotenv"}
LONGEST_FUNCTION = 50  # lines


def unsafe_loading(source: Source) -> list[Culprit]:
    """Uses of modules and functions that can execute data which a peer sends."""
    found = [
        Culprit(each.path, each.line, module_name(each.path), f"imports {each.module}")
        for each in source.imports
        if each.module.split(".")[0] in UNSAFE_MODULES
    ]
    for path, tree in source.trees.items():
        for node in ast.walk(tree):
            found += [
                Culprit(path, line, module_name(path), reason)
                for line, reason in _unsafe_uses(node)
            ]
    return found


def _unsafe_uses(node: ast.AST) -> Iterator[tuple[int, str]]:
    if isinstance(node, ast.ImportFrom):
        names = {f"{node.module}.{alias.name}" for alias in node.names} & UNSAFE_CALLS
        yield from ((node.lineno, f"imports {name}") for name in sorted(names))
    if isinstance(node, ast.Call):
        name = ast.unparse(node.func)
        if name in UNSAFE_CALLS or any(map(_allows_pickle, node.keywords)):
            yield node.lineno, f"calls {name}"


def _allows_pickle(keyword: ast.keyword) -> bool:
    return keyword.arg == "allow_pickle" and getattr(keyword.value, "value", True) is not False


def environment_use(source: Source) -> list[Culprit]:
    """Places that read or write an environment variable."""
    return [
        Culprit(path, node.lineno, module_name(path), "uses an environment variable")
        for path, tree in source.trees.items()
        if path not in MAY_USE_ENVIRONMENT
        for node in ast.walk(tree)
        if (isinstance(node, ast.Attribute) and node.attr in ENVIRONMENT)
        or (isinstance(node, ast.alias) and node.name in ENVIRONMENT)
        or (isinstance(node, ast.keyword) and node.arg == "envvar")
    ]


def long_functions(source: Source) -> list[Culprit]:
    """Functions with more lines than the limit."""
    return [
        Culprit(path, node.lineno, node.name, f"{length} lines, at most {LONGEST_FUNCTION}")
        for path, tree in source.trees.items()
        for node in ast.walk(tree)
        if isinstance(node, FUNCTION)
        and (length := (node.end_lineno or 0) - node.lineno + 1) > LONGEST_FUNCTION
    ]


def without_module_docstring(source: Source) -> list[Culprit]:
    """Files that do not begin with a docstring."""
    return [
        Culprit(path, 1, module_name(path), "no module docstring")
        for path, tree in source.trees.items()
        if not ast.get_docstring(tree)
    ]
