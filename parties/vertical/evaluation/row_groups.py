"""The ground of the figures: which rows each of them reads, laid out before anything is run."""

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from parties.common.errors import PolicyError
from parties.common.shared_randomness import Index, key, permutation, torch_seed
from parties.vertical.engine.split_model import Federation
from parties.vertical.requests import Chosen
from unlearning.audit.membership import class_matched

MOST_MEMBERS = 5000  # rows of D_r that the attack learns from


@dataclass(frozen=True, slots=True)
class Ground:
    """The rows of the figures: labels, and which positions each figure reads."""

    labels: dict[str, Tensor]  # row set -> labels as trained
    plain: Index  # positions in D_u that are no canaries
    members: Index  # positions in D_r from which the attack learns
    canaries: Index  # positions in D_u
    taught: Index  # positions in test from which the attack learns
    matched: Index  # positions in the other half of test, in D_u's class mix
    seed: int

    @property
    def generator(self) -> np.random.Generator:
        """A fresh generator: every figure is drawn alike for every model."""
        return np.random.default_rng(self.seed)


def ground(federation: Federation, chosen: Chosen, planted: Index) -> Ground:
    """Lay out the rows for one request; ``planted`` are the canaries of all requests.

    Raises:
        PolicyError: a class of D_u has no held-out row to be compared with.
    """
    rows, labels, seed = federation.rows, federation.labels, federation.agreement.seed
    halves = permutation(key(seed, "attack"), len(rows.test))
    middle = len(halves) // 2
    generator = np.random.default_rng(torch_seed(seed, "figures", chosen.request.name))
    plain = np.flatnonzero(~np.isin(rows.forgotten, planted))
    clean = np.flatnonzero(~np.isin(rows.retain, planted))
    pool = labels[rows.test[halves[middle:]]]
    try:
        matched = class_matched(labels[rows.forgotten[plain]], pool, generator)
    except ValueError as error:
        raise PolicyError(
            f"request {chosen.request.name!r}: a class of its rows is not among the test rows",
            "enlarge split.test",
        ) from error
    parts = {
        "forgotten": rows.forgotten,
        "retained": rows.retain,
        "validation": rows.validation,
        "test": rows.test,
    }
    return Ground(
        labels={name: labels[part] for name, part in parts.items()},
        plain=plain,
        members=generator.permutation(clean)[:MOST_MEMBERS],
        canaries=np.flatnonzero(np.isin(rows.forgotten, chosen.canaries)),
        taught=halves[:middle],
        matched=halves[middle:][matched],
        seed=torch_seed(seed, "figures"),
    )
