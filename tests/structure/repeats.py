"""Places of the product that repeat each other, and the length of the product in lines."""

from collections.abc import Iterable
from pathlib import Path

FEWEST_LINES = 6  # shorter repeats do not count
MOST_REPEATS = 30
MOST_LINES = 57_314


def repeats(root: Path, paths: Iterable[str]) -> list[tuple[int, list[str]]]:
    """Runs of equal lines that stand in several places: the number of lines, and the places.

    Comments, docstrings and imports do not count.
    """
    from pylint.checkers.symilar import Symilar  # noqa: PLC0415  nothing else needs pylint

    found = Symilar(
        min_lines=FEWEST_LINES - 1,  # it finds runs that are longer
        ignore_comments=True,
        ignore_docstrings=True,
        ignore_imports=True,
    )
    for path in paths:
        with (root / path).open(encoding="utf-8") as stream:
            found.append_stream(path, stream)
    return [
        (count, sorted(f"{file.name}:{first + 1}-{last}" for file, first, last in places))
        for count, places in found._compute_sims()
    ]


def line_count(root: Path, folders: Iterable[str]) -> int:
    """Lines of all Python files of these folders, the generated ones included."""
    files = (path for folder in folders for path in (root / folder).rglob("*.py"))
    return sum(path.read_bytes().count(b"\n") for path in files)
