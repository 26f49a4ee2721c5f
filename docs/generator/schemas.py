"""The tables of the configuration of all modes, and the meaning of their keys.

The meaning of a key is the comment at the key's definition.
"""

import ast
import inspect
import io
import textwrap
import tokenize
from collections.abc import Sequence
from functools import cache
from typing import Any, get_args

from pydantic import BaseModel

from parties.cli.modes import SCHEMAS

SAME_EVERYWHERE = {  # keys that mean the same in every table, where no comment says more
    "batch": "rows of a batch",
    "epochs": "passes over the rows",
    "federation": "name of the federation: of its run folder and in its certificates",
    "kind": "which of the tables at this place",
    "learning_rate": "learning rate",
    "mode": "mode of the run",
    "momentum": "momentum of SGD",
    "name": "name, in messages and in the report",
    "path": "the file or folder",
    "pins": "pins of the party's key: no other key is accepted",
    "role": "role of the party",
    "rounds": "rounds",
    "seed": "seed of the pseudo-random draws",
    "steps": "steps",
    "temperature": "temperature of the softmax in distillation",
    "test": "files of the official test rows",
    "test_path": "the file of the official test rows",
    "weight_decay": "weight decay",
}

Table = type[BaseModel]


def agreements() -> dict[str, Table]:
    """The agreement of each mode."""
    return {each.mode: each.agreement for each in SCHEMAS}


def party_settings() -> list[Table]:
    """The tables of party settings; the one that all others extend comes first."""
    found = list(dict.fromkeys(table for each in SCHEMAS for table in (each.hub, each.spoke)))
    common = common_base(found)
    return [common, *(each for each in found if each is not common)]


def tables_in(annotation: Any) -> list[Table]:
    """All tables that a type names, in order."""
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        return [annotation]
    found: list[Table] = []
    for inner in get_args(annotation):
        found += [each for each in tables_in(inner) if each not in found]
    return found


def common_base(tables: Sequence[Table]) -> Table:
    """The nearest class from which all tables inherit."""
    first, *others = tables
    return next(each for each in first.__mro__ if all(issubclass(other, each) for other in others))


@cache
def comments_of(table: Table) -> dict[str, str]:
    """Each key that a class defines itself, with the comments above it and on its lines."""
    source = textwrap.dedent(inspect.getsource(table))
    said: dict[int, tuple[str, bool]] = {}
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and not token.string.startswith("# noqa"):
            alone = not token.line[: token.start[1]].strip()
            said[token.start[0]] = (token.string.lstrip("# "), alone)
    definition: Any = ast.parse(source).body[0]
    found = {}
    for node in definition.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            above: list[str] = []
            line = node.lineno - 1
            while line in said and said[line][1]:
                above.insert(0, said[line][0])
                line -= 1
            end = node.end_lineno or node.lineno
            beside = [said[at][0] for at in range(node.lineno, end + 1) if at in said]
            found[node.target.id] = " ".join((*above, *beside))
    return found


def meaning(table: Table, key: str) -> str:
    """The comment at the key's definition; of a table without one, its docstring's first line."""
    info = table.model_fields[key]
    for owner in table.__mro__:
        if inspect.isclass(owner) and issubclass(owner, BaseModel) and owner is not BaseModel:
            if not owner.__module__.startswith(("configs", "parties")):
                continue
            if said := info.description or comments_of(owner).get(key):
                return said
    inner = tables_in(info.annotation)
    return title_of(inner[0]) if len(inner) == 1 else SAME_EVERYWHERE.get(key, "")


def title_of(table: Table) -> str:
    """The first line of a class's docstring, without its full stop."""
    return (inspect.getdoc(table) or "").partition("\n")[0].rstrip(".")
