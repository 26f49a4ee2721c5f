"""The outputs of all models of one request, and rows and attacks that several metrics use."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from sklearn.pipeline import Pipeline
from torch import Tensor

from configs.agreement import VerticalAgreement
from parties.common.shared_randomness import Index
from parties.report.method_names import is_independent_retrain
from parties.vertical.engine.local_model import ORIGINAL
from parties.vertical.evaluation.outcomes import Comparison, MethodOutcome
from parties.vertical.evaluation.row_groups import RowGroups
from unlearning.audit.divergence import DistanceRatio, class_distance, distance_ratio
from unlearning.audit.membership import (
    MembershipResult,
    Outputs,
    class_matched_rows,
    fit_attack,
    fit_shadow_attack,
    score_attack,
)
from unlearning.audit.utility import nearest_rows

MOST_ATTACKED = 500  # rows of each kind in attacks that are trained per model


@dataclass(frozen=True)
class ModelOutputs:
    """The models of one request, with the row groups that metrics use."""

    agreement: VerticalAgreement  # the agreement
    comparison: Comparison  # the outcomes of all methods
    row_groups: RowGroups  # the row groups

    @property
    def original(self) -> MethodOutcome:
        """The outcome of the original model."""
        return self.comparison.outcome(ORIGINAL)

    @property
    def retrains(self) -> list[MethodOutcome]:
        """The outcomes of the independent Retrain models."""
        return [each for each in self.comparison.outcomes if is_independent_retrain(each.name)]

    def other_retrains(self, outcome: MethodOutcome) -> list[MethodOutcome]:
        """The outcomes of all independent Retrain models except ``outcome``."""
        return [each for each in self.retrains if each is not outcome]

    def reference_retrain(self, outcome: MethodOutcome) -> MethodOutcome | None:
        """The Retrain model to compare with ``outcome``; None if there is no other one."""
        retrains = self.retrains
        if outcome not in retrains:
            return retrains[0] if retrains else None
        after = retrains[(retrains.index(outcome) + 1) % len(retrains)]
        return None if after is outcome else after

    @property
    def classes(self) -> Sequence[str]:
        """The names of the classes."""
        return self.agreement.labels.classes

    @cached_property
    def remaining(self) -> Tensor | None:
        """Mask of the test rows in classes that were not forgotten, [test_rows].

        None if no whole class was forgotten, or if no test row remains.
        """
        request = self.comparison.request
        if request.fraction < 1 or not request.classes or request.corrects:
            return None
        gone = torch.tensor([self.classes.index(name) for name in request.classes])
        kept = ~torch.isin(self.row_groups.labels["test"], gone)
        return kept if kept.any() else None

    @cached_property
    def same_class(self) -> Index:
        """Positions of the test rows, [rows], whose class occurs in D_u."""
        forgotten = self.row_groups.labels["forgotten"][self.row_groups.forgotten]
        return np.flatnonzero(torch.isin(self.row_groups.labels["test"], forgotten).numpy())

    @cached_property
    def neighbours(self) -> Index:
        """Neighbours of D_u in D_r, as positions in D_r, [rows].

        Distances are measured between the embeddings of the original model.
        """
        kept = self.original.embeddings
        if "retained" not in kept or self.comparison.request.corrects:  # D_u is a part of D_r
            return np.empty(0, np.int64)
        return nearest_rows(kept["forgotten"][self.row_groups.forgotten], kept["retained"])

    @cached_property
    def attacked_forgotten(self) -> Index:
        """Rows of D_u without canaries, as positions, [rows], for attacks trained on each model."""
        return self.row_groups.generator.permutation(self.row_groups.forgotten)[:MOST_ATTACKED]

    @cached_property
    def attacked_pairs(self) -> tuple[Index, Index]:
        """Positions in D_u and in D_r, [rows] each, for attacks that are trained on each model.

        Both sides have the same class mix, which is that of D_u over the classes that also remain
        in D_r. Both sides are empty if no class of D_u remains.
        """
        groups, forgotten = self.row_groups, self.attacked_forgotten
        wanted = groups.labels["forgotten"][forgotten]
        pool = groups.labels["retained"][groups.members]
        common = torch.isin(wanted, pool)
        if not common.any():
            return np.empty(0, np.int64), np.empty(0, np.int64)
        matched = class_matched_rows(wanted[common], pool, groups.generator)
        return forgotten[common.numpy()], groups.members[matched]

    @property
    def attacked_unseen(self) -> Index:
        """Test rows with D_u's class mix, as positions, [rows], for attacks trained per model."""
        return self.row_groups.matched[:MOST_ATTACKED]

    @cached_property
    def attack(self) -> Pipeline:
        """The membership attack, trained on the original model's outputs."""
        return fit_attack(
            self.outputs(self.original, "retained", self.row_groups.members),
            self.outputs(self.original, "test", self.row_groups.non_members),
        )

    @cached_property
    def half_trained_attack(self) -> Pipeline:
        """The membership attack, trained with only the first half of ``row_groups.members``."""
        return fit_attack(
            self.outputs(self.original, "retained", self.row_groups.members[: self._middle]),
            self.outputs(self.original, "test", self.row_groups.non_members),
        )

    @property
    def held_back_members(self) -> Index:
        """Positions in D_r, [rows], of members used only to score the attack, not to train it."""
        return self.row_groups.members[self._middle : self._middle + MOST_ATTACKED]

    @property
    def _middle(self) -> int:
        return len(self.row_groups.members) // 2

    @cached_property
    def membership_results(self) -> dict[str, MembershipResult]:
        """The result of the membership attack on each model."""
        return {
            each.name: self.attack_result(self.attack, each.logits)
            for each in self.comparison.outcomes
        }

    @cached_property
    def shadow_results(self) -> dict[str, MembershipResult]:
        """The result of the shadow attack on each model; empty without shadow models."""
        if not self.comparison.extra_audits.shadows:
            return {}
        attack = fit_shadow_attack(self.comparison.extra_audits.shadows)
        return {
            each.name: self.attack_result(attack, each.logits) for each in self.comparison.outcomes
        }

    def attack_result(self, attack: Pipeline, logits: dict[str, Tensor]) -> MembershipResult:
        """Measure how well an attack distinguishes D_u from test rows with the same class mix.

        Args:
            attack: the trained attack.
            logits: for each row set, [rows, classes].
        """
        groups, labels = self.row_groups, self.row_groups.labels
        forgotten = Outputs(
            logits["forgotten"][groups.forgotten], labels["forgotten"][groups.forgotten]
        )
        unseen = Outputs(logits["test"][groups.matched], labels["test"][groups.matched])
        return score_attack(attack, forgotten, unseen, groups.generator)

    def outputs(
        self, outcome: MethodOutcome, part: str, rows: Index | Tensor | None = None
    ) -> Outputs:
        """A model's outputs on a row set, or only at the positions ``rows``, [rows], of the set."""
        logits, labels = outcome.logits[part], self.row_groups.labels[part]
        return Outputs(logits, labels) if rows is None else Outputs(logits[rows], labels[rows])


