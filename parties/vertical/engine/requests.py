"""The rows of each unlearning request, and the canaries and triggers among these rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from configs.agreement import RowRequest, VerticalAgreement
from configs.errors import ConfigError
from parties.common.errors import DataError, PolicyError
from parties.common.shared_randomness import Index, derive_key, permutation
from parties.vertical.engine.party import VerticalParty
from parties.vertical.engine.rows import RowSets
from parties.vertical.engine.split_model import SplitModel
from protocol import vfl_pb2
from psi.errors import PsiError
from psi.ids import join_columns, normalise

SHOWN = 10  # largest number of line numbers in an error


@dataclass(frozen=True, slots=True)
class RequestRows:
    """A request and its rows, as indices into the common order, ascending."""

    request: RowRequest  # the request in the agreement
    rows: Index  # [rows], all requested rows; some may be validation or test rows
    canaries: Index  # [canaries], requested training rows that get a wrong label
    poisoned: Index  # [poisoned], requested training rows that get the trigger and the target label
    # [mislabelled], requested training rows whose labels are wrong until the request, and their own
    # labels.
    mislabelled: Index
    own_labels: Index


def select_request_rows(
    party: VerticalParty, row_map: Index, rows: RowSets, labels: Tensor
) -> list[RequestRows]:
    """Select the rows of each request: a fraction of each requested class, or the IDs in a file.

    Args:
        party: the active party.
        row_map: [common_rows], the party's own row number of each common row.
        rows: the row sets.
        labels: [common_rows], the labels of the common rows.

    Raises:
        ConfigError: a request has neither classes nor a file of IDs in the party settings, or has
            both.
        DataError: a file cannot be read, or contains an ID that is not among the common rows.
        PolicyError: no training row would be left, or a request has too few rows for its canaries
            or its backdoor.
    """
    chosen: list[RequestRows] = []
    for request in party.agreement.unlearn:
        taken = np.concatenate([np.empty(0, np.int64), *(each.canaries for each in chosen)])
        meant = _rows(party, request, row_map, rows, labels)
        learned = np.setdiff1d(np.intersect1d(meant, rows.train), taken)
        corrected = np.concatenate([np.empty(0, np.int64), *(each.mislabelled for each in chosen)])
        if both := int(np.isin(learned, corrected).sum()):
            raise PolicyError(
                f"request {request.name!r} corrects the labels of {both} rows that an earlier "
                "request corrects",
                "name each row in one request",
            )
        if request.canaries and len(learned) <= request.canaries:
            raise PolicyError(
                f"request {request.name!r} has {len(learned)} training rows, too few for "
                f"{request.canaries} canaries",
                "plant fewer canaries, or request more rows",
            )
        secret = derive_key(party.agreement.seed, "canaries", request.name, request.seed)
        canaries = learned[permutation(secret, len(learned))[: request.canaries]]
        others = np.setdiff1d(learned, canaries)
        poisoned = poisoned_rows(party.agreement, request, others, labels)
        wrong = learned if request.corrects else np.empty(0, np.int64)
        own = labels[wrong].numpy().copy() if len(wrong) else np.empty(0, np.int64)
        chosen.append(RequestRows(request, meant, np.sort(canaries), poisoned, wrong, own))
    gone = [each.rows for each in chosen if not each.request.corrects]
    if gone and np.isin(rows.train, np.concatenate(gone)).all():
        raise PolicyError("all requests together leave no training row", "request fewer rows")
    return chosen


def relabel_planted_rows(
    chosen: Sequence[RequestRows], labels: Tensor, classes: Sequence[str]
) -> None:
    """Change ``labels``, [common_rows], in place for canaries and for rows with a trigger.

    A canary, and a row whose label is corrected later, gets the label of the next class, and a row
    with a trigger the label of the target class. A model can predict the label of a canary only by
    memorising that row.
    """
    for each in chosen:
        for wrong in (each.canaries, each.mislabelled):
            labels[wrong] = torch.from_numpy(next_labels(labels[wrong].numpy(), classes))
        if each.request.backdoor:
            labels[each.poisoned] = classes.index(each.request.backdoor.target)


def next_labels(labels: Index, classes: Sequence[str]) -> Index:
    """The wrong labels, [rows], that are planted in rows with ``labels``, [rows]."""
    return (labels + 1) % len(classes)


def poisoned_rows(
    agreement: VerticalAgreement, request: RowRequest, learned: Index, labels: Tensor
) -> Index:
    """A keyed sample of the requested rows that are not of the target class; they get the trigger.

    Args:
        agreement: the agreement.
        request: the request; without a backdoor, no row gets a trigger.
        learned: [learned], the requested training rows without canaries.
        labels: [common_rows], the labels of the common rows.

    Raises:
        PolicyError: no requested row can carry the trigger.
    """
    plan = request.backdoor
    if plan is None:
        return np.empty(0, np.int64)
    target = agreement.labels.classes.index(plan.target)
    others = learned[(labels[learned] != target).numpy()]
    order = permutation(derive_key(agreement.seed, "backdoor", request.name), len(others))
    poisoned = np.sort(others[order[: round(plan.share * len(others))]])
    if not len(poisoned):
        raise PolicyError(
            f"request {request.name!r} has no row that can carry the trigger of its backdoor",
            f"request rows of classes other than the target {plan.target!r}, or let more of the "
            "rows carry the trigger: raise 'backdoor.share' in the request",
        )
    return poisoned


def _rows(
    party: VerticalParty, request: RowRequest, row_map: Index, rows: RowSets, labels: Tensor
) -> Index:
    path = party.settings.unlearn.get(request.name)
    if request.classes and path is not None:
        raise ConfigError(
            f"request {request.name!r} names classes, but the party settings also name a file of "
            "IDs for this request",
            f"remove {request.name} from [settings.{party.name}.unlearn]",
        )
    if request.classes:
        return _of_classes(party, request, rows, labels)
    if path is None:
        raise ConfigError(
            f"request {request.name!r} names no classes, and the settings of {party.name} name no "
            "file of IDs for this request",
            f'set {request.name} = "ids.txt" in [settings.{party.name}.unlearn]',
        )
    return _of_file(party, path, row_map)


def _of_classes(party: VerticalParty, request: RowRequest, rows: RowSets, labels: Tensor) -> Index:
    known = party.agreement.labels.classes
    parts = []
    for name in request.classes:
        members = rows.train[(labels[rows.train] == known.index(name)).numpy()]
        secret = derive_key(party.agreement.seed, "request", request.name, request.seed, name)
        order = permutation(secret, len(members))
        parts.append(members[order[: round(request.fraction * len(members))]])
    return np.sort(np.concatenate(parts))


def _of_file(party: VerticalParty, path: Path, row_map: Index) -> Index:
    place = {party.holding.ids[row]: index for index, row in enumerate(row_map)}
    wanted = _ids(path)
    unknown = [str(line) for line, identifier in wanted if identifier not in place]
    if unknown:
        raise DataError(
            f"{path}: {len(unknown)} IDs are not among the common rows "
            f"(lines {', '.join(unknown[:SHOWN])})",
            "remove these lines from the file, because the model was not trained on these rows",
        )
    return np.unique([place[identifier] for _, identifier in wanted]).astype(np.int64)


def _ids(path: Path) -> list[tuple[int, bytes]]:
    """The line number and the normalised ID of each line; columns are separated by tabs."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(
            f"cannot read the request file {path}", "provide a UTF-8 text file with one ID per line"
        ) from error
    return [(number, _id(path, number, line)) for number, line in enumerate(lines, 1)]


def _id(path: Path, number: int, line: str) -> bytes:
    try:
        parts = [normalise(part) for part in line.split("\t")]
    except PsiError as error:
        raise DataError(
            f"{path}: line {number} contains no valid ID", "write one ID per line, in UTF-8"
        ) from error
    return parts[0] if len(parts) == 1 else join_columns(parts)


def plant_in_training_rows(split_model: SplitModel, chosen: list[RequestRows]) -> None:
    """Relabel canaries and rows with a trigger, and let the agreed party plant the trigger."""
    if split_model.replaying:
        return
    relabel_planted_rows(chosen, split_model.labels, split_model.agreement.labels.classes)
    for each in chosen:
        if each.request.backdoor:
            party = each.request.backdoor.party
            split_model.command_party(party, vfl_pb2.TRAIN, vfl_pb2.PlantTrigger(), each.poisoned)
