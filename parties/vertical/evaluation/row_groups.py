"""Groups of rows on which metrics are computed, chosen before any unlearning method runs."""

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from parties.common.errors import PolicyError
from parties.common.shared_randomness import Index, derive_key, permutation, torch_seed
from parties.vertical.engine.requests import RequestRows
from parties.vertical.engine.split_model import SplitModel
from unlearning.audit.membership import class_matched_rows

MOST_MEMBERS = 5000  # rows of D_r on which the attack is trained


@dataclass(frozen=True, slots=True)
class RowGroups:
    """Groups of rows for the metrics, as positions in a row set, and the labels of each row set."""

    # For each row set, [rows] or [rows, labels], the labels that training used.
    labels: dict[str, Tensor]
    forgotten: Index  # [forgotten], positions in D_u without canaries
    # [members], positions of the rows of D_r on which the membership attack is trained.
    members: Index
    canaries: Index  # [canaries], positions of canaries in D_u
    # [non-members], positions of the test rows on which the membership attack is trained.
    non_members: Index
    # [matched], positions of test rows with the class mix of D_u; none of these rows is in
    # ``non_members``. All test rows if the labels are not one of several classes.
    matched: Index
    seed: int  # seed of ``generator``

    @property
    def unseen(self) -> Index:
        """Positions of all test rows that are not in ``non_members``, [rows]."""
        return np.setdiff1d(np.arange(len(self.labels["test"])), self.non_members)

    @property
    def generator(self) -> np.random.Generator:
        """A new random generator with the seed ``seed``; each one draws equal numbers."""
        return np.random.default_rng(self.seed)


def select_row_groups(split_model: SplitModel, chosen: RequestRows, planted: Index) -> RowGroups:
    """Choose the groups of rows for the metrics of one request.

    Args:
        split_model: the model.
        chosen: the request, and the rows that it asks to forget.
        planted: [canaries], the rows of the canaries of all requests.

    Raises:
        PolicyError: a class of D_u has too few test rows for the metrics.
    """
    rows, labels, seed = split_model.rows, split_model.labels, split_model.agreement.seed
    generator = np.random.default_rng(torch_seed(seed, "figures", chosen.request.name))
    unplanted = np.flatnonzero(~np.isin(rows.forgotten, planted))
    # If labels are corrected, D_u is a part of D_r.
    clean = np.flatnonzero(~np.isin(rows.retain, np.union1d(planted, rows.forgotten)))
    non_members, matched = _test_rows(split_model, chosen, unplanted, generator)
    parts = {
        "forgotten": rows.forgotten,
        "retained": rows.retain,
        "validation": rows.validation,
        "test": rows.test,
    }
    return RowGroups(
        labels={name: labels[part] for name, part in parts.items()},
        forgotten=unplanted,
        members=generator.permutation(clean)[:MOST_MEMBERS],
        canaries=np.flatnonzero(np.isin(rows.forgotten, chosen.canaries)),
        non_members=non_members,
        matched=matched,
        seed=torch_seed(seed, "figures"),
    )


def _test_rows(
    split_model: SplitModel, chosen: RequestRows, unplanted: Index, generator: np.random.Generator
) -> tuple[Index, Index]:
    """The test rows on which the attack is trained, and those beside which D_u is scored.

    Without classes no attack is trained, and D_u stands beside all test rows.
    """
    rows, labels, seed = split_model.rows, split_model.labels, split_model.agreement.seed
    if split_model.agreement.labels.task != "classification":
        return np.empty(0, np.int64), np.arange(len(rows.test))
    halves = permutation(derive_key(seed, "attack"), len(rows.test))
    middle = len(halves) // 2
    pool = labels[rows.test[halves[middle:]]]
    try:
        matched = class_matched_rows(labels[rows.forgotten[unplanted]], pool, generator)
    except ValueError as error:
        raise PolicyError(
            f"request {chosen.request.name!r} contains rows of a class that has too few test rows "
            "for the metrics",
            "raise split.test",
        ) from error
    return halves[:middle], halves[middle:][matched]