def ratio_or_none(ratio: DistanceRatio) -> float | None:
    """The value of ``ratio``; None if its denominator is 0: all Retrain models are equal."""
    return ratio.value if ratio.between_retrains else None


def ratio_to_retrains(
    outcome: MethodOutcome,
    comparison: Comparison,
    part: str,
    rows: Index | None,
    distance: Callable[[Tensor, Tensor], float] = class_distance,
) -> DistanceRatio:
    """Distance of a model from the Retrain models, divided by that between Retrain models.

    If the model is a Retrain model itself, it is compared with the other Retrain models.

    Args:
        outcome: the model.
        comparison: all models.
        part: name of the row set on which the outputs are compared.
        rows: [rows], positions in the row set; None for all rows of the row set.
        distance: the distance between two models, by their outputs, [rows, outputs] each.
    """

    def read(each: MethodOutcome) -> Tensor:
        outputs = each.logits[part]
        return outputs if rows is None else outputs[rows]

    retrains = [each for each in comparison.outcomes if is_independent_retrain(each.name)]
    ratio = distance_ratio(read(outcome), [read(each) for each in retrains], distance)
    if outcome not in retrains:
        return ratio
    others = [distance(read(outcome), read(each)) for each in retrains if each is not outcome]
    return DistanceRatio(sum(others) / len(others), ratio.between_retrains)
