"""Wrapper of a cohort that counts tokens and aggregates the adapters of a language model.

An adapter changes a weight by ΔW = (α/r) B A. If the factors A and B are averaged over clients, the
product of the two means differs from the mean of the clients' products. With ``product_svd``, the
new adapters are the best approximation of the mean product by adapters of the same rank. The
records contain the distance between two matrices: the mean B times the mean A, and the mean of the
products B A.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

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
from parties.horizontal.local.local_task import (
    LocalTask,
    LocalUpdate,
    ParameterSource,
    RowMetrics,
    Slots,
)
from parties.horizontal.local.rows import RowKind

MAX_MEASURED = 4  # largest round, in clients, for which the gap is measured: it keeps all updates


class LanguageCohort:
    """A cohort that counts tokens and aggregates adapters; other calls go to the clients.

    Args:
        cohort: the clients.
        count: function that is called for each update, with the number of tokens that the client's
            model processed.
        factors: layout of the adapters; None if there are no adapters or the factors A are frozen.
        products: true to aggregate the products B A; false to average the factors.
        hidden: true if secure aggregation hides the updates of single clients.

    Attributes:
        gaps: for each measured round, the distance between the product of the mean factors and
            the mean product.
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
        self._cohort = cohort
        self._count, self._factors = count, factors
        self._products, self._hidden = products, hidden
        self.gaps: list[FactorGap] = []

    @property
    def clients(self) -> Sequence[str]:
        """Names of all clients."""
        return self._cohort.clients

    @property
    def quorum(self) -> float:
        """Smallest fraction of the members that must reply."""
        return self._cohort.quorum

    def evaluate(
        self,
        names: Sequence[str],
        kind: RowKind,
        model: Tensor,
        parameters: ParameterSource = "personal",
    ) -> Mapping[str, RowMetrics]:
        """Return the metrics of a model, ``[d]``, at each client of ``names`` that is connected."""
        return self._cohort.evaluate(names, kind, model, parameters)

    def switch_branch(self, branch: str, parent: str | None) -> None:
        """Switch all clients to a branch, that is, to a named set of personal parameters."""
        self._cohort.switch_branch(branch, parent)

    def select_request(self, request: str) -> None:
        """Select the request to which the row kinds ``forgotten`` and ``retained`` refer."""
        self._cohort.select_request(request)

    def purge(self) -> dict[str, list[str]]:
        """Delete the forgotten rows at every client; return what each client deleted."""
        return self._cohort.purge()

    def updates(
        self, members: Iterable[Member], task: LocalTask, slots: Slots
    ) -> Iterator[tuple[Member, LocalUpdate]]:
        """Yield each update as soon as it arrives; ``slots`` are vectors by name, ``[d]`` each."""
        for member, update in self._cohort.updates(members, task, slots):
            self._count(update.tokens)
            yield member, update

    def mean_update(self, members: Sequence[Member], task: LocalTask, slots: Slots) -> MeanUpdate:
        """Return the mean update; ``slots`` are vectors by name, ``[d]`` each.

        If products are aggregated, the mean update is the difference between the vector of the
        aggregated adapters and the vector of the model.
        """
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
