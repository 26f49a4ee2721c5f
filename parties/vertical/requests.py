"""Requests to forget: which common rows they mean, and the canaries planted among them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from torch import Tensor

from configs.agreement import Request
from configs.errors import ConfigError
from parties.common.errors import DataError, PolicyError
from parties.common.shared_randomness import Index, key, permutation
from parties.session.party import Party
from parties.vertical.engine.rows import RowSets
from psi.errors import PsiError
from psi.ids import join_columns, normalise

SHOWN = 10  # line numbers in an error


@dataclass(frozen=True, slots=True)
class Chosen:
    """A request and the common rows that it means."""

    request: Request
    rows: Index  # ascending; validation and test rows may be among them
    canaries: Index  # training rows among them that learn a wrong label
    poisoned: Index  # training rows among them that bear the trigger and learn its target


def choose(party: Party, row_map: Index, rows: RowSets, labels: Tensor) -> list[Chosen]:
    """The rows of every request: a part of some classes, or an ID file of our seat.

    ``row_map`` holds our own row number of every common row.

    Raises:
        ConfigError: the seat has no file for a request without classes, or one for another.
        DataError: the file names what is not common.
        PolicyError: nothing would be left to learn from, or there are too few rows for canaries.
    """
    chosen: list[Chosen] = []
    for request in party.agreement.unlearn:
        taken = np.concatenate([np.empty(0, np.int64), *(each.canaries for each in chosen)])
        meant = _rows(party, request, row_map, rows, labels)
        learned = np.setdiff1d(np.intersect1d(meant, rows.learn), taken)
        if request.canaries and len(learned) <= request.canaries:
            raise PolicyError(f"request {request.name!r} has too few rows for its canaries")
        secret = key(party.agreement.seed, "canaries", request.name, request.seed)
        canaries = learned[permutation(secret, len(learned))[: request.canaries]]
        poisoned = _poisoned(party, request, np.setdiff1d(learned, canaries), labels)
        chosen.append(Chosen(request, meant, np.sort(canaries), poisoned))
    gone = [each.rows for each in chosen]
    if gone and np.isin(rows.learn, np.concatenate(gone)).all():
        raise PolicyError("the requests together leave no training row")
    return chosen


def relabel(chosen: Sequence[Chosen], labels: Tensor, classes: Sequence[str]) -> None:
    """Relabel in place: canaries to the next class, rows that bear a trigger to its target.

    Both leave a trace that only memory explains.
    """
    for each in chosen:
        labels[each.canaries] = (labels[each.canaries] + 1) % len(classes)
        if each.request.backdoor:
            labels[each.poisoned] = classes.index(each.request.backdoor.target)


def _poisoned(party: Party, request: Request, learned: Index, labels: Tensor) -> Index:
    """The share of D_u that is not of the target class anyway, drawn by key."""
    plan = request.backdoor
    if plan is None:
        return np.empty(0, np.int64)
    target = party.agreement.labels.classes.index(plan.target)
    others = learned[(labels[learned] != target).numpy()]
    order = permutation(key(party.agreement.seed, "backdoor", request.name), len(others))
    poisoned = np.sort(others[order[: round(plan.share * len(others))]])
    if not len(poisoned):
        raise PolicyError(
            f"request {request.name!r} has no row for its backdoor",
            f"its rows must be of other classes than the target, {plan.target!r}",
        )
    return poisoned


def _rows(party: Party, request: Request, row_map: Index, rows: RowSets, labels: Tensor) -> Index:
    path = party.seat.unlearn.get(request.name)
    if request.classes and path is not None:
        raise ConfigError(f"request {request.name!r} names classes, and the seat a file for it")
    if request.classes:
        return _of_classes(party, request, rows, labels)
    if path is None:
        raise ConfigError(
            f"request {request.name!r} names no classes, and the seat of {party.name} no file",
            f'[seats.{party.name}.unlearn] {request.name} = "ids.txt"',
        )
    return _of_file(party, path, row_map)


def _of_classes(party: Party, request: Request, rows: RowSets, labels: Tensor) -> Index:
    known = party.agreement.labels.classes
    parts = []
    for name in request.classes:
        members = rows.learn[(labels[rows.learn] == known.index(name)).numpy()]
        secret = key(party.agreement.seed, "request", request.name, request.seed, name)
        order = permutation(secret, len(members))
        parts.append(members[order[: round(request.fraction * len(members))]])
    return np.sort(np.concatenate(parts))


def _of_file(party: Party, path: Path, row_map: Index) -> Index:
    place = {party.holding.ids[row]: index for index, row in enumerate(row_map)}
    wanted = _ids(path)
    unknown = [str(line) for line, identifier in wanted if identifier not in place]
    if unknown:
        raise DataError(
            f"{path}: {len(unknown)} IDs are not among the common rows "
            f"(lines {', '.join(unknown[:SHOWN])})",
            "this run learned nothing from them; take them out of the file",
        )
    return np.unique([place[identifier] for _, identifier in wanted]).astype(np.int64)


def _ids(path: Path) -> list[tuple[int, bytes]]:
    """Line number and normalised ID of every line; several columns stand apart by tabs."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot read the request file {path}") from error
    return [(number, _id(path, number, line)) for number, line in enumerate(lines, 1)]


def _id(path: Path, number: int, line: str) -> bytes:
    try:
        parts = [normalise(part) for part in line.split("\t")]
    except PsiError as error:
        raise DataError(f"{path}: line {number} holds no ID") from error
    return parts[0] if len(parts) == 1 else join_columns(parts)
