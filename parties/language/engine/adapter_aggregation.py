"""Cohort of clients with a language model: counts tokens and aggregates adapters.

The mean of the factors A and B differs from the mean of the products ΔW = (α/r) B A. With
``product_svd`` the new adapters are the best approximation of the mean product of their rank.
The distance between the product of the mean factors and the mean product is recorded.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

import torch
from torch import Tensor

from models.language.lora_aggregation import FactorGap, aggregate_adapters, factor_gaps, total_gap
from models.language.trainable import Values, VectorLayout
from parties.horizontal.engine.cohort import (
    Cohort,
    MeanUpdate,
    Member,
    WeightedMean,
    quorum_updates,
)
from parties.horizontal.engine.cohort_wrappers import CohortWrapper
from parties.horizontal.local.local_task import LocalTask, LocalUpdate, Slots

MAX_MEASURED = 4  # largest round, in clients, for which the gap is measured: it keeps all updates


class LanguageCohort(CohortWrapper):
    """A cohort that counts tokens and aggregates adapters.

    Args:
        cohort: the clients.
        count: receives the number of tokens of each update.
        factors: layout of adapters of which A and B are trained; None without adapters, or if A is
            frozen.
        products: true to aggregate the products B A; false for the mean of the factors.
        hidden: true if secure aggregation hides the updates of single clients.

    Attributes:
        gaps: by round, the distance of the product of mean factors to the mean product.
    """

    def __init__(
        self,
        cohort: Cohort,
        count: Callable[[int], None],
        *,
        factors: VectorLayout | None,
        products: bool,
        hidden: bool,
    ) -> None:
        super().__init__(cohort)
        self._count, self._factors = count, factors
        self._products, self._hidden = products, hidden
        self.gaps: list[FactorGap] = []

    def updates(
        self, members: Iterable[Member], task: LocalTask, slots: Slots
    ) -> Iterator[tuple[Member, LocalUpdate]]:
        """Yield the update of each member that replies, as it arrives; slots are ``[d]``."""
        for member, update in self._cohort.updates(members, task, slots):
            self._count(update.tokens)
            yield member, update

    def mean_update(self, members: Sequence[Member], task: LocalTask, slots: Slots) -> MeanUpdate:
        """Return the mean update, or the update to the aggregated adapters; slots are ``[d]``."""
        if self._hidden:
            return self._cohort.mean_update(members, task, slots)
        layout = self._factors
        if layout is not None and self._products:
            return self._product_mean(layout, members, task, slots)
        kept: list[LocalUpdate] | None = [] if layout and len(members) <= MAX_MEASURED else None
        total = WeightedMean()
        for member, update in self.updates(members, task, slots):
            total.add(member, update)
            if kept is not None:
                kept.append(update)
        mean = total.result(members, self.quorum)
        if layout is not None and kept:
            clients = [layout.unflatten(slots["model"] + each.delta) for each in kept]
            self._record_gap(clients, [each.rows for each in kept])
        return mean

    def _record_gap(self, clients: Sequence[Values], rows: Sequence[int]) -> None:
        self.gaps.append(total_gap(factor_gaps(clients, rows)))

    def _product_mean(
        self, layout: VectorLayout, members: Sequence[Member], task: LocalTask, slots: Slots
    ) -> MeanUpdate:
        found = dict(quorum_updates(self, members, task, slots))
        model, rows = slots["model"], [each.rows for each in found.values()]
        clients = [layout.unflatten(model + each.delta) for each in found.values()]
        self._record_gap(clients, rows)
        merged = layout.flatten(aggregate_adapters("product_svd", clients, rows))
        loss = sum(each.loss * each.rows for each in found.values()) / sum(rows)
        absent = tuple(each for each in members if each not in found)
        change: Tensor = merged.to(torch.float64) - model.to(torch.float64)
        return MeanUpdate(change, sum(rows), loss, absent)
