"""Clients that live in this process, one after the other: for tests and small simulations."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from torch import Tensor

from parties.horizontal.engine.cohort import Kind, Mean, Member, Score, Summing, Whose
from parties.horizontal.local.learner import Learner
from parties.horizontal.local.local_task import Learned, Lesson, Slots

Present = Callable[[Member, Lesson], bool]


class LocalCohort:
    """See ``Cohort``; ``present`` says who answers, so that drop-outs can be tried."""

    def __init__(
        self,
        learners: Mapping[str, Learner],
        quorum: float = 1.0,
        present: Present = lambda _member, _lesson: True,
    ) -> None:
        self._learners, self.quorum, self._present = learners, quorum, present

    @property
    def clients(self) -> Sequence[str]:
        """All of them, by name."""
        return list(self._learners)

    def each(
        self, members: Iterable[Member], lesson: Lesson, slots: Slots
    ) -> Iterator[tuple[Member, Learned]]:
        """See ``Cohort``."""
        for member in members:
            if self._present(member, lesson):
                learner = self._learners[member.client]
                yield member, learner.answer(member.kind, lesson, slots)

    def mean(self, members: Sequence[Member], lesson: Lesson, slots: Slots) -> Mean:
        """See ``Cohort``."""
        total = Summing()
        for member, learned in self.each(members, lesson, slots):
            total.add(member, learned)
        return total.mean(members, self.quorum)

    def read(
        self, names: Sequence[str], kind: Kind, model: Tensor, whose: Whose = "own"
    ) -> Mapping[str, Score]:
        """See ``Cohort``."""
        return {name: self._learners[name].measure(kind, model, whose) for name in names}

    def follow(self, line: str, parent: str | None) -> None:
        """See ``Cohort``."""
        for each in self._learners.values():
            each.follow(line, parent)

    def attend(self, request: str) -> None:
        """See ``Cohort``; its clients know by themselves what must go."""

    def purge(self) -> dict[str, list[str]]:
        """See ``Cohort``."""
        return {}
