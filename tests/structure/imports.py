"""Import rules: core packages, layers of ``parties``, order inside a mode, the longest chain."""

from collections import Counter
from collections.abc import Mapping, Sequence

from structure.source import CORE, PRODUCT, Culprit, Import, Source, module_name

# From the lowest layer to the highest; packages on one layer do not import each other.
LAYERS: Sequence[Sequence[str]] = (
    ("common",),
    ("data", "report"),
    ("session",),
    ("requests",),
    ("vertical", "horizontal"),
    ("language",),
    ("doctor", "web", "experiments"),
    ("cli",),
    ("python",),
)
MOST_LAYERS, MOST_FILES, LONGEST_CHAIN = 9, 12, 24
LOOSE = {"parties/__init__.py", "parties/__main__.py"}
MODES = ("vertical", "horizontal", "language")
# Parts of a mode's package from the lowest to the highest. A subfolder that is not listed belongs
# to the engine; a file that lies in the package itself belongs to the role programs.
ENGINE, METHODS, EVALUATION, ROLES = range(4)
PARTS = ("the engine", "methods", "evaluation", "the role programs")
PART_OF = {
    "methods": METHODS,
    "evaluation": EVALUATION,
    "prediction": ROLES,
    "service": ROLES,
    "offline": ROLES,
    "simulation": ROLES,
}
# Folders with more files than a dozen, and why.
LARGE_FOLDERS: Mapping[str, str] = {
    "parties/cli/commands": "registry: one file a command",
    "parties/data/sources": "registry: one file a source",
    "parties/horizontal/methods": "registry: one file a method",
    "parties/vertical/methods": "registry: one file a method",
}
# Files that run without large libraries: the offline check of a receipt is a small program, and the
# memory that an intersection of many IDs needs would be added to that of the libraries.
LIGHT: Mapping[str, frozenset[str]] = {
    "unlearning/receipts/": frozenset({"torch", "grpc"}),
    "parties/session/handshake.py": frozenset({"torch", "pandas"}),
    "parties/vertical/alignment/": frozenset({"torch", "pandas"}),
}


def core_breaches(source: Source) -> list[Culprit]:
    """Imports by which a core package depends on another package of the product, or on tests."""
    found = []
    for each in source.imports:
        home = each.path.split("/")[0]
        forbidden = {*PRODUCT, "tests"} - {home} if home in CORE else {"tests"}
        if each.module.split(".")[0] in forbidden:
            found.append(_culprit(each, f"{home} may not import {each.module}"))
    return found


def library_breaches(source: Source) -> list[Culprit]:
    """Imports of a library that files in ``LIGHT``, or files that they import, do not need."""
    return [
        _culprit(each, f"{start} may not depend on {library}")
        for start, libraries in LIGHT.items()
        for each in _reached_imports(source, start)
        if (library := each.module.split(".")[0]) in libraries
    ]


def _reached_imports(source: Source, start: str) -> list[Import]:
    """The imports in all files that are loaded with the files whose path begins with ``start``."""
    reached = {path for path in source.trees if path.startswith(start)}
    graph = _graph(source)
    waiting = list(reached)
    while waiting:
        new = set(graph.get(waiting.pop(), ())) - reached
        reached |= new
        waiting.extend(new)
    return [each for each in source.imports if each.path in reached]


def loose_files(source: Source) -> list[Culprit]:
    """Files that lie in ``parties`` itself, not in one of its packages."""
    return [
        Culprit(path, 1, module_name(path), "loose file in parties/")
        for path in source.trees
        if path.startswith("parties/") and path.count("/") == 1 and path not in LOOSE
    ]


def packages(source: Source) -> list[str]:
    """Names of the packages of ``parties``."""
    paths = (path.split("/") for path in source.trees)
    return sorted({parts[1] for parts in paths if parts[0] == "parties" and len(parts) > 2})


def unknown_packages(source: Source) -> list[Culprit]:
    """Packages of ``parties`` that stand on no layer."""
    known = {name for layer in LAYERS for name in layer}
    return [
        Culprit(f"parties/{name}/__init__.py", 1, name, "package on no layer")
        for name in packages(source)
        if name not in known
    ]


