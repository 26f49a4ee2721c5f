"""Error messages for a config: problem, place and legal values; no message contains a value."""

import re
from typing import Any

from pydantic import BaseModel

from configs.keys import keys_at, suggestion

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
_NAME = "a name is a lower-case letter, then at most 30 lower-case letters, digits or hyphens"
_KINDS = {
    bool: "true or false",
    int: "a whole number",
    float: "a number with a point",
    str: "text",
    list: "a list",
    dict: "a table",
}


def is_secret(key: str) -> bool:
    """Return whether the name ``key`` suggests a secret, such as a password."""
    return _SECRET.search(key) is not None


def issue_message(model: type[BaseModel], issue: Any, prefix: str) -> str:
    """Return the message for one issue that pydantic found in a table of the class ``model``."""
    place = [str(part) for part in issue["loc"]]
    where = prefix + ".".join(place)
    if place[-1:] == ["[key]"]:
        return f"{prefix}{'.'.join(place[:-2])}: {place[-2]!r} is not a valid name; {_NAME}"
    match issue["type"]:
        case "extra_forbidden":
            return _unknown(where, place, model)
        case "missing":
            return f"{where!r} is missing"
        case "union_tag_invalid":
            return f"{where}: kind must be one of {issue['ctx']['expected_tags']}"
        case "union_tag_not_found":
            return f"'{where}.kind' is missing"
    message = issue["msg"].removeprefix("Value error, ")
    if issue["type"].endswith("_type"):
        message += f", not {_KINDS.get(type(issue['input']), 'something else')}"
    return f"{where}: {message}" if where else message


def _unknown(where: str, place: list[str], model: type[BaseModel]) -> str:
    key = place[-1]
    if is_secret(key):
        return (
            f"{where!r} looks like a secret, which a config must not contain: write it into a file"
        )
    if key.lower() in _PRIVACY:
        return (
            f"{where!r} is not a setting of differential privacy: use [privacy.embed_once] or "
            "[privacy.label_dp]; other modes have no (ε, δ)"
        )
    if key.lower() in _ENCRYPTION and "aggregation" in model.model_fields:
        return f"{where!r} is not a setting: for encrypted sums use aggregation.kind = 'ckks'"
    if key.lower() in _ENCRYPTION:
        return (
            f"{where!r}: the vertical mode has no homomorphic encryption, and TLS protects the "
            "tensors on the wire: remove the key"
        )
    return f"unknown key {where!r}{suggestion(key, keys_at(model, place[:-1]))}"
