"""Clients that go over to a new line of models when recovery begins, so that the old one stays.

What is a client's own learns in every round. Without this the model between the rounds that unlearn
and those that recover would be measured with own parameters of after the recovery.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

from parties.horizontal.engine.cohort import Cohort, Mean, Member
from parties.horizontal.engine.cohort_wrapper import PassedOn
from parties.horizontal.local.local_task import Learned, Lesson, Slots

RECOVERY = ("recover", "repair")  # second words of the streams of recovery's lessons


class Parting(PassedOn):
    """See ``Cohort``; ``part`` goes over to the new line and names it.

    Attributes:
        line: the new one, once recovery has begun.
    """

    def __init__(self, cohort: Cohort, part: Callable[[], str]) -> None:
        super().__init__(cohort)
        self._part = part
        self.line: str | None = None

    def each(
        self, members: Iterable[Member], lesson: Lesson, slots: Slots
    ) -> Iterator[tuple[Member, Learned]]:
        """See ``Cohort``."""
        self._look(lesson)
        return self._cohort.each(members, lesson, slots)

    def mean(self, members: Sequence[Member], lesson: Lesson, slots: Slots) -> Mean:
        """See ``Cohort``."""
        self._look(lesson)
        return self._cohort.mean(members, lesson, slots)

    def _look(self, lesson: Lesson) -> None:
        if self.line is None and lesson.stream.split()[1:2] in ([each] for each in RECOVERY):
            self.line = self._part()
