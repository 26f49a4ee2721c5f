"""Legal keys of the tables of a config, and suggestions for misspelt keys."""

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Any

from pydantic import BaseModel


def suggestion(word: str, known: Sequence[str]) -> str:
    """Return the end of a message: the known word most similar to ``word``, or all known words."""
    near = get_close_matches(word, known, 1)
    return f"; did you mean {near[0]!r}?" if near else f"; legal: {', '.join(known)}"


def keys_at(model: type[BaseModel], place: Sequence[str]) -> list[str]:
    """Return the legal keys of the table with the path ``place``, from the schema of ``model``."""
    schema = model.model_json_schema()
    return sorted(_walk(schema, schema, list(place)))


def places_of(model: type[BaseModel], key: str) -> list[str]:
    """Return the full names of the settings with the key ``key``, such as ``training.epochs``."""
    schema = model.model_json_schema()
    return sorted(set(_places(schema, schema, "", key)))


def _places(schema: Any, node: Any, place: str, key: str) -> Iterator[str]:
    if "$ref" in node:
        node = schema["$defs"][node["$ref"].rsplit("/", 1)[-1]]
    for variant in node.get("anyOf", []) + node.get("oneOf", []):
        yield from _places(schema, variant, place, key)
    for name, inner in node.get("properties", {}).items():
        if name == key:
            yield f"{place}{name}"
        yield from _places(schema, inner, f"{place}{name}.", key)
    for inner in _entries(node):
        yield from _places(schema, inner, f"{place}NAME.", key)
    if "items" in node:
        yield from _places(schema, node["items"], place, key)


def _walk(schema: Any, node: Any, place: list[str]) -> set[str]:
    while "$ref" in node:
        node = schema["$defs"][node["$ref"].rsplit("/", 1)[-1]]
    found: set[str] = set()
    for variant in node.get("anyOf", []) + node.get("oneOf", []) + node.get("allOf", []):
        found |= _walk(schema, variant, place)
    if not place:
        return found | set(node.get("properties", {}))
    mapping = node.get("discriminator", {}).get("mapping", {})
    if place[0] in mapping:
        return _walk(schema, {"$ref": mapping[place[0]]}, place[1:])
    for inner in _inside(node, place[0]):
        found |= _walk(schema, inner, place[1:])
    return found


def _inside(node: Any, name: str) -> list[Any]:
    """The schemas under ``name``: of a property, an entry of a table, or an entry of a list."""
    named = node.get("properties", {}).get(name)
    entries = (named, node.get("items"), *_entries(node))
    return [inner for inner in entries if isinstance(inner, dict)]


def _entries(node: Any) -> list[Any]:
    """The schemas of a table whose keys are names."""
    found = [*node.get("patternProperties", {}).values(), node.get("additionalProperties")]
    return [inner for inner in found if isinstance(inner, dict)]
