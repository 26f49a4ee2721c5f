"""What a cohort around another one passes on as it is."""

from collections.abc import Mapping, Sequence

from torch import Tensor

from parties.horizontal.engine.cohort import Cohort, Kind, Score, Whose


class PassedOn:
    """All of ``Cohort`` but the lessons, for those that look at lessons on their way."""

    def __init__(self, cohort: Cohort) -> None:
        self._cohort = cohort

    @property
    def clients(self) -> Sequence[str]:
        """See ``Cohort``."""
        return self._cohort.clients

    @property
    def quorum(self) -> float:
        """See ``Cohort``."""
        return self._cohort.quorum

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
