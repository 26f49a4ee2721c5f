"""Settings put over others: tables within tables are changed, everything else is replaced."""

from pydantic import JsonValue


def merged(ours: JsonValue, theirs: JsonValue) -> JsonValue:
    """Tables within tables are changed, everything else is replaced."""
    if not isinstance(ours, dict) or not isinstance(theirs, dict):
        return theirs
    changed = {name: merged(ours.get(name), each) for name, each in theirs.items()}
    return {**ours, **changed}
