"""Randomness of a request's own, so that no two requests ask for one and the same sum.

With the same model and the same batches, two sums that differ by one client show that client's
update exactly, and a Retrain begins anew at every request.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from parties.horizontal.engine.cohort import Cohort, Mean, Member
from parties.horizontal.engine.cohort_wrapper import PassedOn
from parties.horizontal.local.local_task import Learned, Lesson, Slots


class Salted(PassedOn):
    """See ``Cohort``; the streams of all lessons end in ``salt``."""

    def __init__(self, cohort: Cohort, salt: str) -> None:
        super().__init__(cohort)
        self._salt = salt

    def each(
        self, members: Iterable[Member], lesson: Lesson, slots: Slots
    ) -> Iterator[tuple[Member, Learned]]:
        """See ``Cohort``."""
        return self._cohort.each(members, self._own(lesson), slots)

    def mean(self, members: Sequence[Member], lesson: Lesson, slots: Slots) -> Mean:
        """See ``Cohort``."""
        return self._cohort.mean(members, self._own(lesson), slots)

    def _own(self, lesson: Lesson) -> Lesson:
        return replace(lesson, stream=lesson.stream + self._salt)
