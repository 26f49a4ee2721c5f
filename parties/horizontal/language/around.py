"""A cohort whose adapters are merged by their products, and the gap of the plain mean.

The mean of factors is not the mean of products (ΔW = (α/r) B A). Either way the distance is told;
with ``product_svd`` the step is that of the mean product, cut to the rank.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import torch
from torch import Tensor

from models.language.lora_aggregation import aggregate, factor_gap, total_gap
from models.language.trainable import Layout
from parties.errors import PolicyError
from parties.horizontal.cohort import Cohort, Kind, Mean, Member, Score, Whose, answers
from parties.horizontal.learning.lesson import Learned, Lesson, Slots


class ByProducts:
    """See ``Cohort``.

    Attributes:
        gaps: of every round, ‖mean product − product of mean factors‖ over ‖mean product‖.
    """

    def __init__(self, cohort: Cohort, layout: Layout) -> None:
        self._cohort, self._layout = cohort, layout
        self.gaps: list[float] = []

    @property
    def clients(self) -> Sequence[str]:
        """See ``Cohort``."""
        return self._cohort.clients

    @property
    def quorum(self) -> float:
        """See ``Cohort``."""
        return self._cohort.quorum

    def each(
        self, members: Iterable[Member], lesson: Lesson, slots: Slots
    ) -> Iterator[tuple[Member, Learned]]:
        """See ``Cohort``."""
        return self._cohort.each(members, lesson, slots)

    def mean(self, members: Sequence[Member], lesson: Lesson, slots: Slots) -> Mean:
        """See ``Cohort``: the step to the adapters whose product is nearest the mean product."""
        found = dict(answers(self._cohort, members, lesson, slots))
        if not found:
            raise PolicyError("a mean of nobody")
        model, rows = slots["model"], [each.rows for each in found.values()]
        clients = [self._layout.named(model + each.change) for each in found.values()]
        self.gaps.append(total_gap(factor_gap(clients, rows)).relative)
        merged = self._layout.flat(aggregate("product_svd", clients, rows))
        loss = sum(each.loss * each.rows for each in found.values()) / sum(rows)
        absent = tuple(each for each in members if each not in found)
        change: Tensor = merged.to(torch.float64) - model.to(torch.float64)
        return Mean(change, sum(rows), loss, absent)

    def read(
        self, names: Sequence[str], kind: Kind, model: Tensor, whose: Whose = "own"
    ) -> Mapping[str, Score]:
        """See ``Cohort``."""
        return self._cohort.read(names, kind, model, whose)

    def follow(self, line: str, parent: str | None) -> None:
        """See ``Cohort``."""
        self._cohort.follow(line, parent)

    def attend(self, request: str) -> None:
        """See ``Cohort``."""
        self._cohort.attend(request)

    def purge(self) -> dict[str, list[str]]:
        """See ``Cohort``."""
        return self._cohort.purge()
