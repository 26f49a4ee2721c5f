"""The legal values and the default of a configuration key, in words."""

import json
import re
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

PATTERNS = {  # how the pages describe texts of these forms
    "^[a-z][a-z0-9-]{0,30}$": "name (a-z, 0-9, hyphen)",
    "^sha256:[0-9a-f]{64}$": "pin (`sha256:` and 64 hexadecimal digits)",
    "^[0-9a-f]{64}$": "64 hexadecimal digits",
    "^(cpu|cuda(:[0-9]{1,2})?)$": "`cpu`, `cuda` or `cuda:NUMBER`",
}
UNBOUNDED = 2**31 - 1  # a bound from here on protects the program and tells a reader nothing


def legal(node: Mapping[str, Any], links: Mapping[str, str]) -> str:
    """A JSON schema in words; ``links`` has the anchor of each table by its class name."""
    if "$ref" in node:
        name = node["$ref"].rsplit("/", 1)[-1]
        return f"[table](#{links[name]})" if name in links else "table"
    if "oneOf" in node or "anyOf" in node:
        return legal_choice(node, links)
    if "const" in node or "enum" in node:
        return ", ".join(code(each) for each in node.get("enum", [node.get("const")]))
    kind = node.get("type")
    if kind == "array":
        return legal_list(node, links)
    if kind == "object":
        named = [*node.get("patternProperties", {}).values(), node.get("additionalProperties")]
        return f"table of {plural(legal(named[0] or {}, links))} by name"
    return legal_scalar(node)


def legal_choice(node: Mapping[str, Any], links: Mapping[str, str]) -> str:
    """A JSON schema with alternatives in words."""
    if "oneOf" in node:
        kinds = node["discriminator"]["mapping"]
        names = {kind: ref.rsplit("/", 1)[-1] for kind, ref in kinds.items()}
        shown = [f"[`{kind}`](#{links[name]})" for kind, name in names.items()]
        return f"table by `kind`: {', '.join(shown)}"
    parts = [each for each in node["anyOf"] if each.get("type") != "null"]
    return " or ".join(legal(each, links) for each in parts)


def legal_list(node: Mapping[str, Any], links: Mapping[str, str]) -> str:
    """A JSON schema of a list in words."""
    if "prefixItems" in node:
        return "[" + ", ".join(legal(each, links) for each in node["prefixItems"]) + "]"
    inner = plural(legal(node.get("items", {}), links))
    least, most = node.get("minItems", 0), node.get("maxItems")
    bounds = f", {least} to {most}" if most else f", at least {least}" if least else ""
    return f"list of {inner}{bounds}"


def legal_scalar(node: Mapping[str, Any]) -> str:
    """A JSON schema of a number, a text or a truth value in words."""
    kind = node.get("type")
    if kind == "string":
        pattern = node.get("pattern")
        if pattern is None:
            return "path" if node.get("format") == "path" else "text"
        return PATTERNS.get(pattern) or f"text of the form {code_text(pattern)}"
    if kind == "boolean":
        return "`true`, `false`"
    words = {"integer": "whole number", "number": "number"}.get(str(kind), "any value")
    return " ".join([words, bounds_of(node)]).strip()


def bounds_of(node: Mapping[str, Any]) -> str:
    """The bounds of a number in words; a bound that only protects the program is left out."""
    found = {
        words: node[key]
        for key, words in (
            ("minimum", "at least"),
            ("exclusiveMinimum", "above"),
            ("maximum", "at most"),
            ("exclusiveMaximum", "below"),
        )
        if key in node and abs(node[key]) < UNBOUNDED
    }
    if found.keys() == {"at least", "at most"}:
        return f"from {found['at least']:,} to {found['at most']:,}"
    return " and ".join(f"{words} {bound:,}" for words, bound in found.items())


def plural(words: str) -> str:
    """The plural of what ``legal`` returns."""
    for one in ("whole number", "number", "name", "pin", "text", "path"):
        if re.match(rf"{one}\b", words):
            return words.replace(one, f"{one}s", 1)
    return words.replace("[table]", "[tables]", 1)


def default(info: FieldInfo) -> str:
    """The default of a key as TOML, ``required`` or ``absent``."""
    if info.is_required():
        return "**required**"
    value = info.get_default(call_default_factory=True, validated_data={})
    if value is None:
        return "absent"
    if isinstance(value, BaseModel):
        changed = {name: getattr(value, name) for name in sorted(value.model_fields_set)}
        return code(changed) if changed else ""
    return code(value)


def code(value: Any) -> str:
    """A value as TOML, in backticks."""
    return code_text(toml(value))


def code_text(text: str) -> str:
    """A text in backticks that may stand in a cell of a table."""
    return "`" + text.replace("|", r"\|") + "`"


def toml(value: Any) -> str:
    """A value as TOML in one line."""
    if isinstance(value, BaseModel):
        value = {name: getattr(value, name) for name in sorted(value.model_fields_set)}
    if isinstance(value, Mapping):
        if not value:
            return "{}"
        inner = ", ".join(f"{name} = {toml(each)}" for name, each in value.items())
        return f"{{ {inner} }}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, PurePath):
        return json.dumps(str(value))
    return json.dumps(value, ensure_ascii=False)
