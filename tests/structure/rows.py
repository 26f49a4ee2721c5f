"""The rows of ``docs/house.json``: figures of the structure and what is wanted of them."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.ledger import Row, at_most

from structure.additions import (
    ADDED,
    MOST_FILES_OF_ADDITION,
    MOST_PLACES,
    files_naming,
    median_places,
)
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
from structure.repeats import FEWEST_LINES, MOST_LINES, MOST_REPEATS, line_count, repeats
from structure.sentences import READING
from structure.source import PRODUCT, ROOT, Source

KILLS = Path("docs", "house-kills.json")  # written by ``python tests/bench "method kills"``
MUTATIONS = Path("docs", "house-mutations.json")  # written by ``python tests/mutations``
MOST_SECOND_READINGS = 3
POPULATION = Path(
    "docs", "house-population.json"
)  # figures of `vfl bench forgetting --only digits`
MOST_TIME = 1.2  # of a population study, compared with the time before the change
MOST_REPEATED = 1  # steps that a kill may repeat
PLANTED = 20  # faults, all of which the tests must catch


def rows(source: Source) -> Iterator[Row]:
    """All figures: of source files, saved models, kills, planted faults, and sentences."""
    yield from structure_rows(source)
    yield from length_rows(source)
    yield from docstring_rows(source)
    yield from addition_rows(source)
    yield from model_rows(ROOT / MODELS)
    yield from population_rows(ROOT / POPULATION)
    yield from kill_rows(ROOT / KILLS)
    yield mutations_row(ROOT / MUTATIONS)
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


def length_rows(source: Source) -> Iterator[Row]:
    """Figures of repeated code and of the length of the product."""
    name = f"places that repeat {FEWEST_LINES} or more lines of another place, imports apart"
    yield at_most(name, len(repeats(ROOT, source.trees)), MOST_REPEATS, "places")
    yield at_most("lines of the product", line_count(ROOT, PRODUCT), MOST_LINES, "lines")


def docstring_rows(source: Source) -> Iterator[Row]:
    """Figures of the docstrings."""
    shapes = "public functions with arrays that give shapes"
    yield _share(shapes, len(arrays(source)), len(without_shapes(source)))
    raises = "public functions that raise and name the exception"
    yield _share(raises, len(raising(source)), len(without_raises(source)))
    yield _none('docstrings of the kind "See X"', len(references(source)), "docstrings")


def addition_rows(source: Source) -> Iterator[Row]:
    """How many places an addition changes."""
    for kind, path in ADDED.items():
        name = f"files of the product that name the last added {kind} ({Path(path).stem})"
        yield at_most(name, len(files_naming(source, path)), MOST_FILES_OF_ADDITION, "files")
    name = "places where a setting of a method is written, median over methods"
    yield at_most(name, median_places(source), MOST_PLACES, "places")


def population_rows(path: Path) -> Iterator[Row]:
    """Time and figures of one population study after the change, compared with before it."""
    if not path.exists():
        yield Row("population study", "not measured", "", f"at most {MOST_TIME}", ok=False)
        return
    found = json.loads(path.read_text())
    ratio = found["after"]["cpu_seconds"] / found["before"]["cpu_seconds"]
    study = f"population study ({found['study']})"
    yield at_most(f"{study}: CPU time over that before", round(ratio, 2), MOST_TIME, "")
    yield Row(f"{study}: figures of all methods", "equal", "", "equal", found["equal_figures"])


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


def kill_rows(path: Path) -> Iterator[Row]:
    """What killing a party in the middle of each unlearning method costs, of each mode."""
    modes = json.loads(path.read_text()) if path.exists() else {}
    if not modes:
        yield Row("kill -9 in unlearning methods", "not measured", "", "each mode", ok=False)
    for mode, found in modes.items():
        for row in mode_kill_rows(mode, found):
            yield replace(row, name=f"crash safety, {row.name}")  # docs/bench.json has the others


def mode_kill_rows(mode: str, found: Mapping[str, Any]) -> Iterator[Row]:
    """The rows of one mode: methods killed, repeated steps, and equal results."""
    methods = found["methods"]
    kills = [count for each in methods for count in each["repeated"].values()]
    total, title = len(methods), f"{mode}: kill -9 of the hub and of another party in each method"
    killed = sum(len(each["repeated"]) == 2 for each in methods)
    yield Row(f"{title}, methods killed", killed, "methods", f"{total}", 0 < total == killed)
    repeated = f"{title}, most steps that one of {len(kills)} kills repeated"
    yield at_most(repeated, max(kills, default=0), MOST_REPEATED, "steps")
    equal = sum(each["equal"] for each in methods) if found["equal_models"] else 0
    same = f"{title}, methods whose results and models equal those without a kill"
    yield Row(same, equal, "methods", f"{total}", 0 < total == equal)


def mutations_row(path: Path) -> Row:
    """How many of the planted faults the tests catch."""
    name, wanted = "planted faults that the tests catch", f"{PLANTED} of {PLANTED}"
    if not path.exists():
        return Row(name, "not measured", "faults", wanted, ok=False)
    planted = json.loads(path.read_text())
    value = f"{sum(each['caught'] for each in planted)} of {len(planted)}"
    return Row(name, value, "faults", wanted, value == wanted)


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
