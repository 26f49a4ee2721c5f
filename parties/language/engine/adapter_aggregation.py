"""The clients of a language model: their tokens are told, and adapters merged as was agreed on.

The mean of factors is not the mean of products (ΔW = (α/r) B A). With ``product_svd`` the step is
that of the mean product, cut to the rank. How far the product of mean factors is from the mean
product, or would have been, is told.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

import torch
from torch import Tensor

from models.language.lora_aggregation import Gap, aggregate, factor_gap, total_gap
from models.language.trainable import Layout, Values
from parties.horizontal.engine.cohort import (
    Cohort,
    Mean,
    Member,
    Summing,
    answers,
)
from parties.horizontal.engine.cohort_wrapper import PassedOn
from parties.horizontal.local.local_task import Learned, Lesson, Slots

MEASURED = 4  # members of a round whose factors are kept to its end; of more no gap is told


class TextCohort(PassedOn):
    """See ``Cohort``.

    Args:
        count: is told the tokens of every lesson that was heard.
        factors: the layout of adapters that are all taught; None: there are none, or A stays.
        products: whether their products are merged; otherwise it is the plain mean.
        hidden: whether nobody sees a single update.

    Attributes:
        gaps: by round, how far the product of mean factors is from the mean product.
    """

    def __init__(
        self,
        cohort: Cohort,
        count: Callable[[int], None],
        *,
        factors: Layout | None,
        products: bool,
        hidden: bool,
    ) -> None:
        super().__init__(cohort)
        self._count, self._factors = count, factors
        self._products, self._hidden = products, hidden
        self.gaps: list[Gap] = []

    def each(
        self, members: Iterable[Member], lesson: Lesson, slots: Slots
    ) -> Iterator[tuple[Member, Learned]]:
        """See ``Cohort``."""
        for member, learned in self._cohort.each(members, lesson, slots):
            self._count(learned.tokens)
            yield member, learned

    def mean(self, members: Sequence[Member], lesson: Lesson, slots: Slots) -> Mean:
        """See ``Cohort``: the mean, or the step to the adapters nearest the mean product."""
        if self._hidden:
            return self._cohort.mean(members, lesson, slots)
        layout = self._factors
        if layout is not None and self._products:
            return self._merged(layout, members, lesson, slots)
        kept: list[Learned] | None = [] if layout and len(members) <= MEASURED else None
        total = Summing()
        for member, learned in self.each(members, lesson, slots):
            total.add(member, learned)
            if kept is not None:
                kept.append(learned)
        mean = total.mean(members, self.quorum)
        if layout is not None and kept:
            clients = [layout.named(slots["model"] + each.change) for each in kept]
            self._measure(clients, [each.rows for each in kept])
        return mean

    def _measure(self, clients: Sequence[Values], rows: Sequence[int]) -> None:
        self.gaps.append(total_gap(factor_gap(clients, rows)))

    def _merged(
        self, layout: Layout, members: Sequence[Member], lesson: Lesson, slots: Slots
    ) -> Mean:
        found = dict(answers(self, members, lesson, slots))
        model, rows = slots["model"], [each.rows for each in found.values()]
        clients = [layout.named(model + each.change) for each in found.values()]
        self._measure(clients, rows)
        merged = layout.flat(aggregate("product_svd", clients, rows))
        loss = sum(each.loss * each.rows for each in found.values()) / sum(rows)
        absent = tuple(each for each in members if each not in found)
        change: Tensor = merged.to(torch.float64) - model.to(torch.float64)
        return Mean(change, sum(rows), loss, absent)
