"""The rows of ``docs/house.json``: figures of the structure and what is wanted of them."""

import json
from collections.abc import Iterator
from pathlib import Path

from bench.ledger import Row, at_most

from structure.docstrings import arrays, raising, references, without_raises, without_shapes
from structure.duplicates import MOST_DUPLICATES, duplicates, unlisted_duplicates
from structure.imports import (
    LONGEST_CHAIN,
    MOST_FILES,
    MOST_LAYERS,
    core_breaches,
    large_folders,
    layer_breaches,
    layers,
    library_breaches,
    longest_chain,
    loose_files,
    order_breaches,
)
from structure.model_digests import MODELS
from structure.sentences import READING
from structure.source import ROOT, Source

MOST_SECOND_READINGS = 3


def rows(source: Source) -> Iterator[Row]:
    """All figures: of the source files, of the saved models, and of the sentences."""
    yield from structure_rows(source)
    yield from docstring_rows(source)
    yield from model_rows(ROOT / MODELS)
    yield sentences_row(ROOT / READING)


def structure_rows(source: Source) -> Iterator[Row]:
    """Figures of packages, imports and names."""
    yield at_most("layers of parties", layers(source), MOST_LAYERS, "layers")
    yield _none("loose files in parties", len(loose_files(source)), "files")
    imports = "imports"
    yield _none("imports up or sideways in parties", len(layer_breaches(source)), imports)
    yield _none(
        "imports against the order of a mode's package", len(order_breaches(source)), imports
    )
    core = core_breaches(source) + library_breaches(source)
    yield _none("imports that a core package may not have", len(core), imports)
    large = f"folders of parties with more than {MOST_FILES} files, registries apart"
    yield _none(large, len(large_folders(source)), "folders")
    chain = "longest chain of top-level imports"
    yield at_most(chain, len(longest_chain(source)), LONGEST_CHAIN, "files")
    names = "public names defined in more than one module"
    yield at_most(names, len(duplicates(source)), MOST_DUPLICATES, "names")
    unlisted = {each.name for each in unlisted_duplicates(source)}
    yield _none(f"{names}, without a listed reason", len(unlisted), "names")


def docstring_rows(source: Source) -> Iterator[Row]:
    """Figures of the docstrings."""
    shapes = "public functions with arrays that give shapes"
    yield _share(shapes, len(arrays(source)), len(without_shapes(source)))
    raises = "public functions that raise and name the exception"
    yield _share(raises, len(raising(source)), len(without_raises(source)))
    yield _none('docstrings of the kind "See X"', len(references(source)), "docstrings")


def model_rows(path: Path) -> Iterator[Row]:
    """Whether each run left the same models before and after the change."""
    runs = json.loads(path.read_text()) if path.exists() else {}
    if not runs:
        yield Row("same bits", "not measured", "", "equal digests", ok=False)
    for run, digests in runs.items():
        before, after = digests.get("before"), digests.get("after")
        equal = before is not None and before == after
        value = f"{before or 'none'} = {after}" if equal else f"{before} and {after}"
        yield Row(f"same bits: models of {run}", value, "SHA-256", "equal digests", equal)


def sentences_row(path: Path) -> Row:
    """How many of the sentences drawn at random needed a second reading."""
    name, unit = "sentences that needed a second reading", "sentences of 60"
    if not path.exists():
        return Row(name, "not measured", unit, f"at most {MOST_SECOND_READINGS}", ok=False)
    read = json.loads(path.read_text())
    return at_most(name, len(read["second_reading"]), MOST_SECOND_READINGS, unit)


def _none(name: str, count: int, unit: str) -> Row:
    return Row(name, count, unit, "0", count == 0)


def _share(name: str, total: int, missing: int) -> Row:
    percent = 100 * (total - missing) / total if total else 100.0
    return Row(f"{name} ({total} in all)", round(percent, 1), "%", "100", missing == 0)
