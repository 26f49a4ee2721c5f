"""The table of docs/errors.md."""

import importlib
import inspect

from generator.markdown import cell, with_generated

ERROR_MODULES = ("parties.common.errors", "configs.errors", "protocol.errors", "psi.errors")


def error_classes() -> list[type[Exception]]:
    """The public error classes, each followed by its own kinds."""
    found = []
    for name in ERROR_MODULES:
        module = importlib.import_module(name)
        classes = [each for each in vars(module).values() if inspect.isclass(each)]
        found += [each for each in classes if each.__module__ == name]
    first = [each for each in found if not any(issubclass(each, o) for o in found if o is not each)]
    ordered: list[type[Exception]] = []
    for each in first:
        ordered += [each, *(other for other in found if issubclass(other, each) and other != each)]
    return ordered


def exit_code(error: type[Exception]) -> str:
    """The exit code of an error class; a dash where the class has none of its own."""
    codes = importlib.import_module(ERROR_MODULES[0]).EXIT_CODES
    return next((str(code) for kind, code in codes.items() if issubclass(error, kind)), "–")


def error_page(text: str) -> str:
    """The text of docs/errors.md with its generated table as it should be."""
    rows = [
        f"| `{each.__name__}` | `{each.__bases__[0].__name__}` | {exit_code(each)} "
        f"| {cell((inspect.getdoc(each) or '').partition(chr(10))[0])} |"
        for each in error_classes()
    ]
    table = ["| class | is a | exit code | meaning |", "|---|---|---|---|", *rows]
    return with_generated(text, table)
