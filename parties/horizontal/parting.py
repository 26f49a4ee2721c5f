"""Clients that go over to a new line of models when recovery begins, so that the old one stays.

What is a client's own learns in every round. Without this the model between the rounds that unlearn
and those that recover would be measured with own parameters of after the recovery.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from torch import Tensor

from parties.horizontal.cohort import Cohort, Kind, Mean, Member, Score, Whose
from parties.horizontal.learning.lesson import Learned, Lesson, Slots

RECOVERY = ("recover", "repair")  # second words of the streams of recovery's lessons


class Parting:
    """See ``Cohort``; ``part`` goes over to the new line and names it.

    Attributes:
        line: the new one, once recovery has begun.
    """

    def __init__(self, cohort: Cohort, part: Callable[[], str]) -> None:
        self._cohort, self._part = cohort, part
        self.line: str | None = None

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
        self._look(lesson)
        return self._cohort.each(members, lesson, slots)

    def mean(self, members: Sequence[Member], lesson: Lesson, slots: Slots) -> Mean:
        """See ``Cohort``."""
        self._look(lesson)
        return self._cohort.mean(members, lesson, slots)

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

    def _look(self, lesson: Lesson) -> None:
        if self.line is None and lesson.stream.split()[1:2] in ([each] for each in RECOVERY):
            self.line = self._part()
