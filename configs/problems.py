"""What the model has against a config, as sentences: what, where, what is legal; never a value."""

import re
from typing import Any

from pydantic import BaseModel

from configs.keys import keys_at, nearest

_SECRET = re.compile(
    r"pass(word|wd|phrase)|secret|token|api_?key|private_?key|key_?pem|credential", re.IGNORECASE
)
_PRIVACY = {
    "dp",
    "dp_sgd",
    "differential_privacy",
    "epsilon",
    "delta",
    "noise_multiplier",
}
_ENCRYPTION = {"he", "ckks", "bfv", "paillier", "homomorphic", "homomorphic_encryption"}
_NAME = "a name is a small letter, then at most 30 small letters, digits or hyphens"
_KINDS = {
    bool: "true or false",
    int: "a whole number",
    float: "a number with a point",
    str: "text",
    list: "a list",
    dict: "a table",
}


def is_secret(key: str) -> bool:
    """Whether a setting of this name would hold a secret."""
    return _SECRET.search(key) is not None


def problem(model: type[BaseModel], issue: Any, prefix: str) -> str:
    """One sentence for one issue of the model's own check."""
    place = [str(part) for part in issue["loc"]]
    where = prefix + ".".join(place)
    if place[-1:] == ["[key]"]:
        return f"{prefix}{'.'.join(place[:-2])}: {place[-2]!r} is no name; {_NAME}"
    match issue["type"]:
        case "extra_forbidden":
            return _unknown(where, place, model)
        case "missing":
            return f"{where!r} is missing"
        case "union_tag_invalid":
            return f"{where}: kind is none of {issue['ctx']['expected_tags']}"
        case "union_tag_not_found":
            return f"'{where}.kind' is missing"
    said = issue["msg"].removeprefix("Value error, ")
    if issue["type"].endswith("_type"):
        said += f", and is {_KINDS.get(type(issue['input']), 'something else')}"
    return f"{where}: {said}" if where else said


def _unknown(where: str, place: list[str], model: type[BaseModel]) -> str:
    key = place[-1]
    if is_secret(key):
        return f"{where!r} looks like a secret, and a config holds none; use a file for it"
    if key.lower() in _PRIVACY:
        return (
            f"{where!r} is no setting of differential privacy: [privacy.embed_once] and "
            "[privacy.label_dp] are, and no (ε, δ) is claimed for anything else"
        )
    if key.lower() in _ENCRYPTION and "aggregation" in model.model_fields:
        return f"{where!r} is no setting: encrypted sums are aggregation.kind = 'ckks'"
    if key.lower() in _ENCRYPTION:
        return (
            f"{where!r}: homomorphic encryption is not offered in this version: "
            "tensors are protected on the wire by TLS alone; take it out"
        )
    return f"unknown key {where!r}{nearest(key, keys_at(model, place[:-1]))}"