def layers(source: Source) -> int:
    """Number of layers with at least one package; each package on no layer counts as a layer."""
    found = packages(source)
    used = [layer for layer in LAYERS if any(name in found for name in layer)]
    return len(used) + len(unknown_packages(source))


def layer_breaches(source: Source) -> list[Culprit]:
    """Imports between packages of ``parties`` that go up or sideways, wherever they stand."""
    heights = {name: height for height, layer in enumerate(LAYERS) for name in layer}
    found = []
    for each in source.imports:
        home, other = _package(each.path), _package(each.target)
        if home == other or home not in heights or other not in heights:
            continue
        if heights[other] >= heights[home]:
            way = "sideways" if heights[other] == heights[home] else "up"
            found.append(_culprit(each, f"{home} imports {each.module}: {way}"))
    return found


def large_folders(source: Source) -> list[Culprit]:
    """Folders of ``parties`` with more than a dozen files beside their subfolders."""
    counts = Counter(
        path.rpartition("/")[0]
        for path in source.trees
        if path.startswith("parties/") and not path.endswith("/__init__.py")
    )
    return [
        Culprit(folder, 1, folder.rpartition("/")[2], f"{count} files, at most {MOST_FILES}")
        for folder, count in sorted(counts.items())
        if count > MOST_FILES and folder not in LARGE_FOLDERS and folder != "parties"
    ]


def order_breaches(source: Source) -> list[Culprit]:
    """Imports inside a mode's package against its order: engine, methods, evaluation, roles."""
    found = []
    for each in source.imports:
        home, other = _package(each.path), _package(each.target)
        if home != other or home not in MODES or each.target is None:
            continue
        ours, theirs = _part(each.path), _part(each.target)
        if theirs > ours:
            reason = f"{PARTS[ours]} may not import {PARTS[theirs]} ({each.module})"
            found.append(_culprit(each, reason))
    return found


def circles(source: Source) -> list[list[str]]:
    """Circles of top-level imports, as the files on the way."""
    return _search(source)[1]


def longest_chain(source: Source) -> list[str]:
    """The longest chain of top-level imports: each file imports the next one."""
    return max(_search(source)[0].values(), key=len, default=[])


def _search(source: Source) -> tuple[dict[str, list[str]], list[list[str]]]:
    """The longest chain from each file, and the circles."""
    graph, chains, loops = _graph(source), dict[str, list[str]](), list[list[str]]()

    def visit(path: str, above: list[str]) -> list[str]:
        if path in above:
            loops.append([*above[above.index(path) :], path])
            return []
        if path not in chains:
            below = [visit(other, [*above, path]) for other in graph[path]]
            chains[path] = [path, *max(below, key=len, default=[])]
        return chains[path]

    for path in graph:
        visit(path, [])
    return chains, loops


def _graph(source: Source) -> dict[str, list[str]]:
    graph: dict[str, dict[str, None]] = {path: {} for path in source.trees}
    for each in source.imports:
        if each.kind == "top" and each.target is not None and each.target != each.path:
            graph[each.path][each.target] = None
    return {path: list(others) for path, others in graph.items()}


def _package(path: str | None) -> str | None:
    """The package of ``parties`` in which a file lies; None for any other file."""
    parts = (path or "").split("/")
    return parts[1] if parts[0] == "parties" and len(parts) > 2 else None


def _part(path: str) -> int:
    """The part of a mode's package in which a file lies."""
    folder, *inside = path.split("/")[2:]
    return PART_OF.get(folder, ENGINE) if inside else ROLES


def _culprit(each: Import, reason: str) -> Culprit:
    return Culprit(each.path, each.line, module_name(each.path), f"{reason} ({each.kind})")


def breaches(source: Source) -> list[Culprit]:
    """All breaches of the import rules and of the rules for packages, each place once."""
    rules = (
        core_breaches,
        library_breaches,
        loose_files,
        unknown_packages,
        layer_breaches,
        large_folders,
        order_breaches,
    )
    return list(dict.fromkeys(each for rule in rules for each in rule(source)))
