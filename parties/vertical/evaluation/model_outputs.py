"""What the figures of a request are made of: every model's outputs, and which rows they are of."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from sklearn.pipeline import Pipeline
from torch import Tensor

from configs.agreement import Agreement
from parties.common.shared_randomness import Index
from parties.vertical.evaluation.compare import Comparison, Outcome
from parties.vertical.evaluation.row_groups import Ground
from parties.vertical.methods.method import ORIGINAL
from unlearning.audit.membership import Outputs, Verdict, fit_attack, score_attack
from unlearning.audit.shadow import fit_shadow_attack
from unlearning.audit.utility import neighbours

MOST = 500  # rows of D_u, or of those it is compared with, in attacks that learn by themselves
RETRAIN = "retrain"


def is_independent(name: str) -> bool:
    """Whether a model is a Retrain with a random start of its own."""
    return name == RETRAIN or name.removeprefix(f"{RETRAIN}-").isdigit()


@dataclass(frozen=True)
class Seen:
    """One request's models on its rows."""

    agreement: Agreement
    found: Comparison
    where: Ground

    @property
    def original(self) -> Outcome:
        """The model before forgetting."""
        return self.found.outcome(ORIGINAL)

    @property
    def retrains(self) -> list[Outcome]:
        """The independent ones."""
        return [each for each in self.found.outcomes if is_independent(each.name)]

    def others(self, outcome: Outcome) -> list[Outcome]:
        """The independent Retrains but for the model itself."""
        return [each for each in self.retrains if each is not outcome]

    def other(self, outcome: Outcome) -> Outcome | None:
        """One Retrain to compare with: the first, and for a Retrain the one after it."""
        retrains = self.retrains
        if outcome not in retrains:
            return retrains[0] if retrains else None
        after = retrains[(retrains.index(outcome) + 1) % len(retrains)]
        return None if after is outcome else after

    @property
    def classes(self) -> Sequence[str]:
        """What is predicted."""
        return self.agreement.labels.classes

    @cached_property
    def remaining(self) -> Tensor | None:
        """Which test rows are of classes that remain; None where no whole class went."""
        request = self.found.request
        if request.fraction < 1 or not request.classes:
            return None
        gone = torch.tensor([self.classes.index(name) for name in request.classes])
        kept = ~torch.isin(self.where.labels["test"], gone)
        return kept if kept.any() else None

    @cached_property
    def same_class(self) -> Index:
        """Positions in test of rows of D_u's classes."""
        forgotten = self.where.labels["forgotten"][self.where.plain]
        return np.flatnonzero(torch.isin(self.where.labels["test"], forgotten).numpy())

    @cached_property
    def around(self) -> Index:
        """Positions in D_r of the nearest neighbours of D_u, in the original's embeddings."""
        kept = self.original.embeddings
        if "retained" not in kept:
            return np.empty(0, np.int64)
        return neighbours(kept["forgotten"][self.where.plain], kept["retained"])

    @cached_property
    def asked(self) -> Index:
        """Positions in D_u, canaries left out, of the rows in attacks that learn by themselves."""
        return self.where.generator.permutation(self.where.plain)[:MOST]

    @cached_property
    def beside(self) -> Index:
        """Positions in D_r, as many."""
        return self.where.members[:MOST]

    @property
    def unseen(self) -> Index:
        """Positions in test of rows never seen, in D_u's class mix."""
        return self.where.matched[:MOST]

    @cached_property
    def attack(self) -> Pipeline:
        """The paper's membership attack, fitted on the original's outputs."""
        return fit_attack(
            self.outputs(self.original, "retained", self.where.members),
            self.outputs(self.original, "test", self.where.taught),
        )

    @cached_property
    def half_taught(self) -> Pipeline:
        """The same attack, taught by one half of the members."""
        return fit_attack(
            self.outputs(self.original, "retained", self.where.members[: self._middle]),
            self.outputs(self.original, "test", self.where.taught),
        )

    @property
    def untaught(self) -> Index:
        """Positions in D_r of rows of the other half, on which that attack may be scored."""
        return self.where.members[self._middle : self._middle + MOST]

    @property
    def _middle(self) -> int:
        return len(self.where.members) // 2

    @cached_property
    def verdicts(self) -> dict[str, Verdict]:
        """The attack on every model."""
        return {each.name: self.judge(self.attack, each.logits) for each in self.found.outcomes}

    @cached_property
    def shadow_verdicts(self) -> dict[str, Verdict]:
        """The attack that learned from shadow models, on every model; none without them."""
        if not self.found.trials.shadows:
            return {}
        attack = fit_shadow_attack(self.found.trials.shadows)
        return {each.name: self.judge(attack, each.logits) for each in self.found.outcomes}

    def judge(self, attack: Pipeline, logits: dict[str, Tensor]) -> Verdict:
        """Score an attack on D_u against never seen rows of the same classes."""
        where, labels = self.where, self.where.labels
        forgotten = Outputs(logits["forgotten"][where.plain], labels["forgotten"][where.plain])
        unseen = Outputs(logits["test"][where.matched], labels["test"][where.matched])
        return score_attack(attack, forgotten, unseen, where.generator)

    def outputs(self, outcome: Outcome, part: str, rows: Index | Tensor | None = None) -> Outputs:
        """A model's outputs on a row set, or on some positions of it."""
        logits, labels = outcome.logits[part], self.where.labels[part]
        return Outputs(logits, labels) if rows is None else Outputs(logits[rows], labels[rows])
