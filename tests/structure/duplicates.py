"""Public names that are defined in more than one module, and why some of them may be."""

from collections import defaultdict
from collections.abc import Mapping

from structure.source import Culprit, Definition, Source

MOST_DUPLICATES = 20
# Names that may be defined more than once, and why.
REASONS: Mapping[str, str] = {
    "Run": "a finished run for users of vfl, where the protocol that methods run on is not seen",
}


def duplicates(source: Source) -> dict[str, list[Definition]]:
    """Public functions and classes that more than one module defines, by name."""
    found: dict[str, dict[str, Definition]] = defaultdict(dict)
    for each in source.definitions:
        if "." not in each.name:
            found[each.name].setdefault(each.path, each)
    return {name: [*places.values()] for name, places in found.items() if len(places) > 1}


def unlisted_duplicates(source: Source) -> list[Culprit]:
    """Definitions of a name that other modules define too, unless a reason is listed."""
    return [
        each.culprit("also in " + ", ".join(other.path for other in places if other is not each))
        for name, places in duplicates(source).items()
        if name not in REASONS
        for each in places
    ]


def unused_reasons(source: Source) -> list[str]:
    """Listed names that at most one module defines."""
    return sorted(REASONS.keys() - duplicates(source).keys())
